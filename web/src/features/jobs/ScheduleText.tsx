import { Text } from "@mantine/core";
import { IconPlayerPause } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { describeCron } from "@/lib/cron";
import { Ago } from "@/ui/Time";

/** A cron line in words. */
export function CronText({ cron }: { cron: string }) {
  const { data } = useQuery({
    queryKey: ["describeCron", cron],
    queryFn: () => describeCron(cron),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data ? data : <span className="mono">{cron}</span>;
}

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
