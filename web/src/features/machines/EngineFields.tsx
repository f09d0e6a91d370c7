import { NumberInput, Select } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import type { MachineModel } from "./form";

const engines = [
  { value: "auto", label: "Let the platform choose" },
  { value: "duckdb", label: "DuckDB" },
  { value: "trino", label: "Trino" },
];

const about: Readonly<Record<string, string>> = {
  auto: "Trino where it is installed, else DuckDB. It is chosen once, and never changes by itself.",
  duckdb: "Writes run beside reads, in DuckDB's dialect.",
  trino:
    "Writes run in Trino, in its dialect, on one node or several. Reads stay with DuckDB, unless a statement names Trino.",
};

const starts = [
  { value: "first_write", label: "At the first write" },
  { value: "with_warehouse", label: "With the warehouse" },
];

/** The write engine of a warehouse, with Trino's nodes and start. */
export function EngineFields({
  engine,
  made,
  changeable,
  props,
}: {
  engine: string;
  /** The warehouse exists: the platform's choice is no longer offered. */
  made: boolean;
  /** It is stopped or not created yet. */
  changeable: boolean;
  props: (f: keyof MachineModel) => GetInputPropsReturnType;
}) {
  return (
    <>
      <Select
        label="Writes with"
        allowDeselect={false}
        data={made ? engines.filter((e) => e.value !== "auto") : engines}
        description={about[engine]}
        disabled={!changeable}
        {...props("writeEngine")}
      />
      {engine === "trino" && (
        <>
          <NumberInput
            label="Nodes"
            description={
              changeable
                ? "Trino's coordinator and its workers, from 1 to 16."
                : "Trino's coordinator and its workers, from 1 to 16. A removed node finishes its work first."
            }
            min={1}
            max={16}
            clampBehavior="none"
            allowDecimal={false}
            {...props("nodes")}
          />
          <Select
            label="Trino starts"
            allowDeselect={false}
            data={starts}
            description="A start takes about half a minute. It stops with the warehouse."
            {...props("trinoStart")}
          />
        </>
      )}
    </>
  );
}
