import type { TypedDocumentString } from "@/gql/gen";
import { type Body, dataOf, send } from "./graphql";

const quote = 34;
const comma = 44;
const open = 91;
const backslash = 92;
const close = 93;
const openBrace = 123;
const closeBrace = 125;

const isSpace = (c: number) => c === 32 || c === 10 || c === 13 || c === 9;

function skipSpace(t: string, i: number): number {
  while (isSpace(t.charCodeAt(i))) i++;
  return i;
}

/** The index after the string that begins at i. */
function skipString(t: string, i: number): number {
  for (let end = t.indexOf('"', i + 1); end >= 0; end = t.indexOf('"', end + 1)) {
    let slashes = 0;
    while (t.charCodeAt(end - 1 - slashes) === backslash) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  throw new SyntaxError("The answer ends in the middle of a text.");
}

function skipNested(t: string, i: number): number {
  let depth = 0;
  while (i < t.length) {
    const c = t.charCodeAt(i);
    if (c === quote) {
      i = skipString(t, i);
      continue;
    }
    if (c === open || c === openBrace) depth++;
    if (c === close || c === closeBrace) depth--;
    i++;
    if (depth === 0) return i;
  }
  throw new SyntaxError("The answer ends in the middle of a value.");
}

/** The index after the JSON value that begins at i. */
function skipValue(t: string, i: number): number {
  const c = t.charCodeAt(i);
  if (c === quote) return skipString(t, i);
  if (c === open || c === openBrace) return skipNested(t, i);
  for (; i < t.length; i++) {
    const d = t.charCodeAt(i);
    if (d === comma || d === close || d === closeBrace || isSpace(d)) return i;
  }
  throw new SyntaxError("The answer ends in the middle of a value.");
}

/** Offsets of values; it grows on demand. */
class Starts {
  private at = new Uint32Array(4096);
  private n = 0;
  push(i: number) {
    if (this.n === this.at.length) {
      const more = new Uint32Array(this.n * 2);
      more.set(this.at);
      this.at = more;
    }
    this.at[this.n++] = i;
  }
  all = () => this.at.slice(0, this.n);
}

/**
 * Rows as the server sent them: their text, and the offset of each value. Numbers keep all their
 * digits, unlike JavaScript's, and a million rows take little more memory than their text.
 */
export class RawRows {
  /** Number of characters in memory. */
  readonly size: number;
  constructor(
    private readonly text: string,
    private readonly starts: Uint32Array,
    readonly columns: number,
    readonly count: number,
  ) {
    this.size = text.length + starts.length * 4;
  }

  /** The value as JSON. */
  json(row: number, column: number): string {
    const from = this.starts[row * this.columns + column];
    if (from === undefined) return "null";
    return this.text.slice(from, skipValue(this.text, from));
  }

  /** The value for display: text without its quotes, everything else as in JSON; null for NULL. */
  cell(row: number, column: number): string | null {
    const json = this.json(row, column);
    if (json === "null") return null;
    if (json.charCodeAt(0) !== quote) return json;
    return json.includes("\\") ? (JSON.parse(json) as string) : json.slice(1, -1);
  }

  /** A whole row as JSON, for a quick check of its content. */
  source(row: number): string {
    const from = this.starts[row * this.columns] ?? 0;
    return this.text.slice(from, this.starts[(row + 1) * this.columns] ?? this.text.length);
  }
}

/** Reads rows from the array that begins at `at`; `end` is the index after it. */
export function scanRows(text: string, at: number): { rows: RawRows; end: number } {
  const starts = new Starts();
  let count = 0;
  let columns = 0;
  let i = skipSpace(text, at + 1);
  while (text.charCodeAt(i) === open) {
    i = skipSpace(text, i + 1);
    let n = 0;
    while (text.charCodeAt(i) !== close) {
      starts.push(i);
      n++;
      i = skipSpace(text, skipValue(text, i));
      if (text.charCodeAt(i) === comma) i = skipSpace(text, i + 1);
    }
    if (count > 0 && n !== columns) throw new SyntaxError("The rows of the answer have different lengths.");
    columns = n;
    count++;
    i = skipSpace(text, i + 1);
    if (text.charCodeAt(i) === comma) i = skipSpace(text, i + 1);
  }
  if (text.charCodeAt(i) !== close) throw new SyntaxError("The rows of the answer cannot be read.");
  return { rows: new RawRows(text.slice(0, i), starts.all(), columns, count), end: i + 1 };
}

/** Splits an answer into its field rows and the rest; rows is null without such a field. */
export function splitRows(text: string): { rest: unknown; rows: RawRows | null } {
  const key = /"rows"\s*:\s*\[/.exec(text);
  if (!key) return { rest: JSON.parse(text), rows: null };
  const at = key.index + key[0].length - 1;
  const { rows, end } = scanRows(text, at);
  return { rest: JSON.parse(`${text.slice(0, at)}[]${text.slice(end)}`), rows };
}

/**
 * Sends a request and reads the answer's field rows with all digits. Throws RequestError, or the
 * signal's AbortError.
 */
export async function requestRows<R, V>(
  doc: TypedDocumentString<R, V>,
  variables: V,
  signal?: AbortSignal,
): Promise<{ data: R; rows: RawRows | null }> {
  const res = await send(doc, variables, signal);
  const text = await res.text();
  let answer: { rest: unknown; rows: RawRows | null };
  try {
    answer = splitRows(text);
  } catch (e) {
    if (res.ok) throw e;
    answer = { rest: {}, rows: null };
  }
  return { data: dataOf(res, answer.rest as Body<R>), rows: answer.rows };
}
