import { expect, it, vi } from "vitest";
import { RequestError } from "./graphql";
import { ResultSource } from "./result";
import { scanRows } from "./rows";

const columns = [{ name: "n", type: "long" }];
const sizes = [3, 2, 4];
const piece = (n: number, size = sizes[n] ?? 0) => {
  const first = sizes.slice(0, n).reduce((a, b) => a + b, 0);
  return scanRows(JSON.stringify(Array.from({ length: size }, (_, i) => [first + i])), 0).rows;
};

it("loads only the visible pieces", async () => {
  const load = vi.fn(async (n: number) => piece(n));
  const r = new ResultSource(columns, load, sizes);
  expect(r.rowCount).toBe(9);
  expect(r.cell(4, 0)).toBeUndefined();
  r.want(4, 6);
  await vi.waitFor(() => expect(r.cell(5, 0)).toBe("5"));
  expect(r.cell(4, 0)).toBe("4");
  expect(r.cell(0, 0)).toBeUndefined();
  expect(load.mock.calls.map(([n]) => n)).toEqual([1, 2]);
  expect(r.whole).toBe(false);
});

it("aborts pieces that go out of sight, and loads them when they return", async () => {
  const signals: AbortSignal[] = [];
  const answers: (() => void)[] = [];
  const r = new ResultSource(
    columns,
    (n, signal) => {
      signals.push(signal);
      return new Promise((done) => {
        answers.push(() => done(piece(n)));
      });
    },
    sizes,
  );
  r.want(0, 1);
  r.want(8, 9);
  expect(signals[0]?.aborted).toBe(true);
  answers[0]?.();
  answers[1]?.();
  await vi.waitFor(() => expect(r.cell(8, 0)).toBe("8"));
  expect(r.cell(0, 0)).toBeUndefined();
  r.want(0, 1);
  answers[2]?.();
  await vi.waitFor(() => expect(r.cell(0, 0)).toBe("0"));
});

it("does not abort pieces that somebody waits for", async () => {
  const r = new ResultSource(columns, async (n) => piece(n), sizes);
  const all = r.need(0, 9);
  r.want(0, 1);
  await all;
  expect(r.whole).toBe(true);
  expect([0, 4, 8].map((i) => r.cell(i, 0))).toEqual(["0", "4", "8"]);
});

it("reports a failure, and retries only on request", async () => {
  const load = vi.fn(async (n: number) => {
    if (load.mock.calls.length === 1) throw new RequestError([{ message: "It is gone." }], 200);
    return piece(n);
  });
  const r = new ResultSource(columns, load, sizes);
  r.want(0, 1);
  await vi.waitFor(() => expect(String(r.failure?.error)).toContain("It is gone."));
  r.want(0, 1);
  expect(load).toHaveBeenCalledTimes(1);
  r.retry();
  await vi.waitFor(() => expect(r.cell(0, 0)).toBe("0"));
  expect(r.failure).toBeNull();
});

it("grows without losing pieces, and notifies listeners", async () => {
  const heard = vi.fn();
  const r = new ResultSource(columns, async (n) => piece(n), [3]);
  await r.need(0, 3);
  r.subscribe(heard);
  r.grow([3, 2]);
  expect(heard).toHaveBeenCalledTimes(1);
  expect([r.rowCount, r.cell(2, 0), r.cell(3, 0)]).toEqual([5, "2", undefined]);
  r.grow([3]);
  expect(r.rowCount).toBe(5);
});

it("walks over all pieces in their order", async () => {
  const r = new ResultSource(columns, async (n) => piece(n), sizes);
  const seen: string[] = [];
  for await (const { rows, first } of r.eachPiece(new AbortController().signal))
    for (let i = 0; i < rows.count; i++) seen.push(`${first + i}=${rows.cell(i, 0)}`);
  expect(seen).toEqual(Array.from({ length: 9 }, (_, i) => `${i}=${i}`));
});

it("stops walking when it is told to", async () => {
  const stop = new AbortController();
  const r = new ResultSource(columns, async (n) => piece(n), sizes);
  const walk = async () => {
    for await (const _ of r.eachPiece(stop.signal)) stop.abort(new Error("enough"));
  };
  await expect(walk()).rejects.toThrow("enough");
});
