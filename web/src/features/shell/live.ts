import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import {
  AgentsChangedDocument,
  ComputeChangedDocument,
  RunsChangedDocument,
  WarehousesChangedDocument,
} from "@/gql/gen";
import type { MachineRow } from "@/lib/machine";
import { patchEntity } from "@/lib/patch";
import { announceRun } from "@/lib/runEvents";
import { connection, useSubscription } from "@/lib/socket";

/** Refetches lists and counts that a run's change affects, at most once a second. */
function refreshSoon(qc: QueryClient, timer: { current: ReturnType<typeof setTimeout> | undefined }) {
  // A list in flight may have been read before the change; another request is cheap.
  const late = qc.isFetching({ queryKey: ["RunsList"] }) > 0 ? ["RunsList"] : [];
  const keys = ["Overview", "JobsList", "JobRuns", ...late];
  timer.current ??= setTimeout(() => {
    timer.current = undefined;
    for (const key of keys) void qc.invalidateQueries({ queryKey: [key] });
  }, 1_000);
}

/** Fields of a machine that are replaced whole: a warehouse's engines. */
const wholeOf = ["engines"];

/** Lists that show machines of each kind. */
const machineLists = { Compute: "ComputeList", Warehouse: "WarehousesList" } as const;

/**
 * Keeps machines live. A new machine or a new state changes the lists, their total cost and the
 * free room.
 */
function useMachineEvents(qc: QueryClient) {
  const known = useRef(new Map<string, string>());
  return (m: MachineRow) => {
    patchEntity(qc, m, wholeOf);
    const before = known.current.get(m.id);
    known.current.set(m.id, m.state);
    if (before === m.state) return;
    const keys = ["Flavors", "Overview", "JobCompute", machineLists[m.__typename]];
    for (const key of keys)
      void qc.invalidateQueries({ queryKey: [key] }, { cancelRefetch: before !== undefined });
  };
}

/**
 * Without the socket there are no events: the page's queries are refetched every five seconds
 * instead.
 */
function usePollingWhile(on: boolean) {
  const qc = useQueryClient();
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => void qc.invalidateQueries(), 5_000);
    return () => clearInterval(timer);
  }, [qc, on]);
}

/** Keeps runs, agents and machines live on all pages. */
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
  const machine = useMachineEvents(qc);
  useSubscription(ComputeChangedDocument, {}, ({ computeUpdated }) => machine(computeUpdated));
  useSubscription(WarehousesChangedDocument, {}, ({ warehouseUpdated }) => machine(warehouseUpdated));
}
