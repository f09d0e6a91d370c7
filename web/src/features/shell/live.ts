import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { AgentsChangedDocument, RunsChangedDocument } from "@/gql/gen";
import { patchEntity } from "@/lib/patch";
import { announceRun } from "@/lib/runEvents";
import { useSubscription } from "@/lib/socket";

/** Asks again for lists and counts that a change of a run moves, once a second at most. */
function refreshSoon(qc: QueryClient, timer: { current: ReturnType<typeof setTimeout> | undefined }) {
  timer.current ??= setTimeout(() => {
    timer.current = undefined;
    for (const key of ["Overview", "JobsList", "JobRuns"]) void qc.invalidateQueries({ queryKey: [key] });
  }, 1_000);
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
  useSubscription(AgentsChangedDocument, {}, ({ agentUpdated }) => {
    patchEntity(qc, agentUpdated);
  });
}
