import { Select, SimpleGrid, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { timeZones } from "@/lib/cron";
import { CronText } from "@/ui/CronText";
import { Ago, When } from "@/ui/Time";
import type { JobModel } from "./model";
import { cronQuery } from "./queries";

type Schedule = JobModel["schedule"];

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The schedule of a job, with a preview by the server. */
export function ScheduleForm({
  schedule: s,
  onChange,
  error,
}: {
  schedule: Schedule;
  onChange: (s: Schedule) => void;
  error: string | undefined;
}) {
  const zones = useMemo(() => {
    const all = timeZones();
    return s && !all.includes(s.timeZone) ? [s.timeZone, ...all] : all;
  }, [s]);
  return (
    <section className="card" aria-label="Schedule">
      <div className="section-title" style={{ alignItems: "center" }}>
        <h2>Schedule</h2>
        <Switch
          size="sm"
          label="Run by itself"
          checked={s !== null}
          onChange={(e) =>
            onChange(e.currentTarget.checked ? { cron: "0 6 * * *", timeZone: here(), paused: false } : null)
          }
        />
      </div>
      {s && (
        <SimpleGrid cols={{ base: 1, sm: 2 }} px="md" pb="md" spacing="lg">
          <Stack gap="sm">
            <TextInput
              className="code-input"
              label="Cron"
              description="Minute, hour, day of month, month, day of week; or @hourly, @daily and so on. A time that the clocks skip in spring is left out that day; a time that they repeat in autumn counts once."
              value={s.cron}
              spellCheck={false}
              onChange={(e) => onChange({ ...s, cron: e.currentTarget.value })}
              error={error}
            />
            <Select
              label="Time zone"
              data={zones}
              value={s.timeZone}
              onChange={(v) => v && onChange({ ...s, timeZone: v })}
              searchable
              limit={30}
              allowDeselect={false}
            />
            <Switch
              size="sm"
              label="Paused"
              checked={s.paused}
              onChange={(e) => onChange({ ...s, paused: e.currentTarget.checked })}
            />
          </Stack>
          <Preview cron={s.cron} timeZone={s.timeZone} />
        </SimpleGrid>
      )}
    </section>
  );
}

function Preview(p: { cron: string; timeZone: string }) {
  const [{ cron, timeZone }] = useDebouncedValue(p, 250);
  const q = useQuery({ ...cronQuery(cron.trim(), timeZone), enabled: cron.trim() !== "" });
  if (!cron.trim()) return null;
  return (
    <div aria-live="polite">
      {q.error ? (
        <Text size="sm" c="var(--mantine-color-error)" data-testid="cron-error">
          {q.error.message}
        </Text>
      ) : (
        <>
          <Text size="sm" fw={600}>
            <CronText cron={cron.trim()} />
          </Text>
          <ol className="next-times" aria-label="Next times">
            {q.data?.cronPreview.map((t) => (
              <li key={t}>
                <When at={t} />
                <Text size="xs" c="dimmed" component="span">
                  <Ago at={t} />
                </Text>
              </li>
            ))}
          </ol>
          {q.data?.cronPreview.length === 0 && (
            <Text size="sm" c="dimmed">
              This never fires.
            </Text>
          )}
        </>
      )}
    </div>
  );
}
