import { tokens } from "@/lib/sqlText";

/** A table in a statement, and its alias. */
export interface NamedTable {
  path: string[];
  alias: string | null;
}

const opening = new Set(["from", "join", "into", "update", "table", "using", "describe", "summarize"]);
const notAlias = new Set(
  (
    "as on using where group order having limit join left right full inner outer cross natural lateral union except intersect set values " +
    "select from when window qualify at returning positional asof semi anti tablesample pivot unpivot offset fetch"
  ).split(" "),
);

const unquote = (s: string) => (s.startsWith('"') ? s.slice(1, -1).replaceAll('""', '"') : s);

/** The tables that a statement names after FROM, JOIN and the like, with their aliases. */
export function namedTables(sql: string): NamedTable[] {
  const all = tokens(sql).filter((t) => t.kind !== "comment");
  const text = (i: number) => {
    const t = all[i];
    return t ? sql.slice(t.from, t.to) : "";
  };
  const isName = (i: number) => all[i]?.kind === "name";
  const found: NamedTable[] = [];
  for (let i = 0; i < all.length; i++) {
    if (!isName(i) || !opening.has(text(i).toLowerCase())) continue;
    for (let at = i + 1; isName(at) && !notAlias.has(text(at).toLowerCase()); ) {
      const path = [unquote(text(at++))];
      while (text(at) === "." && isName(at + 1)) {
        path.push(unquote(text(at + 1)));
        at += 2;
      }
      if (text(at).toLowerCase() === "as") at++;
      const named = isName(at) && !notAlias.has(text(at).toLowerCase());
      found.push({ path, alias: named ? unquote(text(at++)) : null });
      if (text(at) !== ",") break;
      at++;
    }
  }
  return found;
}
