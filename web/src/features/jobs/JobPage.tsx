import "./job.css";
import { Badge, Button, Menu, MultiSelect, Text } from "@mantine/core";
import { IconDotsVertical, IconPencil, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { JobDetailDocument, type JobFullFragment, Role, RunStatus } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { plural } from "@/lib/format";
import { useShortcuts } from "@/lib/hotkeys";
import { split } from "@/lib/search";
import { useRole } from "@/lib/session";
import { Allowed } from "@/ui/Allowed";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { confirm } from "@/ui/dialogs";
import { LostPage } from "@/ui/Fallbacks";
import { PageHeader } from "@/ui/PageHeader";
import { RunsTable } from "@/ui/RunsTable";
import { useStartRun } from "@/ui/StartRun";
import { EmptyState, ErrorPanel, NoMatch, PanelSkeleton, TableSkeleton, UnknownChoice } from "@/ui/States";
import { statusWord } from "@/ui/Status";
import { ShowMore } from "@/ui/Table";
import { useDeleteJob } from "./actions";
import { JobFacts } from "./JobFacts";
import { JobWork } from "./JobWork";
import { jobQuery, jobRunsQuery } from "./queries";
import { ScheduleCard } from "./ScheduleCard";

/** One job: its work, schedule and runs. */
export function JobPage({ id, status }: { id: string; status: string[] | undefined }) {
  const q = useQuery(jobQuery(id));
  const job = q.data?.job;
  useTab(job?.name ?? "Job");
  if (job === null) return <LostPage what="job" />;
  if (!job)
    return (
      <div className="page">
        {q.error ? (
          <ErrorPanel error={q.error} retry={() => q.refetch()} />
        ) : (
          <>
            <PanelSkeleton height={48} />
            <PanelSkeleton height={260} />
            <PanelSkeleton height={320} />
          </>
        )}
      </div>
    );
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="jobs" to="/jobs">
            Jobs
          </Link>,
        ]}
        title={job.name}
        meta={
          <>
            {job.sample && (
              <Badge variant="light" size="sm" tt="none">
                sample
              </Badge>
            )}
            <CopyId id={job.id} short />
          </>
        }
        description={job.description || undefined}
        actions={<Actions job={job} />}
      />
      <div className="two">
        <div className="stack">
          <JobWork job={job} />
          <Runs job={job} status={status} />
        </div>
        <div className="stack">
          <ScheduleCard job={job} />
          <JobFacts job={job} />
        </div>
      </div>
    </div>
  );
}

function Actions({ job }: { job: JobFullFragment }) {
  const start = useStartRun();
  const remove = useDeleteJob();
  const navigate = useNavigate();
  const editor = includes(useRole(), Role.Editor);
  const shortcuts = [
    { keys: ["r"], label: "Run the job", run: () => start.ask(job) },
    {
      keys: ["E"],
      label: "Edit the job",
      run: () => void navigate({ to: "/jobs/$jobId/edit", params: { jobId: job.id } }),
    },
  ];
  useShortcuts("Job", editor ? shortcuts : []);
  const ask = () =>
    confirm({
      title: `Delete ${job.name}?`,
      effect: "It will not run again, by schedule or by hand. Its runs and their logs stay.",
      action: "Delete the job",
      run: () => remove.mutate(job),
    });
  return (
    <Allowed role={Role.Editor}>
      {(disabled) => (
        <span className="button-row">
          <Button
            leftSection={<IconPlayerPlay size={16} />}
            disabled={disabled}
            loading={start.pending}
            onClick={() => start.ask(job)}
          >
            Run
          </Button>
          <Button
            variant="default"
            leftSection={<IconPencil size={16} />}
            disabled={disabled}
            renderRoot={
              disabled ? undefined : (p) => <Link to="/jobs/$jobId/edit" params={{ jobId: job.id }} {...p} />
            }
          >
            Edit
          </Button>
          <CopyMenu doc={JobDetailDocument} variables={{ id: job.id }} rest={`/api/v1/jobs/${job.id}`} />
          <Menu>
            <Menu.Target>
              <Button variant="default" px={8} disabled={disabled} aria-label="More">
                <IconDotsVertical size={16} />
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item color="red" leftSection={<IconTrash size={15} />} onClick={ask}>
                Delete the job
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </span>
      )}
    </Allowed>
  );
}

const statuses = Object.values(RunStatus).map((value) => ({ value, label: statusWord(value) }));

function Runs({ job, status: chosen }: { job: JobFullFragment; status: string[] | undefined }) {
  const navigate = useNavigate();
  const { known: status, unknown } = split(chosen, Object.values(RunStatus));
  const valid = unknown.length === 0;
  const q = useInfiniteQuery({ ...jobRunsQuery(job.id, status), enabled: valid });
  const data = valid ? q.data : undefined;
  const runs = data?.pages.flatMap((p) => p.job?.runs.edges.map((e) => e.node) ?? []) ?? [];
  const filter = (s: RunStatus[]) =>
    void navigate({
      to: "/jobs/$jobId",
      params: { jobId: job.id },
      search: { status: s.length ? s : undefined },
      replace: true,
      resetScroll: false,
    });
  return (
    <section className="card" aria-label="Runs of this job">
      <div className="section-title">
        <h2>Runs</h2>
        <MultiSelect
          size="xs"
          w={230}
          aria-label="Filter by status"
          placeholder={status?.length ? undefined : "Any status"}
          data={statuses}
          value={status ?? []}
          onChange={(v) => filter(v)}
          clearable
        />
      </div>
      {!valid && (
        <UnknownChoice
          what="status"
          unknown={unknown}
          all={Object.values(RunStatus)}
          onClear={() => filter([])}
        />
      )}
      {valid && q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      {valid && q.isPending && !q.error && <TableSkeleton rows={6} columns={5} />}
      {runs.length > 0 && <RunsTable runs={runs} job={false} label="Runs of this job" />}
      {data && runs.length === 0 && status?.length && <NoMatch what="runs" onClear={() => filter([])} />}
      {data && runs.length === 0 && !status?.length && (
        <EmptyState icon={IconPlayerPlay} title="This job has not run yet">
          Press Run to start it now
          {job.schedule ? ", or wait for its schedule." : ", or give it a schedule under Edit."}
        </EmptyState>
      )}
      {valid && <ShowMore of={q}>Show older runs</ShowMore>}
      {runs.length > 0 && !q.hasNextPage && (
        <Text size="xs" c="dimmed" ta="center" py={8}>
          {plural(runs.length, "run")} in all
        </Text>
      )}
    </section>
  );
}
