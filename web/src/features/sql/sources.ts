import { StatementChunkDocument } from "@/gql/gen";
import { RequestError } from "@/lib/graphql";
import { ResultSource } from "@/lib/result";
import { requestRows } from "@/lib/rows";
import type { Statement } from "./queries";

/** Number of results in memory, so that switching tabs loads nothing again. */
const keeps = 4;
const sources = new Map<string, ResultSource>();

/** Loads piece n of a statement's result. */
async function loadPiece(id: string, n: number, signal: AbortSignal) {
  const { data, rows } = await requestRows(StatementChunkDocument, { id, n }, signal);
  if (data.statement?.chunk && rows) return rows;
  if (data.statement)
    throw new RequestError(
      [{ message: "That part of the result is not available yet.", extensions: { code: "UNAVAILABLE" } }],
      200,
    );
  throw new RequestError(
    [
      {
        message: "The result is no longer kept: run the statement again.",
        extensions: { code: "NOT_FOUND" },
      },
    ],
    200,
  );
}

/** The result of a statement with its current pieces; null while it is unknown. */
export function sourceOf(s: Statement): ResultSource | null {
  if (s.columns.length === 0) return null;
  const pieces = s.chunks.map((c) => Number(c.rows));
  const held = sources.get(s.id);
  sources.delete(s.id);
  const source = held ?? new ResultSource(s.columns, (n, signal) => loadPiece(s.id, n, signal), pieces);
  sources.set(s.id, source);
  for (const [id, old] of sources) {
    if (sources.size <= keeps) break;
    old.stop();
    sources.delete(id);
  }
  return source;
}
