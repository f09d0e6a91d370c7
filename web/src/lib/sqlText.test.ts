import { expect, it } from "vitest";
import {
  offsetOf,
  parameterCount,
  placeOf,
  qualified,
  quoteName,
  statementAt,
  statements,
  stretchAt,
} from "./sqlText";

const texts = (s: string) => statements(s).map(({ from, to }) => s.slice(from, to));

it("splits at semicolons that are none of a text's, a name's or a comment's", () => {
  expect(
    texts(`select ';' ; -- a; b
      select "x;y", $$ a;b $$, $t$ ;$$; $t$ /* ; /* ; */ ; */ from t;
      select e'\\';' , 'it''s;'`),
  ).toEqual([
    "select ';'",
    'select "x;y", $$ a;b $$, $t$ ;$$; $t$ /* ; /* ; */ ; */ from t',
    "select e'\\';' , 'it''s;'",
  ]);
});

it("finds nothing in what is empty or only a comment", () => {
  expect(texts(" ; ;; -- nothing\n /* here */ ;")).toEqual([]);
  expect(statementAt("-- nothing", 3)).toBeUndefined();
});

it("takes what is not closed to the end", () => {
  expect(texts("select 'a; b")).toEqual(["select 'a; b"]);
  expect(texts("select (1; select 2")).toEqual(["select (1", "select 2"]);
});

it("finds the statement at the cursor", () => {
  const s = "select 1;\n\nselect 2;  \n-- end\n";
  const at = (i: number) => {
    const x = statementAt(s, i);
    return x && s.slice(x.from, x.to);
  };
  expect(at(3)).toBe("select 1");
  expect(at(9)).toBe("select 1");
  expect(at(10)).toBe("select 2");
  expect(at(s.indexOf("2;") + 3)).toBe("select 2");
  expect(at(s.length)).toBe("select 2");
});

it("counts parameters outside texts", () => {
  expect(parameterCount("select $1, $3, '$9', -- $8\n $1")).toBe(3);
  expect(parameterCount("select ?, '?', ?")).toBe(2);
  expect(parameterCount("select 1")).toBe(0);
});

it("finds a line and a column, in whole characters", () => {
  const s = "select 1,\n  '🐧', nme\nfrom t";
  expect(s.slice(offsetOf(s, 2, 8)).slice(0, 3)).toBe("nme");
  expect(placeOf(s, offsetOf(s, 2, 8))).toBe("line 2, column 8");
  expect(offsetOf(s, 9, 1)).toBe(s.length);
  expect(offsetOf(s, 1, 500)).toBe(9);
  const x = stretchAt(s, offsetOf(s, 2, 8));
  expect(s.slice(x.from, x.to)).toBe("nme");
});

it("quotes names that need it", () => {
  expect(quoteName("penguins")).toBe("penguins");
  expect(quoteName("Order")).toBe('"Order"');
  expect(quoteName("order")).toBe('"order"');
  expect(quoteName('a"b')).toBe('"a""b"');
  expect(qualified("lake", "a.b", "t 1")).toBe('lake."a.b"."t 1"');
});
