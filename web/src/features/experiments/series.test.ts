import { expect, it } from "vitest";
import type { Look } from "./look";
import { groupMetrics, lineOf, type Point, smooth } from "./series";
import { formatMetric } from "./value";

const look: Look = { x: "step", log: false, smoothing: 0 };
const point = (step: number, value: Point["value"], at = step * 1000): Point => ({ step, value, at });

it("smooths without a pull toward zero at the start", () => {
  expect(smooth([4, 4, 4], 0.9).map((v) => v.toFixed(6))).toEqual(["4.000000", "4.000000", "4.000000"]);
  const [a, b] = smooth([0, 1], 0.5) as [number, number];
  expect(a).toBe(0);
  expect(b).toBeCloseTo(2 / 3);
});

it("leaves out values that are not finite, and says how many", () => {
  const line = lineOf([point(0, 1), point(1, "NaN"), point(2, "Infinity"), point(3, 2)], look, 0);
  expect(line).toEqual({
    raw: [
      [0, 1],
      [3, 2],
    ],
    smooth: null,
    notFinite: 2,
    notPositive: 0,
  });
});

it("leaves out what a log scale cannot show", () => {
  const line = lineOf([point(0, -1), point(1, 0), point(2, 5)], { ...look, log: true }, 0);
  expect(line.raw).toEqual([[2, 5]]);
  expect(line.notPositive).toBe(2);
});

it("draws by step, by time, and by the time since the start", () => {
  const points = [point(5, 1, 10_000), point(2, 2, 11_000)];
  expect(lineOf(points, look, 0).raw.map((p) => p[0])).toEqual([2, 5]);
  expect(lineOf(points, { ...look, x: "time" }, 0).raw.map((p) => p[0])).toEqual([10_000, 11_000]);
  expect(lineOf(points, { ...look, x: "relative" }, 9_000).raw.map((p) => p[0])).toEqual([1_000, 2_000]);
});

it("smooths in the order of the axis", () => {
  const { smooth: line } = lineOf([point(1, 0), point(0, 4)], { ...look, smoothing: 0.5 }, 0);
  expect(line?.[0]).toEqual([0, 4]);
});

it("groups metrics by the text before the slash", () => {
  expect(groupMetrics(["val/loss", "loss", "train/loss", "system/cpu", "val/acc", "/odd"])).toEqual([
    { prefix: "", keys: ["/odd", "loss"] },
    { prefix: "train", keys: ["train/loss"] },
    { prefix: "val", keys: ["val/acc", "val/loss"] },
    { prefix: "system", keys: ["system/cpu"] },
  ]);
});

it.each([
  [0.123456789, "0.12346"],
  [123456789, "123456789"],
  [1.5e-9, "1.5e-9"],
  [1e300, "1e300"],
  [-0.5, "-0.5"],
  ["NaN", "NaN"],
])("writes %s", (v, text) => {
  expect(formatMetric(v)).toBe(text);
});
