import type { WarehouseRowFragment } from "@/gql/gen";
import { plural } from "./format";

export type Engine = WarehouseRowFragment["engines"][number];

const names: Readonly<Record<string, string>> = { duckdb: "DuckDB", trino: "Trino" };

/** The display name of an engine: DuckDB, Trino. */
export const engineName = (engine: string) => names[engine] ?? engine;

/** Whether statements can name Trino on the warehouse: it exists if it writes. */
export const hasTrino = (w: Pick<WarehouseRowFragment, "writeEngine" | "engines">) =>
  w.writeEngine === "trino" || w.engines.some((e) => e.name === "trino");

/** "Writes with Trino, 3 nodes". */
export const writesWith = (w: Pick<WarehouseRowFragment, "writeEngine" | "nodes">) =>
  `Writes with ${engineName(w.writeEngine)}${w.nodes > 1 ? `, ${plural(w.nodes, "node")}` : ""}`;

/** Active and wanted nodes of an engine in words; null if the engine does not report them. */
export function nodesText(e: Pick<Engine, "state" | "nodes">, wanted: number): string | null {
  if (e.state === null) return null;
  const now = e.nodes ?? 0;
  if (e.state === "STOPPED" || e.state === "FAILED" || (now === 0 && wanted === 1))
    return `${plural(wanted, "node")} when it runs`;
  if (now > wanted) return `${plural(now, "node")}; ${wanted} wanted`;
  return now === wanted ? plural(now, "node") : `${now} of ${wanted} nodes`;
}
