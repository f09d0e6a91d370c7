import { Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { formatDuration } from "@/lib/format";
import { Trigger } from "@/ui/RunsTable";
import { ErrorPanel, TableSkeleton } from "@/ui/States";
import { StatusBadge } from "@/ui/Status";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import {
  costText,
  isOpen,
  type MaintenanceRun,
  type Operation,
  operationText,
  type Subject,
  tookMs,
} from "./maintenance";
import { maintenanceRunsQuery, useLiveRuns } from "./useMaintenance";

/** The maintenance runs of a subject's tables, newest first, live. */
export function MaintenanceRuns({ subject: s }: { subject: Subject }) {
  useLiveRuns(s);
  const q = useInfiniteQuery(maintenanceRunsQuery(s));
  const rows = q.data?.pages.flatMap((p) => p.maintenanceRuns.edges.map((e) => e.node)) ?? [];
  if (q.error)
    return (
      <div className="card-pad">
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      </div>
    );
  if (q.isPending) return <TableSkeleton rows={4} columns={5} />;
  if (rows.length === 0)
    return (
      <Text size="sm" c="dimmed" className="card-pad">
        Nothing was done yet. Tables that needed nothing are not listed.
      </Text>
    );
  return (
    <>
      <RunsTable rows={rows} tables={s.level !== "table"} />
      <ShowMore of={q}>Show more</ShowMore>
    </>
  );
}

function RunsTable({ rows, tables }: { rows: readonly MaintenanceRun[]; tables: boolean }) {
  return (
    <Table.ScrollContainer minWidth={tables ? 640 : 520}>
      <Table aria-label="What was done" className="rows maintenance-runs">
        <TableHead columns={["State", tables && "Table", "Work", "Time and cost", "When"]} />
        <Table.Tbody>
          {rows.map((r) => (
            <Table.Tr key={r.id}>
              <Table.Td w={120}>
                <StatusBadge status={r.state} />
              </Table.Td>
              {tables && (
                <Table.Td className="wraps maintenance-table">
                  <Link
                    to="/catalog/table/$tableId"
                    params={{ tableId: r.tableId }}
                    search={{ tab: "maintenance" }}
                  >
                    {r.fullName}
                  </Link>
                </Table.Td>
              )}
              <Table.Td className="wraps">
                <Work run={r} />
              </Table.Td>
              <Table.Td className="nowrap">
                {r.operations.length > 0 && !isOpen(r) ? (
                  formatDuration(tookMs(r))
                ) : (
                  <span className="dim">–</span>
                )}
                <Text size="xs" c="dimmed">
                  {costText(r)}
                </Text>
              </Table.Td>
              <Table.Td>
                <Ago at={r.createdAt} />
                <Text size="xs" c="dimmed">
                  <Trigger run={{ trigger: r.trigger, startedBy: r.createdBy }} />
                </Text>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Work({ run: r }: { run: MaintenanceRun }) {
  return (
    <>
      {r.operations.length > 0 && (
        <ul>
          {r.operations.map((o) => (
            <OperationItem key={`${o.kind} ${o.startedAt}`} operation={o} run={r} />
          ))}
        </ul>
      )}
      {r.message && <span className="dim">{r.message}</span>}
    </>
  );
}

function OperationItem({ operation: o, run: r }: { operation: Operation; run: MaintenanceRun }) {
  return (
    <li>
      {operationText(o)}
      {o.message && !r.message?.includes(o.message) && <span className="dim"> {o.message}</span>}
      {o.statementId && (
        <>
          {" "}
          <Link
            to="/sql"
            search={{ statement: o.statementId }}
            aria-label={`Statement: ${operationText(o)}`}
            className="nowrap"
          >
            Statement
          </Link>
        </>
      )}
    </li>
  );
}
