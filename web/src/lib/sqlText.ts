/** A stretch of SQL text: from the first character to after the last. */
export interface Stretch {
  from: number;
  to: number;
}

type Kind = "text" | "name" | "comment" | "semicolon" | "parameter" | "other";
interface Token extends Stretch {
  kind: Kind;
}

const lineEnd = (s: string, i: number) => {
  const end = s.indexOf("\n", i);
  return end < 0 ? s.length : end;
};

/** The index after a block comment; they nest. */
function blockEnd(s: string, i: number): number {
  let depth = 1;
  for (i += 2; i < s.length; i++) {
    const two = s.slice(i, i + 2);
    if (two === "/*") depth++;
    else if (two === "*/") depth--;
    else continue;
    i++;
    if (depth === 0) return i + 1;
  }
  return s.length;
}

/** The index after a quoted text; a doubled quote is part of it. */
function quotedEnd(s: string, i: number, escapes: boolean): number {
  const q = s[i];
  for (i++; i < s.length; i++) {
    if (escapes && s[i] === "\\") i++;
    else if (s[i] !== q) continue;
    else if (s[i + 1] === q) i++;
    else return i + 1;
  }
  return s.length;
}

const word = /[\p{L}_][\p{L}\p{N}_$]*/uy;
const dollar = /\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/uy;
const parameter = /\$\d+|\?/y;

const match = (r: RegExp, s: string, i: number) => {
  r.lastIndex = i;
  return r.exec(s)?.[0];
};

function tokenAt(s: string, i: number): Token {
  const c = s[i];
  const to = (kind: Kind, end: number): Token => ({ kind, from: i, to: end });
  if (c === "-" && s[i + 1] === "-") return to("comment", lineEnd(s, i));
  if (c === "/" && s[i + 1] === "*") return to("comment", blockEnd(s, i));
  if (c === "'") return to("text", quotedEnd(s, i, false));
  if (c === '"') return to("name", quotedEnd(s, i, false));
  if (c === ";") return to("semicolon", i + 1);
  if ((c === "e" || c === "E") && s[i + 1] === "'") return to("text", quotedEnd(s, i + 1, true));
  const w = match(word, s, i);
  if (w) return to("name", i + w.length);
  const tag = match(dollar, s, i);
  if (tag) {
    const end = s.indexOf(tag, i + tag.length);
    return to("text", end < 0 ? s.length : end + tag.length);
  }
  const p = match(parameter, s, i);
  if (p) return to("parameter", i + p.length);
  return to("other", i + 1);
}

/** Texts, names, comments, parameters and semicolons in order; everything else is left out. */
export function tokens(s: string): Token[] {
  const found: Token[] = [];
  for (let i = 0; i < s.length; ) {
    const t = tokenAt(s, i);
    if (t.kind !== "other" || /\S/.test(s[i] ?? "")) found.push(t);
    i = t.to;
  }
  return found;
}

/**
 * The statements of a text, without their semicolons and without the space and comments around
 * them.
 */
export function statements(s: string): Stretch[] {
  const found: Stretch[] = [];
  let present: Stretch | undefined;
  for (const t of tokens(s)) {
    if (t.kind === "semicolon") {
      if (present) found.push(present);
      present = undefined;
      continue;
    }
    if (t.kind === "comment") continue;
    present = { from: present?.from ?? t.from, to: t.to };
  }
  if (present) found.push(present);
  return found;
}

/**
 * The statement at a place: the one around it, else the one that ends before it on the same line,
 * else the next, else the last.
 */
export function statementAt(s: string, at: number): Stretch | undefined {
  const all = statements(s);
  const around = all.find((x) => x.from <= at && at <= x.to);
  if (around) return around;
  const before = all.filter((x) => x.to < at).at(-1);
  if (before && !s.slice(before.to, at).includes("\n")) return before;
  return all.find((x) => x.from > at) ?? before;
}

/**
 * The number of a statement's parameters: the highest of $1, $2, or the number of question marks.
 */
export function parameterCount(s: string): number {
  const found = tokens(s).filter((t) => t.kind === "parameter");
  const numbers = found.map((t) => Number(s.slice(t.from + 1, t.to))).filter((n) => n > 0);
  return numbers.length ? Math.min(100, Math.max(...numbers)) : found.length;
}

/** Where a line and a column, both from 1 and in whole characters, are in a text. */
export function offsetOf(s: string, line: number, column: number): number {
  let at = 0;
  for (let n = 1; n < line; n++) {
    const end = s.indexOf("\n", at);
    if (end < 0) return s.length;
    at = end + 1;
  }
  for (let n = 1; n < column && at < lineEnd(s, at); n++) at += (s.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

/** An offset in words: line 3, column 8. */
export function placeOf(s: string, at: number): string {
  const before = s.slice(0, at);
  const line = before.split("\n").length;
  return `line ${line}, column ${[...before.slice(before.lastIndexOf("\n") + 1)].length + 1}`;
}

/** The word, the quoted name or the sign at a place: what an error there is about. */
export function stretchAt(s: string, at: number): Stretch {
  const t = tokens(s).find((x) => x.from <= at && at < x.to);
  return t
    ? { from: at, to: t.to }
    : { from: Math.min(at, Math.max(0, s.length - 1)), to: Math.min(at + 1, s.length) };
}

const plain = /^[a-z_][a-z0-9_]*$/;
const reserved = new Set(
  (
    "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create default deferrable desc " +
    "describe distinct do else end except false fetch for foreign from group having in initially intersect into lambda lateral leading " +
    "limit not null offset on only or order pivot placing primary qualify references returning select show some summarize symmetric " +
    "table then to trailing true union unique unpivot using variadic when where window with"
  ).split(" "),
);

/** A name in SQL text, quoted if necessary. */
export const quoteName = (n: string) =>
  plain.test(n) && !reserved.has(n) ? n : `"${n.replaceAll('"', '""')}"`;

/** database.schema.table in SQL text; a nested schema is one name with dots. */
export const qualified = (database: string, schema: string, name: string) =>
  [database, schema, name].map(quoteName).join(".");
