import type { ResultColumn } from "./result";

/** A rectangle of a result: from the first row and column to the last, both included. */
export interface Range {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** Where a selection began, and where it goes to. */
export interface Selection {
  row: number;
  column: number;
  toRow: number;
  toColumn: number;
}

export const rangeOf = (s: Selection): Range => ({
  top: Math.min(s.row, s.toRow),
  bottom: Math.max(s.row, s.toRow),
  left: Math.min(s.column, s.toColumn),
  right: Math.max(s.column, s.toColumn),
});

export type TextFormat = "tsv" | "csv" | "json";

/** A source of values. */
export interface Values {
  readonly columns: readonly ResultColumn[];
  cell: (row: number, column: number) => string | null | undefined;
  json: (row: number, column: number) => string | undefined;
}

const tsv = (v: string | null | undefined) => (v ?? "").replaceAll(/[\t\r\n]+/g, " ");
const csv = (v: string | null | undefined) => {
  if (v === null || v === undefined) return "";
  // An empty text is not NULL: it gets quotes.
  return v === "" || /[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v;
};

/** Keys of objects: of two columns with the same name, the second becomes name_2. */
export function keysOf(columns: readonly ResultColumn[]): string[] {
  const seen = new Map<string, number>();
  return columns.map(({ name }) => {
    const n = (seen.get(name) ?? 0) + 1;
    seen.set(name, n);
    return n === 1 ? name : `${name}_${n}`;
  });
}

/** The names of the columns as a first line; JSON has none. */
export function headText(columns: readonly ResultColumn[], f: TextFormat): string {
  if (f === "json") return "";
  const names = columns.map((c) => (f === "csv" ? csv(c.name) : tsv(c.name)));
  return `${names.join(f === "csv" ? "," : "\t")}\n`;
}

/** One row as a line, or as an object. NULL is empty, and null in JSON. */
export function rowText(
  v: Values,
  keys: readonly string[],
  row: number,
  left: number,
  right: number,
  f: TextFormat,
): string {
  const cells: string[] = [];
  for (let c = left; c <= right; c++) {
    if (f === "json") cells.push(`${JSON.stringify(keys[c])}:${v.json(row, c) ?? "null"}`);
    else cells.push(f === "csv" ? csv(v.cell(row, c)) : tsv(v.cell(row, c)));
  }
  return f === "json" ? `{${cells.join(",")}}` : cells.join(f === "csv" ? "," : "\t");
}

/** A rectangle as text; more than one column, or a whole one, comes with the names. */
export function rangeText(v: Values, r: Range, f: TextFormat, names: boolean): string {
  const keys = keysOf(v.columns);
  const lines: string[] = [];
  for (let row = r.top; row <= r.bottom; row++) lines.push(rowText(v, keys, row, r.left, r.right, f));
  if (f === "json") return `[\n${lines.map((l) => `  ${l}`).join(",\n")}\n]`;
  return (names ? headText(v.columns.slice(r.left, r.right + 1), f) : "") + lines.join("\n");
}

const compareNumbers = (a: number, b: number) => (a === b ? 0 : a < b ? -1 : 1);

/**
 * Rows in the order of one column; NULL and NaN come last. Numbers beyond 2^53 are compared by all
 * their digits.
 */
export function sortedRows(
  cell: (row: number) => string | null | undefined,
  count: number,
  numeric: boolean,
  descending: boolean,
): Uint32Array {
  const sign = descending ? -1 : 1;
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  if (!numeric) {
    const keys = Array.from({ length: count }, (_, i) => cell(i) ?? null);
    return order.sort((a, b) => nullsLast(keys[a] ?? null, keys[b] ?? null, sign) || a - b);
  }
  const keys = Float64Array.from({ length: count }, (_, i) => toNumber(cell(i)));
  return order.sort((a, b) => {
    const x = keys[a] as number;
    const y = keys[b] as number;
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return sign * (compareNumbers(x, y) || compareDigits(cell(a), cell(b))) || a - b;
  });
}

function toNumber(v: string | null | undefined): number {
  if (v === null || v === undefined) return Number.NaN;
  if (v === "Infinity" || v === "-Infinity") return v === "Infinity" ? Infinity : -Infinity;
  return Number(v);
}

/** Compares the digits of two numbers that are the same double; 0 if they are not written out. */
function compareDigits(a: string | null | undefined, b: string | null | undefined): number {
  const digits = /^-?\d+(?:\.(\d+))?$/;
  const of = a === b ? null : digits.exec(a ?? "");
  const beside = of && digits.exec(b ?? "");
  if (!of || !beside) return 0;
  const scale = Math.max(of[1]?.length ?? 0, beside[1]?.length ?? 0);
  const shifted = (m: RegExpExecArray) =>
    BigInt(m[0].replace(".", "") + "0".repeat(scale - (m[1]?.length ?? 0)));
  const x = shifted(of);
  const y = shifted(beside);
  return x === y ? 0 : x < y ? -1 : 1;
}

function nullsLast(a: string | null, b: string | null, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a === b ? 0 : sign * (a < b ? -1 : 1);
}
