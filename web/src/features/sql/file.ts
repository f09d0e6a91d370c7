import type { ResultSource } from "@/lib/result";
import { headText, keysOf, rowText, type Values } from "@/lib/table";
import type { Statement } from "./queries";

/** Rows per slice. Between slices the page stays responsive. */
const atOnce = 5_000;

/** The parts of a file with the whole result, each with the share that is done. */
export async function* fileParts(source: ResultSource, f: "csv" | "json", signal: AbortSignal) {
  const keys = keysOf(source.columns);
  const last = source.columns.length - 1;
  yield { part: f === "json" ? "[\n" : headText(source.columns, f), share: 0 };
  for await (const { rows, first } of source.eachPiece(signal)) {
    const values: Values = {
      columns: source.columns,
      cell: (r, c) => rows.cell(r, c),
      json: (r, c) => rows.json(r, c),
    };
    for (let from = 0; from < rows.count; from += atOnce) {
      const lines: string[] = [];
      for (let r = from; r < Math.min(from + atOnce, rows.count); r++) {
        const line = rowText(values, keys, r, 0, last, f);
        const end = f === "json" && first + r < source.rowCount - 1 ? ",\n" : "\n";
        lines.push(line + end);
      }
      yield { part: lines.join(""), share: (first + from + lines.length) / source.rowCount };
      await new Promise((resolve) => setTimeout(resolve));
      signal.throwIfAborted();
    }
  }
  if (f === "json") yield { part: "]\n", share: 1 };
}

/** A command that fetches every piece of a result, once MILLPOND_TOKEN holds an API key. */
export function curlOf(s: Statement, accept: string, ending: string, origin: string): string {
  const pieces = s.chunks.length;
  const range = pieces > 1 ? `[0-${pieces - 1}]` : "0";
  return [
    `curl -sSf "${origin}/api/v1/sql/statements/${s.id}/chunks/${range}"`,
    `  -H "Authorization: Bearer $MILLPOND_TOKEN"`,
    `  -H 'Accept: ${accept}'`,
    `  -o "${s.id}${pieces > 1 ? "-#1" : ""}.${ending}"`,
  ].join(" \\\n");
}
