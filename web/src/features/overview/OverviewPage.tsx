import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type OverviewQuery, Role } from "@/gql/gen";
import { useTab } from "@/lib/favicon";
import { useViewer } from "@/lib/session";
import { Allowed } from "@/ui/Allowed";
import { PageHeader } from "@/ui/PageHeader";
import { RunsTable } from "@/ui/RunsTable";
import { ErrorPanel, PanelSkeleton, TableSkeleton } from "@/ui/States";
import { AgentsCard } from "./AgentsCard";
import { Checklist } from "./Checklist";
import { FailuresCard } from "./FailuresCard";
import { Figures } from "./Figures";
import { MachinesCard } from "./MachinesCard";
import { NoRuns } from "./NoRuns";
import { overviewQuery } from "./queries";

const nodes = <T,>(c: { readonly edges: readonly { readonly node: T }[] }) => c.edges.map((e) => e.node);

export function OverviewPage() {
  useTab("Overview");
  const viewer = useViewer();
  const q = useQuery(overviewQuery);
  return (
    <div className="page">
      <PageHeader
        title="Overview"
        description={viewer ? `Workspace ${viewer.workspace.name}` : undefined}
        actions={
          <Allowed role={Role.Editor}>
            {(disabled) => (
              <Button
                leftSection={<IconPlus size={16} />}
                disabled={disabled}
                renderRoot={disabled ? undefined : (p) => <Link to="/jobs/new" {...p} />}
              >
                New job
              </Button>
            )}
          </Allowed>
        }
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      {q.data ? <Loaded data={q.data} /> : !q.error && <Loading />}
    </div>
  );
}

function Loaded({ data }: { data: OverviewQuery }) {
  const latest = nodes(data.latest);
  const failures = nodes(data.failures);
  return (
    <>
      <Figures counts={data.overview} />
      <div className="two">
        <div className="stack">
          <section className="card" aria-label="Latest runs">
            <div className="section-title">
              <h2>Latest runs</h2>
              <Link to="/runs">All runs</Link>
            </div>
            {latest.length ? <RunsTable runs={latest} ids={false} label="Latest runs" /> : <NoRuns />}
          </section>
        </div>
        <div className="stack">
          <Checklist
            jobs={nodes(data.jobs)}
            latest={latest}
            hasKey={data.apiKeys.edges.length > 0}
            hasQuery={data.statements.edges.length > 0}
            sampleRun={latest.findLast((r) => r.trigger === "SAMPLE") ?? latest.at(-1)}
          />
          <MachinesCard machines={[...nodes(data.computeInstances), ...nodes(data.warehouses)]} />
          <FailuresCard runs={failures} />
          <AgentsCard agents={nodes(data.agents)} />
        </div>
      </div>
    </>
  );
}

function Loading() {
  return (
    <>
      <PanelSkeleton height={84} />
      <div className="two">
        <div className="card">
          <TableSkeleton rows={8} columns={6} />
        </div>
        <PanelSkeleton height={260} />
      </div>
    </>
  );
}
