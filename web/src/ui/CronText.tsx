import { useQuery } from "@tanstack/react-query";
import { describeCron } from "@/lib/cron";

/** A cron line in words. */
export function CronText({ cron }: { cron: string }) {
  const { data } = useQuery({
    queryKey: ["describeCron", cron],
    queryFn: () => describeCron(cron),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data ? data : <span className="mono">{cron}</span>;
}
