import { afterEach, expect, it, vi } from "vitest";
import { type History, historyAtMost, positionOf, readHistory, withNews } from "./history";

/** Answers with a chart of `n` points of a history of `total`. */
function serve(n: number, total = n) {
  const points = Array.from({ length: n }, (_, i) => ({ step: String(i), timestamp: "1", value: 1 }));
  const chart = { points, total: String(total), cursor: n ? `c${total}` : null };
  vi.stubGlobal("fetch", () =>
    Promise.resolve(Response.json({ data: { trackingRun: { __typename: "TrackingRun", id: "r", chart } } })),
  );
}

afterEach(() => vi.unstubAllGlobals());

it("reads what a chart shows, and where to continue", async () => {
  serve(2000, 10_000_000);
  const h = await readHistory("r", "loss");
  expect(h.points.length).toBe(2000);
  expect(h.points[1]).toEqual({ step: 1, at: 1, value: 1 });
  expect(positionOf("loss", h)).toEqual({ key: "loss", total: "10000000", cursor: "c10000000" });
});

it("has no position before the first point", async () => {
  serve(0);
  expect(positionOf("loss", await readHistory("r", "loss"))).toBeNull();
});

const few: History = { points: [{ step: 0, at: 1, value: 1 }], total: 7, cursor: "c7" };

it("adds new points, and follows them from there", () => {
  const h = withNews(few, {
    points: [{ step: "1", timestamp: "2", value: "NaN" }],
    total: "8",
    cursor: "c8",
    reset: false,
  });
  expect(h.points).toEqual([few.points[0], { step: 1, at: 2, value: "NaN" }]);
  expect(positionOf("loss", h)).toEqual({ key: "loss", total: "8", cursor: "c8" });
});

it("is read again after a reset, and shows the old points until then", () => {
  const h = withNews(few, { points: [], total: "9", cursor: "c9", reset: true });
  expect([h.points, positionOf("loss", h)]).toEqual([few.points, null]);
});

it("is read again when it has more points than a chart draws", () => {
  const full = { ...few, points: Array.from({ length: historyAtMost }, () => few.points[0]) } as History;
  const news = { points: [{ step: "1", timestamp: "2", value: 3 }], total: "8", cursor: "c8", reset: false };
  expect(positionOf("loss", withNews(full, news))).toBeNull();
});
