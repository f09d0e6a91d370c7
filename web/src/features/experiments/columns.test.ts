import { expect, it } from "vitest";
import {
  columnsIn,
  groupRuns,
  type Logged,
  makeColumn,
  meanIn,
  nextSort,
  noColumns,
  shownColumns,
  textIn,
} from "./columns";
import { columnOf, filterOf, orderOf } from "./search";

const pairs = (o: Record<string, string>) => Object.entries(o).map(([key, value]) => ({ key, value }));

/** A run with what it logged. */
function run(
  name: string,
  metrics: Record<string, number | "NaN"> = {},
  parameters: Record<string, string> = {},
  tags: Record<string, string> = {},
): Logged {
  return {
    id: name,
    name,
    metrics: Object.entries(metrics).map(([key, value]) => ({ key, value, step: "0" })),
    parameters: pairs(parameters),
    tags: pairs(tags),
  } as unknown as Logged;
}

const runs = [
  run("a", { loss: 0.123456, "val/loss": 2 }, { model: "tree", depth: "3" }, { team: "x" }),
  run("b", { loss: 0.5 }, { model: "net" }),
  run("c", { loss: "NaN" }, { model: "tree" }),
  run("d"),
];

it("finds every metric, parameter and tag of the runs, by kind and key", () => {
  expect(columnsIn(runs).map((c) => c.id)).toEqual([
    "metrics.loss",
    "metrics.val/loss",
    "params.depth",
    "params.model",
    "tags.team",
  ]);
});

it("keeps dots of a key in a column's id", () => {
  expect(columnOf("tags.mlflow.user")).toEqual({ id: "tags.mlflow.user", kind: "tags", key: "mlflow.user" });
  expect([columnOf("loss"), columnOf("metrics."), columnOf("other.x"), columnOf(noColumns)]).toEqual([
    null,
    null,
    null,
    null,
  ]);
});

it("shows few metrics and parameters unless columns are chosen", () => {
  const many = columnsIn([run("a", { "system/cpu": 1, a: 1, x: 1, y: 1, z: 1 }, { p: "1" }, { t: "1" })]);
  expect(shownColumns(undefined, many).map((c) => c.key)).toEqual(["a", "x", "y", "p"]);
  expect(shownColumns(["tags.t", "nonsense"], many).map((c) => c.key)).toEqual(["t"]);
  expect(shownColumns([noColumns], many)).toEqual([]);
});

it("shortens metrics, and leaves parameters as logged", () => {
  const [a, , c] = runs as [Logged, Logged, Logged];
  expect(textIn(a, makeColumn("metrics", "loss"))).toBe("0.12346");
  expect(textIn(c, makeColumn("metrics", "loss"))).toBe("NaN");
  expect(textIn(a, makeColumn("params", "depth"))).toBe("3");
  expect(textIn(a, makeColumn("params", "none"))).toBeUndefined();
});

it.each([
  [undefined, []],
  ["metrics.val/loss", ["metrics.`val/loss` ASC"]],
  ["-metrics.a`b", ['metrics."a`b" DESC']],
  ["-start_time", ["attributes.start_time DESC"]],
  ["nonsense", []],
])("orders by %s", (sort, order) => {
  expect(orderOf(sort)).toEqual(order);
});

it("sorts up, down, and not at all", () => {
  expect(nextSort(undefined, "a")).toBe("a");
  expect(nextSort("a", "a")).toBe("-a");
  expect(nextSort("-a", "a")).toBeUndefined();
  expect(nextSort("b", "a")).toBe("a");
});

it.each([
  ["churn", "name ILIKE '%churn%'"],
  [" like that ", "name ILIKE '%like that%'"],
  ["50%_\\", "name ILIKE '%50\\%\\_\\\\%'"],
  ["it's", 'name ILIKE "%it\'s%"'],
  ["what is new", "name ILIKE '%what is new%'"],
  ["name LIKE 'a%'", "name LIKE 'a%'"],
  ["tags.a IS NOT NULL", "tags.a IS NOT NULL"],
  ["run_id IN ('a')", "run_id IN ('a')"],
  ["metrics.loss<1", "metrics.loss<1"],
  ["  ", null],
])("searches %s", (text, filter) => {
  expect(filterOf(text, "name")).toBe(filter);
});

it("groups by a parameter; runs without it come last", () => {
  const groups = groupRuns([...runs].reverse(), makeColumn("params", "model"));
  expect(groups.map((g) => [g.value, g.runs.map((r) => r.name)])).toEqual([
    ["tree", ["c", "a"]],
    ["net", ["b"]],
    [null, ["d"]],
  ]);
});

it("has a mean of the values that are numbers", () => {
  expect(meanIn(runs, makeColumn("metrics", "loss"))).toBeCloseTo(0.311728);
  expect(meanIn(runs.slice(2), makeColumn("metrics", "loss"))).toBeNull();
});
