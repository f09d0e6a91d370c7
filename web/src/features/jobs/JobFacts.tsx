import type { JobFullFragment } from "@/gql/gen";
import { formatBytes, plural } from "@/lib/format";
import { ComputeLink } from "@/ui/Machine";
import { Ago } from "@/ui/Time";

/** The settings of a job, except its work and its schedule. */
export function JobFacts({ job }: { job: JobFullFragment }) {
  const elsewhere = job.tasks?.filter((t) => t.computeId).length ?? 0;
  return (
    <section className="card" aria-label="Declaration">
      <div className="section-title">
        <h2>Declaration</h2>
      </div>
      <dl className="facts card-pad" style={{ paddingTop: 0 }}>
        <dt>Runs on</dt>
        <dd>
          {job.computeId ? <ComputeLink compute={job.compute} id={job.computeId} /> : "the workspace's agent"}
          {elsewhere > 0 && (
            <div className="dim">except {plural(elsewhere, "task")} on another compute instance</div>
          )}
          {job.computeFallback && (
            <div className="dim">or on the workspace's agent if it is not available</div>
          )}
        </dd>
        <dt>Parameters</dt>
        <dd>
          <Variables list={job.parameters} />
        </dd>
        <dt>Environment</dt>
        <dd>
          <Variables list={job.environment} />
        </dd>
        {job.files.length > 0 && (
          <>
            <dt>Files</dt>
            <dd>
              {job.files.map((f) => (
                <div key={f.path}>
                  <span className="mono">{f.path}</span> <span className="dim">{formatBytes(f.size)}</span>
                </div>
              ))}
            </dd>
          </>
        )}
        {!job.tasks?.length && (
          <>
            <dt>Retries</dt>
            <dd>{job.maxRetries}</dd>
            <dt>Time-out</dt>
            <dd>{job.timeoutSeconds ? `${job.timeoutSeconds} s` : "none"}</dd>
          </>
        )}
        <dt>Runs at once</dt>
        <dd>{job.maxConcurrentRuns || "no limit"}</dd>
        <dt>Created</dt>
        <dd>
          <Ago at={job.createdAt} />
        </dd>
        <dt>Changed</dt>
        <dd>
          <Ago at={job.updatedAt} />
        </dd>
      </dl>
    </section>
  );
}

function Variables({ list }: { list: readonly { name: string; value: string }[] }) {
  if (list.length === 0) return <span className="dim">none</span>;
  return list.map((v) => (
    <div key={v.name} className="mono">
      {v.name}={v.value}
    </div>
  ));
}
