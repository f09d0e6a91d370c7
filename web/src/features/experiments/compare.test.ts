import { expect, it } from "vitest";
import { type Logged, makeColumn } from "./columns";
import { axisOf, differences, firstAxes } from "./compare";

const run = (metrics: Record<string, number | "NaN">, parameters: Record<string, string>) =>
  ({
    metrics: Object.entries(metrics).map(([key, value]) => ({ key, value })),
    parameters: Object.entries(parameters).map(([key, value]) => ({ key, value })),
    tags: [],
  }) as unknown as Logged;

const runs = [
  run({ loss: 0.1, acc: 0.123456 }, { lr: "0.1", seed: "7", model: "tree" }),
  run({ loss: 0.2, acc: 0.123457 }, { lr: "1e-2", seed: "7", model: "net", depth: "3" }),
];

it("marks parameters that differ, or that a run does not have", () => {
  expect(differences(runs, "params").map((d) => [d.column.key, d.values, d.differs])).toEqual([
    ["depth", [undefined, "3"], true],
    ["lr", ["0.1", "1e-2"], true],
    ["model", ["tree", "net"], true],
    ["seed", ["7", "7"], false],
  ]);
});

it("compares metrics by all their digits", () => {
  expect(differences(runs, "metrics").map((d) => [d.values, d.differs])).toEqual([
    [["0.12346", "0.12346"], true],
    [["0.1", "0.2"], true],
  ]);
});

it("has an axis of numbers, or of categories if a value is none", () => {
  expect(axisOf(runs, makeColumn("params", "lr"))).toMatchObject({ categories: null, values: [0.1, 0.01] });
  expect(axisOf(runs, makeColumn("params", "depth"))).toMatchObject({ categories: null, values: [null, 3] });
  expect(axisOf(runs, makeColumn("params", "model"))).toMatchObject({
    categories: ["net", "tree"],
    values: ["tree", "net"],
  });
  const strange = [run({ loss: "NaN" }, { lr: "" }), run({}, { lr: "1" })];
  expect(axisOf(strange, makeColumn("metrics", "loss")).values).toEqual([null, null]);
  expect(axisOf(strange, makeColumn("params", "lr")).categories).toEqual(["", "1"]);
});

it("begins with parameters that differ, then metrics", () => {
  expect(firstAxes(runs, 2, 1).map((c) => c.id)).toEqual(["params.depth", "params.lr", "metrics.acc"]);
});
