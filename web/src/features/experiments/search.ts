export const kinds = ["metrics", "params", "tags"] as const;
export type Kind = (typeof kinds)[number];

/** A metric, a parameter or a tag of runs. Its id is as in MLflow's searches: metrics.loss. */
export interface Column {
  id: string;
  kind: Kind;
  key: string;
}

/** The column with the id; null if there can be none. */
export function columnOf(id: string): Column | null {
  const dot = id.indexOf(".");
  const kind = kinds.find((k) => k === id.slice(0, dot));
  const key = id.slice(dot + 1);
  return kind && key ? { id, kind, key } : null;
}

/** Attributes of runs by which the server can order. */
const attributes = ["run_name", "status", "start_time", "user_id"] as const;

const quotes = ["`", '"', "'"];

/** A key in MLflow's searches: in quotes that it does not have. */
export function quoteKey(key: string): string {
  const q = quotes.find((x) => !key.includes(x)) ?? "`";
  return q + key + q;
}

/** MLflow's order for a sort of the address: a column or an attribute, with - for descending. */
export function orderOf(sort: string | undefined): string[] {
  if (!sort) return [];
  const descending = sort.startsWith("-");
  const id = descending ? sort.slice(1) : sort;
  const c = columnOf(id);
  if (!c && !(attributes as readonly string[]).includes(id)) return [];
  return [`${c ? `${c.kind}.${quoteKey(c.key)}` : `attributes.${id}`} ${descending ? "DESC" : "ASC"}`];
}

const conditions = /[=<>]|\br?i?like\b\s*['"]|\bin\s*\(|\bis\s+(?:not\s+)?null\b/i;

/** MLflow's filter for the text of a search field: a filter as it is, else a part of the name. */
export function filterOf(q: string | undefined, name: "name" | "attributes.run_name"): string | null {
  const text = q?.trim();
  if (!text) return null;
  if (conditions.test(text)) return text;
  const like = text.replaceAll(/[\\%_]/g, "\\$&");
  if (!like.includes("'")) return `${name} ILIKE '%${like}%'`;
  return `${name} ILIKE "%${like.replaceAll('"', "_")}%"`;
}
