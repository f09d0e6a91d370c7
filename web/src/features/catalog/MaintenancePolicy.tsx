import { Table } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { CronText } from "@/ui/CronText";
import { TableHead } from "@/ui/Table";
import {
  boundsOf,
  type FieldName,
  fieldNames,
  fields,
  levelOf,
  type Maintenance,
  originText,
  type Values,
  valuesOf,
} from "./policy";
import { useWarehouses } from "./useMaintenance";

/** Fields of an operation; they have no effect while it is turned off. */
const parts: Partial<Record<FieldName, "compact" | "expire" | "orphans">> = {
  threshold: "compact",
  minFiles: "compact",
  deletePercent: "compact",
  keepDays: "expire",
  maxSnapshots: "expire",
  eraseAfterDays: "expire",
  olderThanDays: "orphans",
};

/** The effective policy, each value with its origin. */
export function MaintenancePolicy({ maintenance: m }: { maintenance: Maintenance }) {
  const v = valuesOf(m);
  return (
    <Table aria-label="Policy" className="rows maintenance-policy">
      <TableHead columns={["Setting", "Holds", "Comes from"]} />
      <Table.Tbody>
        {fieldNames.map((f) => {
          const part = parts[f];
          return (
            <Table.Tr key={f} data-part={part && true} data-idle={(part && !v[part]) || undefined}>
              <Table.Td>{fields[f].label}</Table.Td>
              <Table.Td>
                <Value field={f} values={v} />
              </Table.Td>
              <Table.Td className="dim">{originText(levelOf(m, f))}</Table.Td>
            </Table.Tr>
          );
        })}
      </Table.Tbody>
    </Table>
  );
}

function Value({ field: f, values: v }: { field: FieldName; values: Values }) {
  if (f === "schedule")
    return (
      <>
        <CronText cron={v.cron} />, {v.timeZone}
      </>
    );
  if (f === "warehouse") return <Warehouse id={v.warehouse} />;
  if (f === "startWarehouse") return v.startWarehouse ? "If none runs" : "No, it waits for a running one";
  const bounds = boundsOf(f);
  const value = v[f];
  return bounds ? `${value} ${bounds.unit}` : value ? "On" : "Off";
}

function Warehouse({ id }: { id: string }) {
  const found = useWarehouses().find((w) => w.id === id);
  if (!id) return "Any that runs";
  return (
    <Link to="/warehouses/$machineId" params={{ machineId: id }}>
      {found?.name ?? "a warehouse that was deleted"}
    </Link>
  );
}
