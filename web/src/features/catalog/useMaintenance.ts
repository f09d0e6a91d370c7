import {
  infiniteQueryOptions,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import {
  DatabaseMaintenanceDocument,
  type MaintenancePolicyInput,
  MaintenanceRunsChangedDocument,
  MaintenanceRunsDocument,
  MaintenanceWarehousesDocument,
  RunDatabaseMaintenanceDocument,
  RunTableMaintenanceDocument,
  TableMaintenanceDocument,
  UpdateDatabaseMaintenanceDocument,
  UpdateMaintenanceDocument,
  UpdateTableMaintenanceDocument,
  WorkspaceMaintenanceDocument,
} from "@/gql/gen";
import { refreshCatalog } from "@/lib/catalog";
import { plural } from "@/lib/format";
import { gql, request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { useSubscription } from "@/lib/socket";
import { isOpen, type Subject } from "./maintenance";
import type { Maintenance } from "./policy";

/** The policy of a subject; null if the subject does not exist or is not maintained. */
const maintenanceQuery = ({ level, id }: Subject) =>
  queryOptions({
    queryKey: ["Maintenance", level, id],
    queryFn: async ({ signal }): Promise<Maintenance | null> => {
      if (level === "workspace") return (await request(WorkspaceMaintenanceDocument, {}, signal)).maintenance;
      if (level === "database")
        return (await request(DatabaseMaintenanceDocument, { id }, signal)).database?.maintenance ?? null;
      return (await request(TableMaintenanceDocument, { id }, signal)).table?.maintenance ?? null;
    },
  });

const narrowed = ({ level, id }: Subject) => ({
  table: level === "table" ? id : null,
  database: level === "database" ? id : null,
});

/** Maintenance runs, newest first. */
export const maintenanceRunsQuery = (s: Subject) =>
  infiniteQueryOptions({
    queryKey: ["MaintenanceRuns", s.level, s.id],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: after, signal }) =>
      request(MaintenanceRunsDocument, { ...narrowed(s), first: 20, after }, signal),
    getNextPageParam: (p) =>
      p.maintenanceRuns.pageInfo.hasNextPage ? p.maintenanceRuns.pageInfo.endCursor : undefined,
  });

/** Names of the warehouses that maintenance can run on. */
export const useWarehouses = () =>
  useQuery(gql(MaintenanceWarehousesDocument, {}, { staleTime: 30_000 })).data?.warehouses.edges.map(
    (e) => e.node,
  ) ?? [];

export const useMaintenance = (s: Subject) => useQuery(maintenanceQuery(s));

/** Keeps a subject's runs live. At the end of a run, it refetches what the run has changed. */
export function useLiveRuns(s: Subject) {
  const qc = useQueryClient();
  useSubscription(MaintenanceRunsChangedDocument, narrowed(s), ({ maintenanceRunsUpdated: run }) => {
    const { queryKey } = maintenanceRunsQuery(s);
    const known = qc
      .getQueryData(queryKey)
      ?.pages.flatMap((p) => p.maintenanceRuns.edges.map((e) => e.node))
      .find((r) => r.id === run.id);
    patchEntity(qc, run, ["operations", "todo"]);
    if (!known) void qc.invalidateQueries({ queryKey });
    if (isOpen(run) || !known || !isOpen(known)) return;
    void refreshCatalog(qc);
    void qc.invalidateQueries({ queryKey: ["Maintenance"] });
  });
}

/** Replaces a subject's policy and refetches the levels below it. */
export function useSetPolicy(s: Subject) {
  const qc = useQueryClient();
  return useMutation({
    mutationFn: async (policy: MaintenancePolicyInput) => {
      const { id, level } = s;
      if (level === "workspace") return (await request(UpdateMaintenanceDocument, { policy })).done;
      if (level === "database")
        return (await request(UpdateDatabaseMaintenanceDocument, { id, policy })).done;
      return (await request(UpdateTableMaintenanceDocument, { id, policy })).done;
    },
    onSuccess: ({ maintenance }) => {
      qc.setQueryData(maintenanceQuery(s).queryKey, maintenance);
      void qc.invalidateQueries({ queryKey: ["Maintenance"] });
      done(`Saved the maintenance of ${s.name}.`);
    },
  });
}

/** Runs maintenance now: all that is turned on for a table, or what a database's tables need. */
export function useRunNow(s: Subject) {
  const qc = useQueryClient();
  return useMutation({
    mutationFn: async () => {
      if (s.level === "table") {
        await request(RunTableMaintenanceDocument, { id: s.id });
        return `Maintenance of ${s.name} is queued.`;
      }
      const { queued } = (await request(RunDatabaseMaintenanceDocument, { id: s.id })).runDatabaseMaintenance;
      return queued
        ? `${plural(queued, "table")} of ${s.name} ${queued === 1 ? "waits" : "wait"} for maintenance.`
        : `No table of ${s.name} needs maintenance now.`;
    },
    onSuccess: (said) => done(said),
    onError: (e) => failed(`Maintenance of ${s.name} was not started`, e),
    onSettled: () => qc.invalidateQueries({ queryKey: maintenanceRunsQuery(s).queryKey }),
  });
}
