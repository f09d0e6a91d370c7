import { expect, it } from "vitest";
import { findText } from "./find";
import { prettyJson } from "./prettyJson";
import { ResultSource } from "./result";
import { scanRows } from "./rows";

const rows = [
  ["Adelie", "Dream"],
  ["Gentoo", "Biscoe"],
  ["Adélie", "dream\n2"],
  ["Chinstrap", 'Dr"eam'],
];
const source = () =>
  new ResultSource(
    ["species", "island"].map((name) => ({ name, type: "string" })),
    async (n) => scanRows(JSON.stringify(rows.slice(n * 2, n * 2 + 2)), 0).rows,
    [2, 2],
  );
const never = new AbortController().signal;
const find = (text: string, row: number, column: number, back = false, order: Uint32Array | null = null) =>
  findText(source(), text, { row, column }, back, order, never);

it("finds the next one in any case, loading what it looks through, and goes round", async () => {
  expect(await find("dream", 0, 0)).toEqual({ row: 0, column: 1 });
  expect(await find("dream", 0, 1)).toEqual({ row: 2, column: 1 });
  expect(await find("dream", 2, 1)).toEqual({ row: 0, column: 1 });
  expect(await find("gentoo", 1, 0)).toEqual({ row: 1, column: 0 });
});

it("finds the one before, what is escaped in JSON, and nothing", async () => {
  expect(await find("dream", 2, 1, true)).toEqual({ row: 0, column: 1 });
  expect(await find('r"e', 0, 0)).toEqual({ row: 3, column: 1 });
  expect(await find("adé", 0, 0)).toEqual({ row: 2, column: 0 });
  expect(await find("emperor", 0, 0)).toBeNull();
});

it("goes by the order that is shown", async () => {
  expect(await find("dream", 0, 1, false, Uint32Array.from([3, 2, 1, 0]))).toEqual({ row: 1, column: 1 });
});

it("stops when told to", async () => {
  const stop = new AbortController();
  stop.abort(new Error("enough"));
  await expect(findText(source(), "x", { row: 0, column: 0 }, false, null, stop.signal)).rejects.toThrow(
    "enough",
  );
});

it("lays JSON out and keeps its digits", () => {
  expect(prettyJson('{"a":[1,12345678901234567890],"b":{},"c":"x,{"}')).toBe(
    '{\n  "a": [\n    1,\n    12345678901234567890\n  ],\n  "b": {},\n  "c": "x,{"\n}',
  );
});
