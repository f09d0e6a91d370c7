import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { AgentsChangedDocument, RunsChangedDocument } from "@/gql/gen";
import { patchEntity } from "@/lib/patch";
import { announceRun } from "@/lib/runEvents";
import { connection, useSubscription } from "@/lib/socket";

/** Asks again for lists and counts that a change of a run moves, once a second at most. */
function refreshSoon(qc: QueryClient, timer: { current: ReturnType<typeof setTimeout> | undefined }) {
  // A list that is on its way now may have been read before the change; asking again is cheap.
  const late = qc.isFetching({ queryKey: ["RunsList"] }) > 0 ? ["RunsList"] : [];
  const keys = ["Overview", "JobsList", "JobRuns", ...late];
  timer.current ??= setTimeout(() => {
    timer.current = undefined;
    for (const key of keys) void qc.invalidateQueries({ queryKey: [key] });
  }, 1_000);
}

/** Without the socket there are no events: what the page shows is asked for every five seconds instead. */
function usePollingWhile(on: boolean) {
  const qc = useQueryClient();
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => void qc.invalidateQueries(), 5_000);
    return () => clearInterval(timer);
  }, [qc, on]);
}

/** Keeps everything that shows runs and agents as they are now, on all pages. */
export function useLiveWorkspace() {
  const qc = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useSubscription(RunsChangedDocument, { filter: null }, ({ runs: run }) => {
    patchEntity(qc, run);
    announceRun(run);
    refreshSoon(qc, timer);
  });
  usePollingWhile(useSyncExternalStore(connection.subscribe, connection.get) === "retrying");
  useSubscription(AgentsChangedDocument, {}, ({ agentUpdated }) => {
    patchEntity(qc, agentUpdated);
  });
}
