import { Button, MultiSelect, Select } from "@mantine/core";
import { IconFilter, IconListDetails } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type RunRowFragment, RunStatus } from "@/gql/gen";
import { useTab } from "@/lib/favicon";
import { plural } from "@/lib/format";
import { useRunEvents } from "@/lib/runEvents";
import { PageHeader } from "@/ui/PageHeader";
import { RunsTable } from "@/ui/RunsTable";
import { EmptyState, ErrorPanel, NoMatch, TableSkeleton, UnknownChoice } from "@/ui/States";
import { statusWord } from "@/ui/Status";
import { ShowMore } from "@/ui/Table";
import { type RunsFilter, runsJobsQuery, runsQuery } from "./queries";

const statuses = Object.values(RunStatus).map((value) => ({ value, label: statusWord(value) }));

/** All runs, newest first, filtered by the address. */
export function RunsPage({ filter, unknown }: { filter: RunsFilter; unknown: readonly string[] }) {
  useTab("Runs");
  const navigate = useNavigate();
  const valid = unknown.length === 0;
  const q = useInfiniteQuery({ ...runsQuery(filter), enabled: valid });
  const data = valid ? q.data : undefined;
  const rows = data?.pages.flatMap((p) => p.runs.edges.map((e) => e.node)) ?? [];
  const fresh = useFreshRuns(filter, rows);
  const filtered = Boolean(filter.status?.length || filter.job);
  const set = (f: Partial<RunsFilter>) =>
    void navigate({ to: "/runs", search: { ...filter, ...f }, replace: true });
  return (
    <div className="page">
      <PageHeader
        title="Runs"
        description="Every execution of a job, newest first."
        actions={<Filters filter={filter} set={set} />}
      />
      {valid && q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {!valid && (
          <UnknownChoice
            what="status"
            unknown={unknown}
            all={Object.values(RunStatus)}
            onClear={() => set({ status: undefined })}
          />
        )}
        {valid && fresh.count > 0 && (
          <div className="table-foot" style={{ borderTop: 0 }}>
            <Button size="compact-sm" radius="xl" onClick={fresh.show}>
              {plural(fresh.count, "new run")}
            </Button>
          </div>
        )}
        {valid && q.isPending && !q.error && <TableSkeleton rows={12} columns={6} />}
        {rows.length > 0 && <RunsTable runs={rows} label="Runs" />}
        {data && rows.length === 0 && filtered && (
          <NoMatch what="runs" onClear={() => set({ status: undefined, job: undefined })} />
        )}
        {data && rows.length === 0 && !filtered && <Nothing />}
        {valid && <ShowMore of={q}>Show older runs</ShowMore>}
      </div>
    </div>
  );
}

function Filters({ filter, set }: { filter: RunsFilter; set: (f: Partial<RunsFilter>) => void }) {
  const jobs = useQuery(runsJobsQuery).data?.jobs.edges.map((e) => e.node) ?? [];
  const options = jobs.map((j) => ({ value: j.id, label: j.name }));
  if (filter.job && !jobs.some((j) => j.id === filter.job))
    options.push({ value: filter.job, label: filter.job });
  return (
    <>
      <MultiSelect
        aria-label="Filter by status"
        placeholder={filter.status?.length ? undefined : "Any status"}
        data={statuses}
        value={filter.status ?? []}
        onChange={(v) => set({ status: v.length ? v : undefined })}
        leftSection={<IconFilter size={15} aria-hidden />}
        clearable
        w={{ base: "100%", xs: 250 }}
      />
      <Select
        aria-label="Filter by job"
        placeholder="Any job"
        data={options}
        value={filter.job ?? null}
        onChange={(v) => set({ job: v ?? undefined })}
        searchable
        clearable
        w={{ base: "100%", xs: 220 }}
      />
    </>
  );
}

/**
 * Runs that began after the list was loaded. They are counted, and shown on request so that rows do
 * not jump.
 */
function useFreshRuns(filter: RunsFilter, rows: readonly RunRowFragment[]) {
  const qc = useQueryClient();
  const key = JSON.stringify(filter);
  const [seen, setSeen] = useState<{ key: string; ids: ReadonlySet<string> }>({ key, ids: new Set() });
  const ids = seen.key === key ? seen.ids : new Set<string>();
  useRunEvents((r) => {
    const matches =
      (!filter.job || filter.job === r.jobId) && (!filter.status?.length || filter.status.includes(r.status));
    const newest = rows[0]?.createdAt ?? "";
    if (!matches || ids.has(r.id) || r.createdAt < newest || rows.some((x) => x.id === r.id)) return;
    setSeen({ key, ids: new Set([...ids, r.id]) });
  });
  const count = [...ids].filter((id) => !rows.some((r) => r.id === id)).length;
  const show = () => {
    setSeen({ key, ids: new Set() });
    void qc.invalidateQueries({ queryKey: ["RunsList"] });
  };
  return { count, show };
}

const Nothing = () => (
  <EmptyState
    icon={IconListDetails}
    title="Nothing has run yet"
    action={<Button renderRoot={(p) => <Link to="/jobs" {...p} />}>Choose a job to run</Button>}
  >
    A run is one execution of a job, kept with the tasks, parameters and logs it had. Runs start by hand, by a
    schedule, or through the API.
  </EmptyState>
);
