import { formatAgo, plural } from "@/lib/format";
import type { DagKind, DagTask } from "@/ui/Dag";
import type { Graph, GraphEdge, GraphNode } from "./queries";

const kinds: Record<GraphNode["kind"], DagKind> = {
  TABLE: "table",
  DATASET: "outside",
  TASK: "task",
  STATEMENT: "statement",
  EXTERNAL_JOB: "outside",
};

export const isTable = (n: GraphNode) => n.kind === "TABLE" || n.kind === "DATASET";

/** The title of a node: a table's schema and name, a task's job and key. */
export function titleOf(n: GraphNode): string {
  if (n.kind === "TABLE") return n.name.split(".").slice(1).join(".");
  return n.taskKey ? `${n.name} / ${n.taskKey}` : n.name;
}

/** The edges of a node: those that end at it, and those that begin at it. */
export const edgesOf = (g: Graph, n: GraphNode) => ({
  before: g.edges.filter((e) => e.to === n.id),
  after: g.edges.filter((e) => e.from === n.id),
});

const latest = (edges: readonly GraphEdge[]) =>
  edges
    .map((e) => e.at)
    .sort()
    .at(-1);

function detailOf(g: Graph, n: GraphNode, now: number): string {
  if (n.dropped) return "dropped";
  if (n.id === g.root) return "this table";
  if (isTable(n)) return n.namespace ?? "";
  const { before, after } = edgesOf(g, n);
  const at = latest([...before, ...after]);
  return [n.by, at && formatAgo(at, now)].filter(Boolean).join(", ");
}

/** The graph as tasks to draw: sources, their readers, and the readers' targets. */
export const asTasks = (g: Graph, now: number): DagTask[] =>
  g.nodes.map((n) => ({
    key: n.id,
    kind: kinds[n.kind],
    title: titleOf(n),
    dependsOn: g.edges.filter((e) => e.to === n.id).map((e) => e.from),
    detail: detailOf(g, n, now),
  }));

/** A count in words: 10,000 means at least 10,000. */
export const times = (count: string) =>
  count === "10000" ? "10,000 times or more" : plural(Number(count), "time");
