import { expect, it } from "vitest";
import { asTasks, edgesOf, times, titleOf } from "./graph";
import type { Graph, GraphEdge, GraphNode } from "./queries";

const node = (id: string, n: Partial<GraphNode>): GraphNode => ({
  __typename: "LineageNode",
  id,
  kind: "TABLE",
  name: `lake.public.${id}`,
  namespace: null,
  dropped: false,
  jobId: null,
  taskKey: null,
  runId: null,
  text: null,
  by: null,
  distance: 1,
  ...n,
});
const edge = (from: string, to: string, e: Partial<GraphEdge> = {}): GraphEdge => ({
  from,
  to,
  at: "2026-11-21T10:00:00Z",
  count: "1",
  direction: "READ",
  snapshotId: null,
  columns: null,
  statementId: null,
  runId: null,
  ...e,
});
const graph: Graph = {
  root: "b",
  at: "2026-11-21T12:00:00Z",
  truncated: false,
  nodes: [
    node("b", { distance: 0 }),
    node("w", { kind: "STATEMENT", name: "INSERT", by: "ada@example.org" }),
    node("a", { dropped: true }),
    node("t", { kind: "TASK", name: "nightly", taskKey: "load" }),
  ],
  edges: [
    edge("a", "w"),
    edge("w", "b", { direction: "WRITTEN", at: "2026-11-21T11:00:00Z" }),
    edge("b", "t"),
  ],
};

it("draws what was read before what read it, and that before what it wrote", () => {
  const drawn = asTasks(graph, Date.parse("2026-11-21T12:00:00Z"));
  expect(Object.fromEntries(drawn.map((t) => [t.key, t.dependsOn]))).toEqual({
    b: ["w"],
    w: ["a"],
    a: [],
    t: ["b"],
  });
  expect(drawn.map((t) => [t.kind, t.title, t.detail])).toEqual([
    ["table", "public.b", "this table"],
    ["statement", "INSERT", "ada@example.org, 1 hour ago"],
    ["table", "public.a", "dropped"],
    ["task", "nightly / load", "2 hours ago"],
  ]);
});

it("finds the edges that end and begin at a node", () => {
  const { before, after } = edgesOf(graph, node("b", {}));
  expect(before.map((e) => e.from)).toEqual(["w"]);
  expect(after.map((e) => e.to)).toEqual(["t"]);
  expect(titleOf(node("x", { kind: "TASK", name: "job" }))).toBe("job");
});

it("says how often, as far as it is counted", () => {
  expect([times("1"), times("3"), times("10000")]).toEqual(["1 time", "3 times", "10,000 times or more"]);
});
