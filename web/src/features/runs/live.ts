import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { RunChangedDocument, type RunDetailQuery, type RunStateFragment } from "@/gql/gen";
import { patchEntity } from "@/lib/patch";
import { useSubscription } from "@/lib/socket";
import { type LiveState, liveKey, runQuery, withState } from "./queries";

/** Keeps a run live. */
export function useLiveRun(id: string, enabled: boolean) {
  const qc = useQueryClient();
  useSubscription(
    RunChangedDocument,
    { id },
    ({ run: state }: { run: RunStateFragment }) => {
      qc.setQueryData<LiveState>(liveKey(id), { state, at: performance.now() });
      qc.setQueryData<RunDetailQuery>(runQuery(id).queryKey, (old) =>
        old?.run ? { ...old, run: withState(old.run, state) } : old,
      );
      patchEntity(qc, state);
    },
    enabled,
  );
  useEffect(() => () => qc.removeQueries({ queryKey: liveKey(id) }), [qc, id]);
}
