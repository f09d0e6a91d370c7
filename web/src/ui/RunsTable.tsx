import { Table, Text } from "@mantine/core";
import { IconCalendarClock, IconSparkles, IconUser } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type RunRowFragment, RunTrigger } from "@/gql/gen";
import { CopyId } from "./Copy";
import { runWord, StatusBadge } from "./Status";
import { TableHead } from "./Table";
import { Ago, Duration } from "./Time";

const triggers = {
  [RunTrigger.Manual]: { icon: IconUser, word: "Started by hand" },
  [RunTrigger.Schedule]: { icon: IconCalendarClock, word: "Schedule" },
  [RunTrigger.Sample]: { icon: IconSparkles, word: "Sample" },
};

/** The trigger of a run, by icon and name. */
export function Trigger({ run }: { run: Pick<RunRowFragment, "trigger" | "startedBy"> }) {
  const { icon: Icon, word } = triggers[run.trigger];
  return (
    <span className="trigger" title={`${word}: ${run.startedBy}`}>
      <Icon size={14} stroke={1.6} aria-hidden />
      <span className="trigger-name">{run.startedBy}</span>
    </span>
  );
}

/** Runs, one per line, each a link. */
export function RunsTable({
  runs,
  job = true,
  ids = job,
  label,
}: {
  runs: readonly RunRowFragment[];
  /** Whether to name the job. */
  job?: boolean;
  /** Whether to show the runs' ids in a separate column. */
  ids?: boolean;
  label: string;
}) {
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table aria-label={label} className="rows">
        <TableHead
          columns={[
            "Status",
            job && "Job",
            (ids || !job) && "Run",
            "Started by",
            "Created",
            { right: "Duration" },
          ]}
        />
        <Table.Tbody>
          {runs.map((r) => (
            <Table.Tr key={r.id} className="row-link">
              <Table.Td w={130}>
                <StatusBadge status={r.status} word={runWord(r)} />
              </Table.Td>
              <Table.Td miw={150} className="wraps">
                <Link to="/runs/$runId" params={{ runId: r.id }} className="row-main">
                  {job ? r.jobName : <span className="mono">{shortId(r.id)}</span>}
                </Link>
                {r.message && (
                  <Text size="xs" c="dimmed" lineClamp={1} maw={420}>
                    {r.message}
                  </Text>
                )}
              </Table.Td>
              {ids && (
                <Table.Td>
                  <CopyId id={r.id} short />
                </Table.Td>
              )}
              <Table.Td>
                <Trigger run={r} />
              </Table.Td>
              <Table.Td>
                <Ago at={r.createdAt} />
              </Table.Td>
              <Table.Td ta="right">
                <Duration from={r.startedAt} to={r.finishedAt} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** The end of an id, enough to tell runs apart. */
export const shortId = (id: string) => `${id.slice(0, id.indexOf("_") + 1)}…${id.slice(-6)}`;
