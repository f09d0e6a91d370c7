import { ActionIcon, Badge, Button, Table, Text, TextInput, Tooltip, VisuallyHidden } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconAffiliate, IconPlayerPlay, IconPlus, IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { type JobRowFragment, Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { useShortcuts } from "@/lib/hotkeys";
import { useRole } from "@/lib/session";
import { Allowed } from "@/ui/Allowed";
import { PageHeader } from "@/ui/PageHeader";
import { RunBars } from "@/ui/RunBars";
import { useStartRun } from "@/ui/StartRun";
import { EmptyState, ErrorPanel, NoMatch, TableSkeleton } from "@/ui/States";
import { StatusBadge } from "@/ui/Status";
import { ShowMore } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { jobsQuery } from "./queries";
import { NextRun } from "./ScheduleText";

/** All jobs, newest first, with their last runs. */
export function JobsPage({ q: search }: { q: string | undefined }) {
  useTab("Jobs");
  const navigate = useNavigate();
  const q = useInfiniteQuery(jobsQuery(search));
  const jobs = q.data?.pages.flatMap((p) => p.jobs.edges.map((e) => e.node)) ?? [];
  const setSearch = (s: string) =>
    void navigate({ to: "/jobs", search: { q: s.trim() || undefined }, replace: true });
  return (
    <div className="page">
      <PageHeader
        title="Jobs"
        description="A job is a single command, or tasks that depend on each other."
        actions={
          <>
            <SearchField key={search ? "found" : "all"} value={search} onSearch={setSearch} />
            <NewJob />
          </>
        }
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={8} columns={6} />}
        {jobs.length > 0 && <JobsTable jobs={jobs} />}
        {q.isSuccess && jobs.length === 0 && search && <NoMatch what="jobs" onClear={() => setSearch("")} />}
        {q.isSuccess && jobs.length === 0 && !search && (
          <EmptyState icon={IconAffiliate} title="No jobs yet" action={<NewJob />}>
            A job says what to run: one command, or tasks that depend on each other, with retries, time-outs,
            parameters and a schedule.
          </EmptyState>
        )}
        <ShowMore of={q}>Show more jobs</ShowMore>
      </div>
    </div>
  );
}

function SearchField({ value, onSearch }: { value: string | undefined; onSearch: (s: string) => void }) {
  const search = useDebouncedCallback(onSearch, 200);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (field.current && document.activeElement !== field.current) field.current.value = value ?? "";
  }, [value]);
  return (
    <TextInput
      ref={field}
      aria-label="Search jobs"
      placeholder="Search by name"
      defaultValue={value}
      leftSection={<IconSearch size={15} aria-hidden />}
      onChange={(e) => search(e.currentTarget.value)}
      w={220}
    />
  );
}

function NewJob() {
  const navigate = useNavigate();
  const editor = includes(useRole(), Role.Editor);
  const shortcut = { keys: ["c"], label: "New job", run: () => void navigate({ to: "/jobs/new" }) };
  useShortcuts("Jobs", editor ? [shortcut] : []);
  return (
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
  );
}

function JobsTable({ jobs }: { jobs: readonly JobRowFragment[] }) {
  const start = useStartRun();
  return (
    <Table.ScrollContainer minWidth={700}>
      <Table aria-label="Jobs" className="rows" layout="fixed">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Job</Table.Th>
            <Table.Th w={150}>Last runs</Table.Th>
            <Table.Th w={135}>Latest</Table.Th>
            <Table.Th w={165}>Next</Table.Th>
            <Table.Th w={60}>
              <VisuallyHidden>Actions</VisuallyHidden>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {jobs.map((j) => {
            const runs = j.runs.edges.map((e) => e.node);
            const latest = runs[0];
            return (
              <Table.Tr key={j.id} className="row-link">
                <Table.Td className="wraps">
                  <Link to="/jobs/$jobId" params={{ jobId: j.id }} className="row-main">
                    {j.name}
                  </Link>{" "}
                  {j.sample && (
                    <Badge size="xs" variant="light" tt="none">
                      sample
                    </Badge>
                  )}
                  {j.description && (
                    <Text size="xs" c="dimmed" truncate>
                      {j.description}
                    </Text>
                  )}
                </Table.Td>
                <Table.Td>
                  <RunBars runs={runs} size={14} />
                </Table.Td>
                <Table.Td>
                  {latest ? (
                    <>
                      <StatusBadge status={latest.status} />
                      <Text size="xs" c="dimmed">
                        <Ago at={latest.createdAt} />
                      </Text>
                    </>
                  ) : (
                    <span className="dim">Never ran</span>
                  )}
                </Table.Td>
                <Table.Td>
                  <NextRun schedule={j.schedule} />
                </Table.Td>
                <Table.Td ta="right">
                  <Allowed role={Role.Editor}>
                    {(disabled) => (
                      <Tooltip label={`Run ${j.name}`}>
                        <ActionIcon
                          variant="default"
                          size={30}
                          aria-label={`Run ${j.name}`}
                          disabled={disabled || start.pending}
                          onClick={() => start.ask(j)}
                        >
                          <IconPlayerPlay size={15} />
                        </ActionIcon>
                      </Tooltip>
                    )}
                  </Allowed>
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
