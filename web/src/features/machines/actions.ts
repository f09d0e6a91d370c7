import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { createElement } from "react";
import { request } from "@/lib/graphql";
import type { MachineRow } from "@/lib/machine";
import { failed, done as said } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { confirm } from "@/ui/dialogs";
import { kindOf, type MachineFull } from "./kinds";
import { flavorsQuery, machineQuery, machinesQuery } from "./queries";
import { StopEffect } from "./StopEffect";

/** Writes a mutation's answer into every cached view of the machine. */
export function useTakeMachine() {
  const qc = useQueryClient();
  return (m: MachineFull) => {
    const kind = kindOf(m);
    qc.setQueryData(machineQuery(kind, m.id).queryKey, { machine: m });
    patchEntity(qc, m, ["engines"]);
    void qc.invalidateQueries({ queryKey: machinesQuery(kind).queryKey });
    void qc.invalidateQueries({ queryKey: flavorsQuery.queryKey });
    void qc.invalidateQueries({ queryKey: ["Overview"] });
  };
}

/** Starts, stops and deletes machines; stopping and deleting ask first. */
export function useMachineActions() {
  const qc = useQueryClient();
  const navigate = useNavigate();
  const take = useTakeMachine();
  const again = (m: MachineRow) => {
    void qc.invalidateQueries({ queryKey: machineQuery(kindOf(m), m.id).queryKey });
    void qc.invalidateQueries({ queryKey: machinesQuery(kindOf(m)).queryKey });
  };
  const start = useMutation({
    mutationFn: async (m: MachineRow) =>
      (await request(kindOf(m).documents.start, { id: m.id })).done.machine,
    onSuccess: take,
    onError: (e, m) => {
      failed(`${m.name} was not started`, e);
      again(m);
    },
  });
  const stop = useMutation({
    mutationFn: async (m: MachineRow) => (await request(kindOf(m).documents.stop, { id: m.id })).done.machine,
    onSuccess: take,
    onError: (e, m) => {
      failed(`${m.name} was not stopped`, e);
      again(m);
    },
  });
  const remove = useMutation({
    mutationFn: (m: MachineRow) => request(kindOf(m).documents.delete, { id: m.id }),
    onSuccess: async (_, m) => {
      const kind = kindOf(m);
      await navigate({ to: kind.list });
      qc.removeQueries({ queryKey: machineQuery(kind, m.id).queryKey });
      for (const key of [machinesQuery(kind).queryKey, ["Overview"], ["JobCompute"], ["JobDetail"]])
        void qc.invalidateQueries({ queryKey: key });
      said(`Deleted the ${kind.noun} ${m.name}.`);
    },
    onError: (e, m) => {
      failed(`${m.name} was not deleted`, e);
      again(m);
    },
  });
  const askStop = (m: MachineRow) => {
    const kind = kindOf(m);
    confirm({
      title: `Stop ${m.name}?`,
      effect: createElement(StopEffect, { machine: m }),
      action: `Stop the ${kind.noun}`,
      cancel: "Let it run",
      run: () => stop.mutate(m),
    });
  };
  const askDelete = (m: MachineRow) => {
    const kind = kindOf(m);
    confirm({
      title: `Delete ${m.name}?`,
      effect: kind.deleteEffect,
      action: `Delete the ${kind.noun}`,
      run: () => remove.mutate(m),
    });
  };
  const busy = (m: MachineRow) =>
    (start.isPending && start.variables.id === m.id) || (stop.isPending && stop.variables.id === m.id);
  return { start: start.mutate, askStop, askDelete, busy };
}

/** The actions that a machine's state allows. The server has the last word. */
export const possible = (m: Pick<MachineRow, "state">) => ({
  start: m.state === "STOPPED" || m.state === "FAILED",
  stop: m.state === "RUNNING" || m.state === "STARTING",
  delete: m.state === "STOPPED" || m.state === "FAILED",
  resize: m.state === "STOPPED" || m.state === "FAILED",
});
