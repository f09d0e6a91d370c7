import { useQueryClient } from "@tanstack/react-query";
import { RunChangedDocument, type RunDetailQuery, type RunStateFragment } from "@/gql/gen";
import { patchEntity } from "@/lib/patch";
import { useSubscription } from "@/lib/socket";
import { type RunDetail, runQuery } from "./queries";

/** A run with its new state. What was frozen when it started is not sent again, and stays. */
export function withState(run: RunDetail, state: RunStateFragment): RunDetail {
  const tasks = new Map(state.tasks.map((t) => [t.key, t]));
  return {
    ...run,
    ...state,
    tasks: run.tasks.map((t) => ({ ...t, ...tasks.get(t.key) })),
  };
}

/** Writes a run's new state to where it is cached. */
export function useTakeState() {
  const qc = useQueryClient();
  return (state: RunStateFragment) => {
    qc.setQueryData<RunDetailQuery>(runQuery(state.id).queryKey, (old) =>
      old?.run ? { ...old, run: withState(old.run, state) } : old,
    );
    patchEntity(qc, state);
  };
}

/** Keeps a run as it is now. */
export function useLiveRun(id: string, enabled: boolean) {
  const take = useTakeState();
  useSubscription(RunChangedDocument, { id }, (d) => take(d.run), enabled);
}
