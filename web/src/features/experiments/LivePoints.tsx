import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { TrackingRunPointsDocument } from "@/gql/gen";
import { subscribe } from "@/lib/socket";
import { type History, historyQuery, positionOf, withNews } from "./history";

/**
 * Adds a run's new points to the histories of the drawn metrics, each after it was read. At the end
 * it reads once more what came last.
 */
export function LivePoints({ run, keys }: { run: string; keys: readonly string[] }) {
  const qc = useQueryClient();
  const ready = useQueries({
    queries: keys.map((key) => historyQuery(run, key)),
    combine: (all) =>
      JSON.stringify(keys.filter((_, i) => all[i]?.data?.cursor && all[i].fetchStatus === "idle")),
  });
  useEffect(() => {
    const followed = JSON.parse(ready) as string[];
    if (followed.length === 0) return;
    const keyOf = (key: string) => historyQuery(run, key).queryKey;
    const after = () =>
      followed.flatMap((key) => {
        const h = qc.getQueryData<History>(keyOf(key));
        return (h && positionOf(key, h)) ?? [];
      });
    return subscribe(TrackingRunPointsDocument, () => ({ run, keys: followed, after: after() }), {
      next: ({ trackingRunPoints }) => {
        for (const news of trackingRunPoints) {
          qc.setQueryData<History>(keyOf(news.key), (h) => h && withNews(h, news));
          if (!qc.getQueryData<History>(keyOf(news.key))?.cursor)
            void qc.invalidateQueries({ queryKey: keyOf(news.key) });
        }
      },
    });
  }, [qc, run, ready]);
  useEffect(() => () => void qc.invalidateQueries({ queryKey: ["TrackingHistory", run] }), [qc, run]);
  return null;
}
