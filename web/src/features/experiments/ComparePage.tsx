import "./experiments.css";
import { Switch, Table } from "@mantine/core";
import { IconChartLine } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTab } from "@/lib/favicon";
import { plural } from "@/lib/format";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, PanelSkeleton } from "@/ui/States";
import { StatusBadge } from "@/ui/Status";
import { Duration } from "@/ui/Time";
import { AcrossRuns } from "./AcrossRuns";
import { columnsIn, type Logged } from "./columns";
import { type Difference, differences } from "./compare";
import { type Look, type LookPlace, lookOf, placeOf } from "./look";
import { MetricCharts } from "./MetricCharts";
import { comparedIds, comparedQuery, experimentQuery, logs } from "./queries";
import { RunMark } from "./RunMark";

/** What is compared and how, from the address. */
export interface ComparePlace extends LookPlace {
  runs?: string | undefined;
  same?: boolean | undefined;
  across?: string | undefined;
  up?: string | undefined;
  axes?: string[] | undefined;
}

/** Runs side by side: parameters, latest metrics and charts. */
export function ComparePage({ experiment, place }: { experiment: string; place: ComparePlace }) {
  useTab("Compare runs");
  const ids = useMemo(() => comparedIds(place.runs), [place.runs]);
  const q = useQuery(comparedQuery(experiment, ids));
  const name = useQuery(experimentQuery(experiment)).data?.experiment?.name;
  const found = q.data?.trackingRuns.edges;
  const runs = useMemo(
    () => ids.flatMap((id) => found?.find((e) => e.node.id === id)?.node ?? []),
    [ids, found],
  );
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="experiments" to="/experiments">
            Experiments
          </Link>,
          <Link key="one" to="/experiments/$experimentId" params={{ experimentId: experiment }}>
            {name ?? "Experiment"}
          </Link>,
        ]}
        title={runs.length > 1 ? `Compare ${plural(runs.length, "run")}` : "Compare runs"}
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      {ids.length > 0 && q.isPending && !q.error && <PanelSkeleton height={420} />}
      {(ids.length === 0 || q.isSuccess) && runs.length === 0 && (
        <div className="card">
          <EmptyState
            icon={IconChartLine}
            title="No runs to compare"
            action={
              <Link to="/experiments/$experimentId" params={{ experimentId: experiment }}>
                Choose runs
              </Link>
            }
          >
            Select two or more runs in the table of the experiment, and press Compare.
          </EmptyState>
        </div>
      )}
      {runs.length > 0 && <Loaded experiment={experiment} runs={runs} place={place} />}
    </div>
  );
}

function Loaded({
  experiment,
  runs,
  place,
}: {
  experiment: string;
  runs: readonly Logged[];
  place: ComparePlace;
}) {
  const navigate = useNavigate();
  const { x, log, smooth } = place;
  const look = useMemo(() => lookOf({ x, log, smooth }), [x, log, smooth]);
  const set = (p: Partial<ComparePlace>) =>
    void navigate({
      to: "/experiments/$experimentId/compare",
      params: { experimentId: experiment },
      search: { ...place, ...p },
      replace: true,
      resetScroll: false,
    });
  const onLook = (l: Partial<Look>) => set(placeOf({ ...look, ...l }));
  const drawn = useMemo(
    () =>
      runs.map((r) => ({
        id: r.id,
        name: r.name,
        startedAt: r.startedAt,
        live: logs(r.state) && r.deletedAt === null,
      })),
    [runs],
  );
  const keys = columnsIn(runs)
    .filter((c) => c.kind === "metrics")
    .map((c) => c.key);
  return (
    <>
      <Differences
        runs={runs}
        onlyDifferent={place.same !== true}
        onOnlyDifferent={(on) => set({ same: on ? undefined : true })}
      />
      <section className="card" aria-label="Charts of the metrics">
        <div className="section-title">
          <h2>Metrics</h2>
        </div>
        <MetricCharts runs={drawn} keys={keys} look={look} onLook={onLook} />
      </section>
      <AcrossRuns runs={runs} place={place} onPlace={set} />
    </>
  );
}

function Differences({
  runs,
  onlyDifferent,
  onOnlyDifferent,
}: {
  runs: readonly Logged[];
  onlyDifferent: boolean;
  onOnlyDifferent: (on: boolean) => void;
}) {
  const parameters = differences(runs, "params");
  const metrics = differences(runs, "metrics");
  const shown = onlyDifferent ? parameters.filter((d) => d.differs) : parameters;
  const hidden = parameters.length - shown.length;
  return (
    <section className="card" aria-label="Parameters and latest metrics">
      <div className="section-title">
        <h2>Parameters and latest metrics</h2>
        <Switch
          size="xs"
          label="Differences only"
          checked={onlyDifferent}
          onChange={(e) => onOnlyDifferent(e.currentTarget.checked)}
        />
      </div>
      <Table.ScrollContainer minWidth={200 + runs.length * 120}>
        <Table aria-label="Comparison of the runs" className="rows comparison">
          <Table.Thead>
            <Table.Tr>
              <Table.Td />
              {runs.map((r, i) => (
                <Table.Th key={r.id} scope="col">
                  <RunMark n={i} />{" "}
                  <Link
                    to="/experiments/$experimentId/runs/$runId"
                    params={{ experimentId: r.experimentId, runId: r.id }}
                  >
                    {r.name}
                  </Link>
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            <Table.Tr>
              <Table.Th scope="row">State</Table.Th>
              {runs.map((r) => (
                <Table.Td key={r.id}>
                  <StatusBadge status={r.state} />
                </Table.Td>
              ))}
            </Table.Tr>
            <Table.Tr>
              <Table.Th scope="row">Duration</Table.Th>
              {runs.map((r) => (
                <Table.Td key={r.id}>
                  <Duration from={r.startedAt} to={r.finishedAt} />
                </Table.Td>
              ))}
            </Table.Tr>
            <Rows
              title="Parameters"
              rows={shown}
              runs={runs}
              note={
                hidden > 0 ? `${plural(hidden, "parameter")} with one value for all runs not shown` : null
              }
            />
            <Rows title="Latest metrics" rows={metrics} runs={runs} note={null} />
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </section>
  );
}

function Rows({
  title,
  rows,
  runs,
  note,
}: {
  title: string;
  rows: readonly Difference[];
  runs: readonly Logged[];
  note: string | null;
}) {
  return (
    <>
      <Table.Tr className="group-row">
        <Table.Th colSpan={1 + runs.length} scope="rowgroup">
          {title} {note && <span className="dim">({note})</span>}
        </Table.Th>
      </Table.Tr>
      {rows.map((d) => {
        const marked = d.differs && d.column.kind === "params";
        return (
          <Table.Tr key={d.column.id} data-differs={marked || undefined}>
            <Table.Th scope="row">
              {d.column.key} {marked && <span className="differs">differs</span>}
            </Table.Th>
            {runs.map((r, i) => (
              <Table.Td key={r.id}>{d.values[i] ?? <span className="dim">–</span>}</Table.Td>
            ))}
          </Table.Tr>
        );
      })}
      {rows.length === 0 && (
        <Table.Tr>
          <Table.Td colSpan={1 + runs.length} className="dim">
            {note ? "The runs have the same parameters." : "The runs logged none."}
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}
