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

/** What writes on a warehouse: its engine, and of Trino how large it is and when it starts. */
export function EngineFields({
  engine,
  made,
  changeable,
  props,
}: {
  engine: string;
  /** The warehouse is there already: nothing is left to be chosen by the platform. */
  made: boolean;
  /** It is stopped, or not made yet. */
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
                : "Trino's coordinator and its workers, from 1 to 16. What runs on a node that goes ends first."
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
