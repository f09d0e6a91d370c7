import type { ResultSource } from "@/lib/result";

export const narrowest = 48;
export const widest = 900;
const usual = 340;
const perCharacter = 7.6;

/** Room for the name, the type and some rows from `from` on. */
export function firstWidth(source: ResultSource, column: number, from = 0, most = usual): number {
  const c = source.columns[column];
  let longest = Math.max((c?.name.length ?? 0) + Math.min(18, c?.type.length ?? 0) * 0.85 + 3, 5);
  for (let r = from; r < Math.min(from + 60, source.rowCount); r++)
    longest = Math.max(longest, (source.cell(r, column) ?? "").length);
  return Math.round(Math.min(most, Math.max(72, longest * perCharacter + 22)));
}
