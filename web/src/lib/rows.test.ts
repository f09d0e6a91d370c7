import { expect, it } from "vitest";
import { scanRows, splitRows } from "./rows";

it("keeps every digit, distinguishes NULL from the text null, and reads escapes", () => {
  const { rows } = splitRows(
    String.raw`{"data":{"chunk":{"rows":[[9007199254740993,null,"null","a\"b\\"],[1.10,"NaN","","é\n"]],"next":null}}}`,
  );
  expect(rows?.count).toBe(2);
  expect([0, 1, 2, 3].map((c) => rows?.cell(0, c))).toEqual(["9007199254740993", null, "null", 'a"b\\']);
  expect([0, 1, 2, 3].map((c) => rows?.cell(1, c))).toEqual(["1.10", "NaN", "", "é\n"]);
  expect(rows?.json(0, 2)).toBe('"null"');
});

it("keeps nested values as they were sent, brackets in texts included", () => {
  const { rows } = splitRows('{"rows": [ [ {"a":[1,"]}\\"",{"b":12345678901234567890}]} , [] ] ] }');
  expect(rows?.cell(0, 0)).toBe('{"a":[1,"]}\\"",{"b":12345678901234567890}]}');
  expect(rows?.cell(0, 1)).toBe("[]");
});

it("leaves the rest of the answer as it is", () => {
  const { rest, rows } = splitRows('{"data":{"s":{"id":"a","rows":[[1]],"next":3,"more":[{"rows":[[2]]}]}}}');
  expect(rest).toEqual({ data: { s: { id: "a", rows: [], next: 3, more: [{ rows: [[2]] }] } } });
  expect(rows?.count).toBe(1);
});

it("reads an empty result, an answer without rows, and refuses one that is cut off", () => {
  expect(splitRows('{"rows":[]}').rows?.count).toBe(0);
  expect(splitRows('{"errors":[{"message":"no"}]}')).toEqual({
    rest: { errors: [{ message: "no" }] },
    rows: null,
  });
  expect(() => scanRows('[["abc', 0)).toThrow(SyntaxError);
  expect(() => scanRows("[[1],[1,2]]", 0)).toThrow(/different lengths/);
});

it("reads a hundred thousand rows as JSON.parse does", () => {
  const all = Array.from({ length: 100_000 }, (_, i) => [
    i,
    `row "${i}"`,
    i % 7 ? i / 3 : null,
    [i, `x${i}`],
  ]);
  const { rows } = splitRows(JSON.stringify({ rows: all }));
  expect(rows?.count).toBe(all.length);
  for (let r = 0; r < all.length; r += 997)
    expect([0, 1, 2, 3].map((c) => JSON.parse(rows?.json(r, c) ?? ""))).toEqual(all[r]);
});
