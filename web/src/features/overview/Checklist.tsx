import { ActionIcon, Button, Progress, Text, Tooltip } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { IconCircle, IconCircleCheckFilled, IconX } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Role, type RunRowFragment } from "@/gql/gen";
import { Allowed } from "@/ui/Allowed";
import { useStartRun } from "@/ui/StartRun";
import type { OverviewJob } from "./queries";

/** A query of the sample that suits a chart. */
const firstQuery = `SELECT species, count(*) AS birds, avg(body_mass_g) AS grams
FROM lake.samples.penguins
GROUP BY species
ORDER BY species`;

interface Step {
  title: string;
  text: string;
  done: boolean;
  action: ReactNode;
}

/** The first steps, ticked off by actual data. Hidden when done or dismissed. */
export function Checklist(p: {
  jobs: readonly OverviewJob[];
  latest: readonly RunRowFragment[];
  hasKey: boolean;
  hasQuery: boolean;
  sampleRun: RunRowFragment | undefined;
}) {
  const [dismissed, dismiss] = useLocalStorage({ key: "millpond-checklist-dismissed", defaultValue: false });
  const steps = useSteps(p);
  const done = steps.filter((s) => s.done).length;
  if (dismissed || done === steps.length) return null;
  return (
    <section className="card" aria-label="Getting started">
      <div className="section-title">
        <h2>Getting started</h2>
        <Tooltip label="Do not show this again">
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label="Dismiss"
            onClick={() => dismiss(true)}
          >
            <IconX size={15} />
          </ActionIcon>
        </Tooltip>
      </div>
      <Progress
        value={(done / steps.length) * 100}
        size={4}
        mx={16}
        mb={8}
        aria-label={`${done} of ${steps.length} done`}
      />
      <ol className="checklist">
        {steps.map((s) => (
          <li key={s.title} data-done={s.done || undefined}>
            {s.done ? (
              <IconCircleCheckFilled size={19} aria-label="Done" />
            ) : (
              <IconCircle size={19} aria-label="To do" />
            )}
            <div>
              <div className="checklist-title">{s.title}</div>
              <Text size="xs" c="dimmed">
                {s.text}
              </Text>
            </div>
            {!s.done && s.action}
          </li>
        ))}
      </ol>
    </section>
  );
}

function useSteps({ jobs, latest, hasKey, hasQuery, sampleRun }: Parameters<typeof Checklist>[0]): Step[] {
  const [seen, see] = useLocalStorage({ key: "millpond-sample-seen", defaultValue: false });
  const start = useStartRun();
  const sample = jobs.find((j) => j.sample) ?? jobs[0];
  const own = jobs.some((j) => !j.sample);
  const button = { size: "compact-xs", variant: "light" } as const;
  return [
    {
      title: "Look at a finished run",
      text: "Its graph, its timeline and its logs.",
      done: seen,
      action: sampleRun && (
        <Button
          {...button}
          renderRoot={(p) => (
            <Link to="/runs/$runId" params={{ runId: sampleRun.id }} {...p} onClick={() => see(true)} />
          )}
        >
          Open
        </Button>
      ),
    },
    {
      title: sample?.sample ? "Run the sample and watch it" : "Start a run and watch it",
      text: "The log arrives line by line.",
      done: latest.some((r) => r.trigger === "MANUAL"),
      action: sample && (
        <Allowed role={Role.Editor}>
          {(disabled) => (
            <Button {...button} disabled={disabled} onClick={() => start.ask(sample)} loading={start.pending}>
              Run it
            </Button>
          )}
        </Allowed>
      ),
    },
    {
      title: "Run a query",
      text: "SQL over the sample's tables; the warehouse starts by itself.",
      done: hasQuery,
      action: (
        <Button {...button} renderRoot={(p) => <Link to="/sql" search={{ q: firstQuery }} {...p} />}>
          Write SQL
        </Button>
      ),
    },
    {
      title: "Make a job of your own",
      text: "A command, or tasks that depend on each other.",
      done: own,
      action: (
        <Allowed role={Role.Editor}>
          {(disabled) => (
            <Button
              {...button}
              disabled={disabled}
              renderRoot={disabled ? undefined : (p) => <Link to="/jobs/new" {...p} />}
            >
              New job
            </Button>
          )}
        </Allowed>
      ),
    },
    {
      title: "Give a job a schedule",
      text: "Cron with a time zone, with a preview.",
      done: jobs.some((j) => j.schedule),
      action: (
        <Button {...button} renderRoot={(p) => <Link to="/jobs" {...p} />}>
          Choose
        </Button>
      ),
    },
    {
      title: "Make an API key",
      text: "For CI and scripts: all of this is an API.",
      done: hasKey,
      action: (
        <Button {...button} renderRoot={(p) => <Link to="/api-keys" search={{ create: true }} {...p} />}>
          New key
        </Button>
      ),
    },
  ];
}
