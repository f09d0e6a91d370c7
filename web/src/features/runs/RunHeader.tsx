import { Button } from "@mantine/core";
import { IconPlayerPlay, IconPlayerStop, IconTool } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { Role, RunDetailDocument } from "@/gql/gen";
import { Allowed } from "@/ui/Allowed";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { confirm } from "@/ui/dialogs";
import { ComputeLink } from "@/ui/Machine";
import { PageHeader } from "@/ui/PageHeader";
import { Trigger } from "@/ui/RunsTable";
import { startAgain, useStartRun } from "@/ui/StartRun";
import { isActive, runWord, StatusBadge } from "@/ui/Status";
import { Ago, Duration } from "@/ui/Time";
import { useRunActions } from "./actions";
import type { RunDetail } from "./queries";

/** The run's identity, state and actions. */
export function RunHeader({ run }: { run: RunDetail }) {
  return (
    <>
      <PageHeader
        trail={[
          <Link key="runs" to="/runs">
            Runs
          </Link>,
          run.job ? (
            <Link key="job" to="/jobs/$jobId" params={{ jobId: run.job.id }}>
              {run.jobName}
            </Link>
          ) : (
            <span key="job">{run.jobName} (deleted)</span>
          ),
        ]}
        title={run.jobName}
        meta={<StatusBadge status={run.status} word={runWord(run)} />}
        actions={<Actions run={run} />}
      />
      <Facts run={run} />
    </>
  );
}

/**
 * The compute instance of a single command, whose run has no tasks: the job's, unless the last
 * attempt ran elsewhere, such as on the workspace's agent.
 */
function computeOf(run: RunDetail) {
  const compute = run.singleCommand ? run.job?.compute : null;
  const agent = run.attempts.at(-1)?.agent;
  return compute && (!agent || agent.id === compute.agent?.id) ? compute : null;
}

function Facts({ run }: { run: RunDetail }) {
  const compute = computeOf(run);
  return (
    <div>
      <div className="run-facts">
        <CopyId id={run.id} />
        <span>
          by <Trigger run={run} />
        </span>
        <span>
          created{" "}
          <b>
            <Ago at={run.createdAt} />
          </b>
        </span>
        <span>
          took{" "}
          <b>
            <Duration from={run.startedAt} to={run.finishedAt} />
          </b>
        </span>
        {compute && (
          <span>
            on <ComputeLink compute={compute} id={compute.id} />
          </span>
        )}
        {run.parameters.length > 0 && (
          <span className="run-parameters">
            {run.parameters.map((p) => (
              <span key={p.name} className="parameter" title={`${p.name}=${p.value}`}>
                <i>{p.name}=</i>
                {p.value}
              </span>
            ))}
          </span>
        )}
      </div>
      {run.message && run.status !== "FAILED" && <div className="run-facts">{run.message}</div>}
    </div>
  );
}

function Actions({ run }: { run: RunDetail }) {
  const { cancel, repair } = useRunActions(run);
  const start = useStartRun();
  const askCancel = () =>
    confirm({
      title: `Cancel this run of ${run.jobName}?`,
      effect:
        "Running tasks are asked to end, and are killed ten seconds later; waiting tasks do not start. Succeeded tasks stay, and the run can be repaired.",
      action: "Cancel the run",
      cancel: "Let it run",
      run: () => cancel.mutate(),
    });
  return (
    <>
      {isActive(run.status) && (
        <Allowed role={Role.Editor}>
          {(disabled) => (
            <Button
              variant="default"
              leftSection={<IconPlayerStop size={16} />}
              disabled={disabled || run.cancelRequestedAt !== null}
              onClick={askCancel}
            >
              {run.cancelRequestedAt ? "Cancelling" : "Cancel"}
            </Button>
          )}
        </Allowed>
      )}
      {(run.status === "FAILED" || run.status === "CANCELLED") && (
        <Allowed role={Role.Editor}>
          {(disabled) => (
            <Button
              leftSection={<IconTool size={16} />}
              disabled={disabled}
              loading={repair.isPending}
              onClick={() => repair.mutate()}
            >
              Repair
            </Button>
          )}
        </Allowed>
      )}
      {!isActive(run.status) && run.job && (
        <Allowed role={Role.Editor}>
          {(disabled) => (
            <Button
              variant="default"
              leftSection={<IconPlayerPlay size={16} />}
              disabled={disabled}
              loading={start.pending}
              onClick={() => start.ask(startAgain(run))}
            >
              Run again
            </Button>
          )}
        </Allowed>
      )}
      <CopyMenu doc={RunDetailDocument} variables={{ id: run.id }} rest={`/api/v1/runs/${run.id}`} />
    </>
  );
}
