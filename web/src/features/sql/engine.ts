import { type Engine, engineName, hasTrino } from "@/lib/engine";
import type { StatementRow } from "./queries";

/** What leaves the choice of the engine to the warehouse. */
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

/** The engine as the warehouse can be asked for it: none that it does not have. */
export const engineOn = (w: Warehouse | undefined, engine: string | undefined) =>
  engineChoices(w).some((c) => c.value === engine) ? engine : undefined;

/** The engine that a statement has named: that which served it, where the warehouse would have chosen another by itself. */
export function namedEngine(
  s: Pick<StatementRow, "engine" | "write" | "kind" | "warehouse">,
): string | undefined {
  if (!s.engine || !s.warehouse) return undefined;
  const chosen = s.write && !s.kind?.endsWith(" VIEW") ? s.warehouse.writeEngine : "duckdb";
  return s.engine === chosen ? undefined : s.engine;
}
