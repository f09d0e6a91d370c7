import type { ResultSource } from "./result";

export interface Place {
  row: number;
  column: number;
}

/** A longer slice drops a frame. */
const sliceMs = 12;
const breathe = () => new Promise<void>((resolve) => setTimeout(resolve));

/**
 * The next value that contains the text, ignoring case, after (or before) a place, wrapping around;
 * null if there is none. It loads the rows that it searches. `order` maps places to rows if the
 * result is sorted.
 */
export async function findText(
  source: ResultSource,
  text: string,
  from: Place,
  back: boolean,
  order: Uint32Array | null,
  signal: AbortSignal,
  progress: (row: number) => void = () => {},
): Promise<Place | null> {
  const needle = text.toLowerCase();
  const rows = source.rowCount;
  const columns = source.columns.length;
  const step = back ? -1 : 1;
  // Plain text appears unescaped in a row's JSON, so most rows are skipped without checking each
  // value.
  const plain = /^[a-z0-9 .:_-]+$/.test(needle);
  let began = performance.now();
  for (let n = 0; n <= rows; n++) {
    const row = (((from.row + step * n) % rows) + rows) % rows;
    const real = order ? (order[row] ?? row) : row;
    if (source.source(real) === undefined) await source.need(real, real + 1, signal);
    if (performance.now() - began > sliceMs) {
      progress(row);
      await breathe();
      signal.throwIfAborted();
      began = performance.now();
    }
    if (plain && !source.source(real)?.toLowerCase().includes(needle)) continue;
    const inRow = columnsToLookAt(columns, from.column, n, rows, back);
    for (const column of inRow)
      if (source.cell(real, column)?.toLowerCase().includes(needle)) return { row, column };
  }
  return null;
}

/**
 * The columns to search: in the first row those beyond the place; in the last row, which is the
 * first again, the rest.
 */
function columnsToLookAt(columns: number, at: number, n: number, rows: number, back: boolean): number[] {
  const all = Array.from({ length: columns }, (_, i) => i);
  const beyond = (c: number) => (back ? c < at : c > at);
  const some = n === 0 ? all.filter(beyond) : n === rows ? all.filter((c) => !beyond(c)) : all;
  return back ? some.reverse() : some;
}
