import { Text } from "@mantine/core";
import { IconPlayerPause } from "@tabler/icons-react";
import { CronText } from "@/ui/CronText";
import { Ago } from "@/ui/Time";

/** When a schedule fires next, for a table. */
export function NextRun({
  schedule,
}: {
  schedule: { cron: string; timeZone: string; paused: boolean; next: readonly string[] } | null;
}) {
  if (!schedule) return <span className="dim">On demand</span>;
  const next = schedule.next[0];
  return (
    <>
      {schedule.paused ? (
        <span className="trigger">
          <IconPlayerPause size={14} aria-hidden />
          Paused
        </span>
      ) : (
        next && <Ago at={next} />
      )}
      <Text size="xs" c="dimmed">
        <CronText cron={schedule.cron} />
      </Text>
    </>
  );
}
