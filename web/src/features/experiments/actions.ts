import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  CreateExperimentDocument,
  DeleteExperimentDocument,
  DeleteTrackingRunDocument,
  DeleteTrackingRunTagDocument,
  RenameExperimentDocument,
  RenameTrackingRunDocument,
  RestoreExperimentDocument,
  RestoreTrackingRunDocument,
  SetTrackingRunTagDocument,
} from "@/gql/gen";
import { plural } from "@/lib/format";
import { request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { confirm } from "@/ui/dialogs";
import type { ExperimentRow } from "./queries";

type Named = Pick<ExperimentRow, "id" | "name">;

function useRefresh() {
  const qc = useQueryClient();
  return (...keys: string[]) => {
    for (const key of keys) void qc.invalidateQueries({ queryKey: [key] });
  };
}

/** Creates, renames, deletes and restores experiments. */
export function useExperimentActions() {
  const qc = useQueryClient();
  const navigate = useNavigate();
  const refresh = useRefresh();
  const lists = ["ExperimentsList", "ExperimentDetail", "ExperimentRuns", "TrackingRunDetail"];
  const create = useMutation({
    mutationFn: async (name: string) =>
      (await request(CreateExperimentDocument, { input: { name } })).createExperiment.experiment,
    onSuccess: (x) => {
      refresh("ExperimentsList");
      void navigate({ to: "/experiments/$experimentId", params: { experimentId: x.id } });
    },
  });
  const rename = useMutation({
    mutationFn: async (i: Named) =>
      (await request(RenameExperimentDocument, { input: i })).updateExperiment.experiment,
    onSuccess: (x) => {
      patchEntity(qc, x);
      refresh("ExperimentsList");
      done(`It is ${x.name} now.`);
    },
  });
  const remove = useMutation({
    mutationFn: (x: Named) => request(DeleteExperimentDocument, { input: { id: x.id } }),
    onSuccess: (_, x) => {
      refresh(...lists);
      done(`Deleted ${x.name} and its runs. It can be restored for 30 days.`);
    },
    onError: (e, x) => failed(`${x.name} was not deleted`, e),
  });
  const restore = useMutation({
    mutationFn: (x: Named) => request(RestoreExperimentDocument, { input: { id: x.id } }),
    onSuccess: (_, x) => {
      refresh(...lists);
      done(`Restored ${x.name} and its runs.`);
    },
    onError: (e, x) => failed(`${x.name} was not restored`, e),
  });
  const askRemove = (x: Named) =>
    confirm({
      title: `Delete ${x.name}?`,
      effect:
        "Its runs are deleted with it, and programs that log to it fail from now on. It can be restored for 30 days, with everything it has.",
      action: "Delete the experiment",
      run: () => remove.mutate(x),
    });
  return { create, rename, restore, askRemove };
}

/** Renames, deletes, restores and tags tracking runs. */
export function useTrackingRunActions() {
  const qc = useQueryClient();
  const refresh = useRefresh();
  const lists = ["ExperimentRuns", "TrackingRunDetail", "RunTracking"];
  const rename = useMutation({
    mutationFn: async (i: { id: string; name: string }) =>
      (await request(RenameTrackingRunDocument, { input: i })).updateTrackingRun.run,
    onSuccess: (r) => {
      patchEntity(qc, r);
      // The name is also a tag.
      refresh("TrackingRunDetail");
      done(`It is ${r.name} now.`);
    },
  });
  const each = async (ids: readonly string[], f: (id: string) => Promise<unknown>) => {
    for (const id of ids) await f(id);
  };
  const remove = useMutation({
    mutationFn: (ids: readonly string[]) =>
      each(ids, (id) => request(DeleteTrackingRunDocument, { input: { id } })),
    onSuccess: (_, ids) => done(`Deleted ${plural(ids.length, "run")}. They can be restored for 30 days.`),
    onError: (e) => failed("Not every run was deleted", e),
    onSettled: () => refresh(...lists),
  });
  const restore = useMutation({
    mutationFn: (ids: readonly string[]) =>
      each(ids, (id) => request(RestoreTrackingRunDocument, { input: { id } })),
    onSuccess: (_, ids) => done(`Restored ${plural(ids.length, "run")}.`),
    onError: (e) => failed("Not every run was restored", e),
    onSettled: () => refresh(...lists),
  });
  const setTag = useMutation({
    mutationFn: (t: { id: string; key: string; value: string }) =>
      request(SetTrackingRunTagDocument, { input: { id: t.id, tags: [{ key: t.key, value: t.value }] } }),
    onSuccess: () => refresh("TrackingRunDetail", "ExperimentRuns"),
  });
  const deleteTag = useMutation({
    mutationFn: (t: { id: string; key: string }) => request(DeleteTrackingRunTagDocument, { input: t }),
    onSuccess: () => refresh("TrackingRunDetail", "ExperimentRuns"),
    onError: (e, t) => failed(`The tag ${t.key} was not deleted`, e),
  });
  const askRemove = (ids: readonly string[]) =>
    confirm({
      title: `Delete ${plural(ids.length, "run")}?`,
      effect: "Parameters, metrics and tags go with a run. It can be restored for 30 days.",
      action: ids.length === 1 ? "Delete the run" : "Delete the runs",
      run: () => remove.mutate(ids),
    });
  return { rename, restore, askRemove, setTag, deleteTag };
}
