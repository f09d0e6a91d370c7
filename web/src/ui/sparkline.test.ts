import { expect, it } from "vitest";
import { type Frame, sparkPaths } from "./sparkline";

const frame: Frame = { from: 0, to: 100, top: 2, width: 200, height: 10, least: 0, gap: 20 };

it("draws points from the bottom to the top, and the area under them", () => {
  const { line, area } = sparkPaths(
    [
      { at: 0, value: 0 },
      { at: 10, value: 1 },
      { at: 20, value: 2 },
    ],
    frame,
  );
  expect(line).toBe("M0 10L20 5L40 0");
  expect(area).toBe("M0 10L0 10L20 5L40 0L40 10Z");
});

it("keeps a line at or near 0 above the bottom", () => {
  const { line, area } = sparkPaths(
    [
      { at: 0, value: 0 },
      { at: 10, value: 0.01 },
      { at: 20, value: 1 },
    ],
    { ...frame, least: 1.5 },
  );
  expect(line).toBe("M0 8.5L20 8.5L40 5");
  expect(area).toBe("M0 10L0 8.5L20 8.5L40 5L40 10Z");
});

it("interrupts the line where nothing was measured", () => {
  const { line, area } = sparkPaths(
    [
      { at: 0, value: 1 },
      { at: 50, value: 1 },
      { at: 60, value: 1 },
    ],
    frame,
  );
  expect(line).toBe("M0 5M100 5L120 5");
  expect(area.match(/Z/g)).toHaveLength(2);
});

it("stays in the frame: older points are left out, larger values are at the top", () => {
  expect(
    sparkPaths(
      [
        { at: -1, value: 1 },
        { at: 0, value: 9 },
        { at: 101, value: 1 },
      ],
      frame,
    ).line,
  ).toBe("M0 0");
  expect(sparkPaths([{ at: 0, value: 1 }], { ...frame, top: 0 }).line).toBe("M0 10");
  expect(sparkPaths([], frame)).toEqual({ line: "", area: "" });
});
