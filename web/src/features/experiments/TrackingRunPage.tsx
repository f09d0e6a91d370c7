import "./experiments.css";
import { ActionIcon, Button, Menu } from "@mantine/core";
import { modals } from "@mantine/modals";
import {
  IconArrowBackUp,
  IconDotsVertical,
  IconPencil,
  IconPlayerPlay,
  IconTrash,
} from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { Role, TrackingRunDetailDocument, TrackingRunsChangedDocument } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { type FaviconState, useTab } from "@/lib/favicon";
import { patchEntity } from "@/lib/patch";
import { useRole } from "@/lib/session";
import { useSubscription } from "@/lib/socket";
import { Allowed } from "@/ui/Allowed";
import { CopyMenu } from "@/ui/Copy";
import { LostPage } from "@/ui/Fallbacks";
import { NameForm } from "@/ui/NameForm";
import { PageHeader } from "@/ui/PageHeader";
import { startAgain, useStartRun } from "@/ui/StartRun";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { StatusBadge, statusWord } from "@/ui/Status";
import { useTrackingRunActions } from "./actions";
import { type Look, type LookPlace, lookOf, placeOf } from "./look";
import { MetricCharts } from "./MetricCharts";
import { logs, type TrackingRun, trackingRunQuery } from "./queries";
import { RunFacts } from "./RunFacts";
import { RunTables } from "./RunTables";
import { Inputs, LatestMetrics, Parameters } from "./RunValues";
import { Tags } from "./Tags";

const icons: Record<TrackingRun["state"], FaviconState> = {
  SCHEDULED: "-running",
  RUNNING: "-running",
  FINISHED: "-success",
  FAILED: "-failed",
  KILLED: "",
};

/** One tracking run: where it comes from, what it logged, and charts of its metrics. */
export function TrackingRunPage({
  experiment,
  id,
  place,
}: {
  experiment: string;
  id: string;
  place: LookPlace;
}) {
  const qc = useQueryClient();
  const q = useQuery(trackingRunQuery(id));
  const run = q.data?.trackingRun;
  const elsewhere = run && run.experimentId !== experiment;
  useTab(run ? `${statusWord(run.state)}: ${run.name}` : "Run", run ? icons[run.state] : "");
  useSubscription(
    TrackingRunsChangedDocument,
    { experiment },
    ({ trackingRunChanges }) => patchEntity(qc, trackingRunChanges),
    Boolean(run) && !elsewhere,
  );
  if (run === null || elsewhere) return <LostPage what="run" />;
  if (run) return <Loaded run={run} place={place} />;
  return (
    <div className="page">
      {q.error ? (
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      ) : (
        <>
          <PanelSkeleton height={60} />
          <PanelSkeleton height={420} />
        </>
      )}
    </div>
  );
}

function Loaded({ run, place }: { run: TrackingRun; place: LookPlace }) {
  const navigate = useNavigate();
  const { x, log, smooth } = place;
  const look = useMemo(() => lookOf({ x, log, smooth }), [x, log, smooth]);
  const onLook = (l: Partial<Look>) =>
    void navigate({
      to: "/experiments/$experimentId/runs/$runId",
      params: { experimentId: run.experimentId, runId: run.id },
      search: placeOf({ ...look, ...l }),
      replace: true,
      resetScroll: false,
    });
  const { id, name, startedAt } = run;
  const live = logs(run.state) && run.deletedAt === null;
  const drawn = useMemo(() => [{ id, name, startedAt, live }], [id, name, startedAt, live]);
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="experiments" to="/experiments">
            Experiments
          </Link>,
          <Link key="one" to="/experiments/$experimentId" params={{ experimentId: run.experimentId }}>
            {run.experiment.name}
          </Link>,
        ]}
        title={run.name}
        meta={
          <>
            <StatusBadge status={run.state} />
            {run.deletedAt && <span className="dim">deleted</span>}
          </>
        }
        actions={<Actions run={run} />}
      />
      <div className="two tracking-run">
        <div className="stack">
          <section className="card" aria-label="Charts of the metrics">
            <div className="section-title">
              <h2>Metrics</h2>
            </div>
            <MetricCharts runs={drawn} keys={run.metrics.map((m) => m.key)} look={look} onLook={onLook} />
          </section>
        </div>
        <div className="stack">
          <RunFacts run={run} />
          <Parameters run={run} />
          <LatestMetrics run={run} />
          <Inputs run={run} />
          <RunTables run={run} />
          <Tags run={run} />
        </div>
      </div>
    </div>
  );
}

const renameId = "rename-tracking-run";

function Actions({ run }: { run: TrackingRun }) {
  const start = useStartRun();
  const editor = includes(useRole(), Role.Editor);
  const { rename, restore, askRemove } = useTrackingRunActions();
  const jobRun = run.jobRun;
  const askRename = () =>
    modals.open({
      modalId: renameId,
      title: `Rename ${run.name}`,
      children: (
        <NameForm
          label="Name"
          action="Rename it"
          initial={run.name}
          create={(name) => rename.mutateAsync({ id: run.id, name })}
          onClose={() => modals.close(renameId)}
        />
      ),
    });
  return (
    <>
      {jobRun?.job && (
        <Allowed role={Role.Editor}>
          {(disabled) => (
            <Button
              variant="default"
              leftSection={<IconPlayerPlay size={16} />}
              disabled={disabled}
              loading={start.pending}
              onClick={() => start.ask(startAgain(jobRun))}
            >
              Run again with these parameters
            </Button>
          )}
        </Allowed>
      )}
      <CopyMenu
        doc={TrackingRunDetailDocument}
        variables={{ id: run.id }}
        rest={`/api/v1/experiments/${run.experimentId}/runs/${run.id}`}
      />
      {editor && run.deletedAt && (
        <Button
          variant="default"
          leftSection={<IconArrowBackUp size={16} />}
          loading={restore.isPending}
          onClick={() => restore.mutate([run.id])}
        >
          Restore
        </Button>
      )}
      {editor && !run.deletedAt && (
        <Menu>
          <Menu.Target>
            <ActionIcon variant="default" size={34} aria-label="More">
              <IconDotsVertical size={16} />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item leftSection={<IconPencil size={15} />} onClick={askRename}>
              Rename
            </Menu.Item>
            <Menu.Item color="red" leftSection={<IconTrash size={15} />} onClick={() => askRemove([run.id])}>
              Delete the run
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
    </>
  );
}
