import { type Engine, engineName, hasTrino } from "@/lib/engine";
import type { StatementRow } from "./queries";

/** The value that lets the warehouse choose the engine. */
export const automatic = "auto";

interface Warehouse {
  readonly writeEngine: string;
  readonly engines: readonly Engine[];
}

/** The engines that a tab can ask for on a warehouse. */
export const engineChoices = (w: Warehouse | undefined) => [
  {
    value: automatic,
    label: "Any engine",
    about: w ? `reads DuckDB, writes ${engineName(w.writeEngine)}` : "",
  },
  { value: "duckdb", label: "DuckDB", about: "also for writes" },
  ...(w && hasTrino(w) ? [{ value: "trino", label: "Trino", about: "also for reads" }] : []),
];

/** The engine for a request; undefined if the warehouse does not have it. */
export const engineOn = (w: Warehouse | undefined, engine: string | undefined) =>
  engineChoices(w).some((c) => c.value === engine) ? engine : undefined;

/**
 * The engine that a statement named: the one that served it, if the warehouse would have chosen
 * another.
 */
export function namedEngine(
  s: Pick<StatementRow, "engine" | "write" | "kind" | "warehouse">,
): string | undefined {
  if (!s.engine || !s.warehouse) return undefined;
  const chosen = s.write && !s.kind?.endsWith(" VIEW") ? s.warehouse.writeEngine : "duckdb";
  return s.engine === chosen ? undefined : s.engine;
}
