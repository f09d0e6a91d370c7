import { expect, it } from "vitest";
import { headText, keysOf, rangeText, sortedRows, type Values } from "./table";

const cells = [
  ["1", "a,b", null],
  ["9007199254740993", 'say "hi"\tnow', ""],
];
const values: Values = {
  columns: [
    { name: "n", type: "long" },
    { name: "text", type: "string" },
    { name: "n", type: "string" },
  ],
  cell: (r, c) => cells[r]?.[c],
  json: (r, c) => {
    const v = cells[r]?.[c] ?? null;
    return c === 0 ? String(v) : JSON.stringify(v);
  },
};
const all = { top: 0, bottom: 1, left: 0, right: 2 };

it("writes CSV in which NULL and the empty text differ", () => {
  expect(rangeText(values, all, "csv", true)).toBe(
    'n,text,n\n1,"a,b",\n9007199254740993,"say ""hi""\tnow",""',
  );
});

it("writes TSV in which no value breaks its line", () => {
  expect(rangeText(values, all, "tsv", false)).toBe('1\ta,b\t\n9007199254740993\tsay "hi" now\t');
});

it("writes JSON with all digits, and both of two columns with one name", () => {
  const text = rangeText(values, all, "json", true);
  expect(text).toContain('{"n":9007199254740993,"text":"say \\"hi\\"\\tnow","n_2":""}');
  expect(JSON.parse(text)).toHaveLength(2);
  expect(keysOf(values.columns)).toEqual(["n", "text", "n_2"]);
  expect(headText(values.columns, "json")).toBe("");
});

it("copies a part of it", () => {
  expect(rangeText(values, { top: 1, bottom: 1, left: 0, right: 0 }, "tsv", false)).toBe("9007199254740993");
});

const order = (list: (string | null)[], numeric: boolean, down = false) =>
  [...sortedRows((i) => list[i], list.length, numeric, down)].map((i) => list[i]);

it("sorts numbers as numbers, to the last digit, NULL and NaN last", () => {
  const list = ["10", null, "9", "NaN", "-Infinity", "9007199254740993", "9007199254740992"];
  expect(order(list, true)).toEqual([
    "-Infinity",
    "9",
    "10",
    "9007199254740992",
    "9007199254740993",
    null,
    "NaN",
  ]);
  expect(order(list, true, true).slice(0, 2)).toEqual(["9007199254740993", "9007199254740992"]);
  expect(order(list, true, true).slice(-2)).toEqual([null, "NaN"]);
  const decimals = [
    "1.00000000000000000002",
    "-1.00000000000000000002",
    "1.00000000000000000001",
    "-1.00000000000000000001",
  ];
  expect(order(decimals, true)).toEqual([decimals[1], decimals[3], decimals[2], decimals[0]]);
});

it("sorts texts, and keeps the order of equals", () => {
  expect(order(["b", null, "a", "B"], false)).toEqual(["B", "a", "b", null]);
  expect([...sortedRows(() => "x", 4, false, true)]).toEqual([0, 1, 2, 3]);
});
