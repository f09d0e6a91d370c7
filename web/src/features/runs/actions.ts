import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CancelRunDocument, RepairRunDocument } from "@/gql/gen";
import { request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { type Entity, patchEntity } from "@/lib/patch";
import { type RunDetail, runQuery } from "./queries";

/** Cancels a run (shown at once, reverted if refused) and repairs it. */
export function useRunActions(run: RunDetail) {
  const qc = useQueryClient();
  const reload = () => qc.invalidateQueries({ queryKey: runQuery(run.id).queryKey });
  const cancel = useMutation({
    mutationFn: () => request(CancelRunDocument, { input: { id: run.id } }),
    onMutate: () => {
      const asked = { __typename: "Run", id: run.id, cancelRequestedAt: new Date().toISOString() };
      patchEntity(qc, asked as Entity);
    },
    onSuccess: reload,
    onError: (e) => {
      failed("The run was not cancelled", e);
      void reload();
    },
  });
  const repair = useMutation({
    mutationFn: () => request(RepairRunDocument, { input: { id: run.id } }),
    onSuccess: () => {
      void reload();
      done("Running the unsuccessful tasks again.");
    },
    onError: (e) => {
      failed("The run was not repaired", e);
      void reload();
    },
  });
  return { cancel, repair };
}
