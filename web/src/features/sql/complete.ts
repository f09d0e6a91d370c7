import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { quoteName, statementAt, tokens } from "@/lib/sqlText";
import { type NamedTable, namedTables } from "./names";

/** The catalog names that completion needs, level by level. */
export interface CatalogNames {
  databases: () => Promise<readonly string[]>;
  schemas: (database: string) => Promise<readonly string[]>;
  tables: (database: string, schema: string) => Promise<readonly { name: string; view: boolean }[]>;
  columns: (
    database: string,
    schema: string,
    table: string,
  ) => Promise<readonly { name: string; type: string }[]>;
}
export interface Home {
  database: string;
  schema: string;
}

const name = String.raw`"(?:[^"]|"")*"|[\p{L}_][\p{L}\p{N}_$]*`;
const before = new RegExp(String.raw`((?:(?:${name})\.)*)("[^"\n]*|[\p{L}_][\p{L}\p{N}_$]*)?$`, "u");
const part = new RegExp(name, "gu");
const unquote = (s: string) => (s.startsWith('"') ? s.slice(1, -1).replaceAll('""', '"') : s);
const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();

const option = (label: string, type: string, more: Partial<Completion> = {}): Completion => ({
  label,
  type,
  apply: quoteName(label),
  ...more,
});

/** Database, schema and name of a table as it is written in a statement. */
export function resolve(path: readonly string[], home: Home): [string, string, string] | null {
  const [a, b, c] = path;
  if (path.length === 1 && a) return [home.database, home.schema, a];
  if (path.length === 2 && a && b) return [home.database, a, b];
  return a && b && c && path.length === 3 ? [a, b, c] : null;
}

/** Whether a place is inside a text or a comment, where nothing is completed. */
const insideText = (sql: string, at: number) =>
  tokens(sql).some((t) => {
    if (t.from >= at || (t.kind !== "text" && t.kind !== "comment")) return false;
    return at < t.to || (at === t.to && sql.startsWith("--", t.from));
  });

/** Completes databases, schemas, tables and columns from the catalog. */
export async function complete(
  c: CompletionContext,
  catalog: CatalogNames,
  home: Home,
): Promise<CompletionResult | null> {
  const sql = c.state.doc.toString();
  const line = c.state.doc.lineAt(c.pos);
  const m = before.exec(sql.slice(line.from, c.pos));
  const [, parents = "", last = ""] = m ?? [];
  if (!c.explicit && !parents && !last) return null;
  if (insideText(sql, c.pos)) return null;
  const around = statementAt(sql, c.pos) ?? { from: 0, to: sql.length };
  // The name being typed is incomplete.
  const typed = c.pos - parents.length - last.length;
  const tables = namedTables(sql.slice(around.from, typed) + sql.slice(c.pos, around.to));
  const path = (parents.match(part) ?? []).map(unquote);
  const options = await (path.length ? below(path, tables, catalog, home) : anywhere(tables, catalog, home));
  if (c.aborted || options.length === 0) return null;
  return { from: c.pos - last.length, options, validFor: /^(?:"[^"]*|[\p{L}_][\p{L}\p{N}_$]*)?$/u };
}

async function columnsOf(t: NamedTable, catalog: CatalogNames, home: Home, boost = 0): Promise<Completion[]> {
  const at = resolve(t.path, home);
  const columns = at ? await catalog.columns(...at).catch(() => []) : [];
  return columns.map((k) => option(k.name, "property", { detail: k.type, boost }));
}

const tableOptions = (tables: readonly { name: string; view: boolean }[]) =>
  tables.map((t) =>
    option(t.name, t.view ? "interface" : "class", { detail: t.view ? "view" : "table", boost: 10 }),
  );

/** Completions without a preceding name. */
async function anywhere(tables: readonly NamedTable[], catalog: CatalogNames, home: Home) {
  const [columns, here, schemas, databases] = await Promise.all([
    Promise.all(tables.slice(0, 8).map((t) => columnsOf(t, catalog, home, 30))),
    catalog.tables(home.database, home.schema).catch(() => []),
    catalog.schemas(home.database).catch(() => []),
    catalog.databases().catch(() => []),
  ]);
  const aliases = tables.flatMap((t) =>
    t.alias ? [option(t.alias, "variable", { detail: "alias", boost: 20 })] : [],
  );
  return unique([
    ...columns.flat(),
    ...aliases,
    ...tableOptions(here),
    ...schemas.map((s) => option(s, "namespace", { detail: "schema", boost: 5 })),
    ...databases.map((d) => option(d, "namespace", { detail: "database", boost: 5 })),
  ]);
}

/** Completions after names and a dot, for all possible meanings of the names. */
async function below(
  path: readonly string[],
  tables: readonly NamedTable[],
  catalog: CatalogNames,
  home: Home,
) {
  const [a = "", b = ""] = path;
  const none: Completion[] = [];
  if (path.length === 1) {
    const named = tables.find((t) => same(t.alias ?? t.path.at(-1) ?? "", a));
    const [columns, databases, schemas] = await Promise.all([
      named ? columnsOf(named, catalog, home, 30) : none,
      catalog.databases().catch(() => []),
      catalog.schemas(home.database).catch(() => []),
    ]);
    const inDatabase = databases.some((d) => same(d, a)) ? await catalog.schemas(a).catch(() => []) : [];
    const inSchema = schemas.some((s) => same(s, a))
      ? await catalog.tables(home.database, a).catch(() => [])
      : [];
    return unique([
      ...columns,
      ...tableOptions(inSchema),
      ...inDatabase.map((s) => option(s, "namespace", { detail: "schema" })),
    ]);
  }
  if (path.length === 2) {
    const databases = await catalog.databases().catch(() => []);
    const inSchema = databases.some((d) => same(d, a)) ? await catalog.tables(a, b).catch(() => []) : [];
    return unique([
      ...tableOptions(inSchema),
      ...(await columnsOf({ path: [...path], alias: null }, catalog, home)),
    ]);
  }
  return path.length === 3 ? columnsOf({ path: [...path], alias: null }, catalog, home) : none;
}

function unique(options: Completion[]): Completion[] {
  const seen = new Set<string>();
  return options.filter((o) => {
    const key = `${o.type} ${o.label}`;
    return !seen.has(key) && seen.add(key);
  });
}
