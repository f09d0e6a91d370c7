import { Button, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type JobFullFragment, Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { plural } from "@/lib/format";
import { useRole } from "@/lib/session";
import { Allowed } from "@/ui/Allowed";
import { CronText } from "@/ui/CronText";
import { Ago, When } from "@/ui/Time";
import { usePauseSchedule } from "./actions";

/** The schedule of a job: in words, the next times, and missed runs. */
export function ScheduleCard({ job }: { job: JobFullFragment }) {
  const pause = usePauseSchedule(job);
  const editor = includes(useRole(), Role.Editor);
  const s = job.schedule;
  return (
    <section className="card" aria-label="Schedule">
      <div className="section-title">
        <h2>Schedule</h2>
        {s && (
          <Allowed role={Role.Editor}>
            {(disabled) => (
              <Button
                size="compact-xs"
                variant="default"
                disabled={disabled}
                leftSection={s.paused ? <IconPlayerPlay size={13} /> : <IconPlayerPause size={13} />}
                onClick={() => pause.mutate(!s.paused)}
              >
                {s.paused ? "Resume" : "Pause"}
              </Button>
            )}
          </Allowed>
        )}
      </div>
      <div className="card-pad" style={{ paddingTop: 0 }}>
        {!s && (
          <Text size="sm" c="dimmed">
            Runs on demand only.{" "}
            {editor && (
              <Link to="/jobs/$jobId/edit" params={{ jobId: job.id }}>
                Add a schedule
              </Link>
            )}
          </Text>
        )}
        {s && (
          <>
            <Text size="sm" fw={570}>
              <CronText cron={s.cron} />
            </Text>
            <Text size="xs" c="dimmed">
              <span className="mono">{s.cron}</span> in {s.timeZone}
            </Text>
            {s.paused && (
              <Text size="sm" mt={8} className="trigger">
                <IconPlayerPause size={14} aria-hidden /> Paused: it starts nothing until it is resumed.
              </Text>
            )}
            {s.next.length > 0 && (
              <ol className="next-times">
                {s.next.map((t) => (
                  <li key={t}>
                    <When at={t} />
                    <Text size="xs" c="dimmed" component="span">
                      <Ago at={t} />
                    </Text>
                  </li>
                ))}
              </ol>
            )}
            {s.waitingSince && (
              <Text size="xs" mt={8} className="trigger">
                <IconAlertTriangle size={14} aria-hidden /> One run waits since <Ago at={s.waitingSince} />:
                the workspace's limit of running runs is reached.
              </Text>
            )}
            {s.missed > 0 && (
              <Text size="xs" c="dimmed" mt={8}>
                {plural(s.missed, "time")} skipped
                {s.lastMissedAt && (
                  <>
                    , last <Ago at={s.lastMissedAt} />
                  </>
                )}
                , because the platform was down or an earlier run still waited.
              </Text>
            )}
          </>
        )}
      </div>
    </section>
  );
}
