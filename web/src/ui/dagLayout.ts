import { graphlib, layout } from "@dagrejs/dagre";

export const nodeWidth = 176;
export const nodeHeight = 48;

export interface DagShape {
  /** Ids of the nodes, in the order of the tasks. */
  ids: readonly string[];
  /** Pairs of indexes: from a dependency to its dependent. */
  edges: readonly (readonly [number, number])[];
}
export type Positions = readonly { x: number; y: number }[];

/**
 * Nodes and edges of tasks. An undeclared dependency has no edge; of two tasks with the same key
 * the first counts.
 */
export function dagShape(tasks: readonly { key: string; dependsOn: readonly string[] }[]): DagShape {
  const index = new Map<string, number>();
  tasks.forEach((t, i) => {
    if (!index.has(t.key)) index.set(t.key, i);
  });
  const edges = tasks.flatMap((t, to) =>
    [...new Set(t.dependsOn)].flatMap((d) => {
      const from = index.get(d);
      return from === undefined || from === to ? [] : [[from, to] as const];
    }),
  );
  return { ids: tasks.map((_, i) => String(i)), edges };
}

/** The position of each node, left to right. */
export function layoutDag({ ids, edges }: DagShape): Positions {
  const g = new graphlib.Graph();
  g.setGraph({
    rankdir: "LR",
    nodesep: 16,
    ranksep: 52,
    ranker: ids.length > 60 ? "tight-tree" : "network-simplex",
  });
  g.setDefaultEdgeLabel(() => ({}));
  ids.forEach((id) => {
    g.setNode(id, { width: nodeWidth, height: nodeHeight });
  });
  edges.forEach(([from, to]) => {
    g.setEdge(ids[from] as string, ids[to] as string);
  });
  layout(g);
  return ids.map((id) => {
    const n = g.node(id);
    return { x: (n.x ?? 0) - nodeWidth / 2, y: (n.y ?? 0) - nodeHeight / 2 };
  });
}
