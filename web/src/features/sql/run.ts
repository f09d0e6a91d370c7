import { useQueryClient } from "@tanstack/react-query";
import { createElement, useState } from "react";
import { failed } from "@/lib/notify";
import type { SqlTab, TabStore } from "@/lib/sqlTabs";
import { parameterCount, type Stretch } from "@/lib/sqlText";
import { confirm } from "@/ui/dialogs";
import { danger, parameterValue, useExecute } from "./actions";
import { watchStatement } from "./live";

/** A refusal before a statement was created. */
export interface Refusal {
  tab: string;
  error: unknown;
}

/**
 * Runs parts of a tab's text in order until one fails. Destructive statements need a confirmation.
 */
export function useRun(
  store: TabStore,
  warehouse: string | undefined,
  engine: (tab: SqlTab) => string | undefined,
) {
  const qc = useQueryClient();
  const execute = useExecute();
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const [sending, setSending] = useState<ReadonlySet<string>>(new Set());
  const busy = (tab: string, on: boolean) =>
    setSending((s) => new Set(on ? [...s, tab] : [...s].filter((x) => x !== tab)));

  const input = (tab: SqlTab, query: string) => {
    const n = parameterCount(query);
    if (tab.parameters.length < n)
      throw new Error(
        `The statement has ${n} ${n === 1 ? "parameter" : "parameters"}: give each a value under Parameters.`,
      );
    return {
      query,
      warehouse: tab.warehouse ?? warehouse ?? "",
      engine: engine(tab) ?? null,
      database: tab.database,
      schema: tab.schema,
      parameters: n ? tab.parameters.slice(0, n).map((p, i) => parameterValue(p, i + 1)) : null,
      rowLimit: tab.rowLimit ? String(tab.rowLimit) : null,
    };
  };

  const send = async (id: string, parts: readonly Stretch[]) => {
    const began = store.get().list.find((t) => t.id === id);
    if (!began) return;
    setRefusal(null);
    busy(id, true);
    store.change(id, { runs: [], shown: 0 });
    try {
      for (const [n, { from, to }] of parts.entries()) {
        const text = began.text.slice(from, to);
        const s = await execute(input(began, text));
        const runs = [...(store.get().list.find((t) => t.id === id)?.runs ?? []), { id: s.id, from, text }];
        store.change(id, { runs, shown: runs.length - 1 });
        if (n === parts.length - 1) break;
        if ((await watchStatement(qc, s.id)).state !== "SUCCEEDED") break;
      }
    } catch (error) {
      setRefusal({ tab: id, error });
    } finally {
      busy(id, false);
    }
  };

  const run = (tab: SqlTab, parts: readonly Stretch[]) => {
    if (parts.length === 0) return failed("There is nothing to run", "Write a statement first.");
    if (!tab.warehouse && !warehouse)
      return failed("There is no warehouse", "Make one under Warehouses: statements run on it.");
    const dangers = parts.map((p) => danger(tab.text.slice(p.from, p.to))).filter((d) => d !== null);
    if (dangers.length === 0) return void send(tab.id, parts);
    confirm({
      title: "Run this statement?",
      effect: createElement("span", null, [...new Set(dangers)].join(" ")),
      action: "Run it",
      cancel: "Do not run it",
      run: () => void send(tab.id, parts),
    });
  };
  return { run, refusal, sending };
}
