import { afterEach, expect, it, vi } from "vitest";
import { type History, historyAtMost, positionOf, readHistory, withNews } from "./history";

const page = (from: number, n: number, more: boolean) => ({
  data: {
    trackingRun: {
      __typename: "TrackingRun",
      id: "r",
      points: {
        points: Array.from({ length: n }, (_, i) => ({ step: String(from + i), timestamp: "1", value: 1 })),
        pageInfo: { hasNextPage: more, endCursor: n ? `c${from + n}` : null },
      },
    },
  },
});

/** Answers with pages of a history of `total` points. */
function serve(total: number, size = 1000) {
  const asked: (string | null)[] = [];
  vi.stubGlobal("fetch", (_: string, init: { body: string }) => {
    const { after } = JSON.parse(init.body).variables as { after: string | null };
    asked.push(after);
    const from = after ? Number(after.slice(1)) : 0;
    const n = Math.min(size, total - from);
    return Promise.resolve(Response.json(page(from, n, from + n < total)));
  });
  return asked;
}

afterEach(() => vi.unstubAllGlobals());

it("reads all pages", async () => {
  const asked = serve(2500);
  const h = await readHistory("r", "loss");
  expect(asked).toEqual([null, "c1000", "c2000"]);
  expect([h.points.length, h.cursor, h.more]).toEqual([2500, "c2500", false]);
  expect(h.points[1]).toEqual({ step: 1, at: 1, value: 1 });
});

it("stops at the most points that a chart holds", async () => {
  const asked = serve(historyAtMost + 1);
  const h = await readHistory("r", "loss");
  expect(asked.length).toBe(historyAtMost / 1000);
  expect([h.points.length, h.more]).toEqual([historyAtMost, true]);
});

it("continues where the known points end", async () => {
  serve(1500);
  const known = await readHistory("r", "loss");
  const asked = serve(1600);
  const h = await readHistory("r", "loss", known);
  expect(asked).toEqual(["c1500"]);
  expect([h.points.length, h.cursor]).toEqual([1600, "c1600"]);
  serve(1600);
  expect(await readHistory("r", "loss", h)).toEqual(h);
});

const few: History = { points: [{ step: 0, at: 1, value: 1 }], cursor: "c1", more: false };

it("adds new points, and follows them from there", () => {
  const h = withNews(few, {
    points: [{ step: "1", timestamp: "2", value: "NaN" }],
    cursor: "c2",
    reset: false,
  });
  expect(h.points.at(-1)).toEqual({ step: 1, at: 2, value: "NaN" });
  expect(positionOf("loss", h)).toEqual({ key: "loss", total: "2", cursor: "c2" });
});

it("is read again from its start after a reset, and shows the old points until then", async () => {
  const h = withNews(few, { points: [], cursor: "c9", reset: true });
  expect([h.points.length, positionOf("loss", h)]).toEqual([1, null]);
  serve(3);
  expect((await readHistory("r", "loss", h)).points.length).toBe(3);
});

it("holds no more points than a chart may", () => {
  const full = { ...few, points: Array.from({ length: historyAtMost }, () => few.points[0]) } as History;
  const h = withNews(full, { points: [{ step: "1", timestamp: "2", value: 3 }], cursor: "c2", reset: false });
  expect([h.points.length, h.more]).toEqual([historyAtMost, true]);
});
