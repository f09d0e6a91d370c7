import { Link } from "@tanstack/react-router";
import { CopyId } from "@/ui/Copy";
import { Ago, Duration } from "@/ui/Time";
import type { TrackingRun } from "./queries";

/** Who ran it, when, and the job's run that it belongs to. */
export function RunFacts({ run }: { run: TrackingRun }) {
  const tag = (key: string) => run.tags.find((t) => t.key === key)?.value;
  const parent = tag("mlflow.parentRunId");
  const source = tag("mlflow.source.name");
  const commit = tag("mlflow.source.git.commit");
  return (
    <section className="card card-pad" aria-label="About the run">
      <dl className="facts">
        <dt>Run</dt>
        <dd>
          <CopyId id={run.id} />
        </dd>
        <dt>User</dt>
        <dd>{run.user || run.createdBy}</dd>
        <dt>Started</dt>
        <dd>
          <Ago at={run.startedAt} />
        </dd>
        <dt>Duration</dt>
        <dd>
          <Duration from={run.startedAt} to={run.finishedAt} />
        </dd>
        {parent && (
          <>
            <dt>Part of</dt>
            <dd>
              <Link
                to="/experiments/$experimentId/runs/$runId"
                params={{ experimentId: run.experimentId, runId: parent }}
              >
                its parent run
              </Link>
            </dd>
          </>
        )}
        <JobFacts run={run} />
        {source && (
          <>
            <dt>Source</dt>
            <dd>{source}</dd>
          </>
        )}
        {commit && (
          <>
            <dt>Commit</dt>
            <dd>
              <CopyId id={commit} />
            </dd>
          </>
        )}
        <dt>Artifacts</dt>
        <dd>
          <CopyId id={run.artifactUri} />
        </dd>
      </dl>
    </section>
  );
}

function JobFacts({ run }: { run: TrackingRun }) {
  const { jobRun, taskKey } = run;
  if (!jobRun)
    return (
      run.jobRunId && (
        <>
          <dt>Job</dt>
          <dd className="dim">Its run was removed.</dd>
        </>
      )
    );
  const attempts = [...jobRun.attempts, ...jobRun.tasks.flatMap((t) => t.attempts)];
  const attempt = attempts.find((a) => a.id === run.attemptId)?.number;
  const place = { ...(taskKey ? { task: taskKey } : {}), ...(attempt ? { attempt } : {}) };
  return (
    <>
      <dt>Job</dt>
      <dd>
        {jobRun.job ? (
          <Link to="/jobs/$jobId" params={{ jobId: jobRun.job.id }}>
            {jobRun.jobName}
          </Link>
        ) : (
          `${jobRun.jobName} (deleted)`
        )}
      </dd>
      <dt>Job's run</dt>
      <dd>
        <Link to="/runs/$runId" params={{ runId: jobRun.id }} className="mono">
          {jobRun.id}
        </Link>
      </dd>
      {(taskKey || attempt) && (
        <>
          <dt>{taskKey ? "Task" : "Attempt"}</dt>
          <dd>
            <Link to="/runs/$runId" params={{ runId: jobRun.id }} search={place}>
              {taskKey ?? attempt}
              {taskKey && attempt && `, attempt ${attempt}`}
            </Link>
          </dd>
        </>
      )}
    </>
  );
}
