import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type RunDetailQuery, RunTrackingDocument } from "@/gql/gen";
import { gql } from "@/lib/graphql";
import { isActive, StatusBadge } from "@/ui/Status";
import { TableHead } from "@/ui/Table";
import { Ago, Duration } from "@/ui/Time";

type Run = Pick<NonNullable<RunDetailQuery["run"]>, "id" | "status">;

/** The tracking runs that a run's tasks logged to experiments; nothing without any. */
export function RunTracking({ run }: { run: Run }) {
  const active = isActive(run.status);
  // The key has the state, so it is refetched at the end.
  const q = useQuery({
    ...gql(RunTrackingDocument, { id: run.id }),
    queryKey: ["RunTracking", run.id, active],
    refetchInterval: active ? 5_000 : false,
  });
  const rows = q.data?.run?.trackingRuns ?? [];
  if (rows.length === 0) return null;
  return (
    <section className="card" aria-label="Tracking runs">
      <div className="section-title">
        <h2>Tracking runs</h2>
      </div>
      <Table.ScrollContainer minWidth={560}>
        <Table aria-label="Tracking runs" className="rows">
          <TableHead columns={["State", "Run", "Experiment", "Started", { right: "Duration" }]} />
          <Table.Tbody>
            {rows.map((r) => (
              <Table.Tr key={r.id} className="row-link">
                <Table.Td w={130}>
                  <StatusBadge status={r.state} />
                </Table.Td>
                <Table.Td className="wraps">
                  <Link
                    to="/experiments/$experimentId/runs/$runId"
                    params={{ experimentId: r.experimentId, runId: r.id }}
                    className="row-main"
                  >
                    {r.name}
                  </Link>
                </Table.Td>
                <Table.Td className="wraps">
                  <Link to="/experiments/$experimentId" params={{ experimentId: r.experimentId }}>
                    {r.experiment.name}
                  </Link>
                </Table.Td>
                <Table.Td>
                  <Ago at={r.startedAt} />
                </Table.Td>
                <Table.Td ta="right">
                  <Duration from={r.startedAt} to={r.finishedAt} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </section>
  );
}
