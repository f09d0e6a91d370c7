import type { TrackingRunLoggedFragment } from "@/gql/gen";
import { type Column, columnOf, type Kind, kinds } from "./search";
import { formatMetric } from "./value";

export type Logged = TrackingRunLoggedFragment;
export type MetricValue = Logged["metrics"][number]["value"];
export const kindWords: Record<Kind, string> = { metrics: "Metrics", params: "Parameters", tags: "Tags" };

export const makeColumn = (kind: Kind, key: string): Column => ({ id: `${kind}.${key}`, kind, key });

const pairsOf = (run: Logged, kind: Kind): readonly { key: string }[] => {
  if (kind === "metrics") return run.metrics;
  return kind === "params" ? run.parameters : run.tags;
};

/** Every metric, parameter and tag of the runs: by kind, then by key. */
export function columnsIn(runs: readonly Logged[]): Column[] {
  return kinds.flatMap((kind) => {
    const keys = new Set(runs.flatMap((r) => pairsOf(r, kind).map((p) => p.key)));
    return [...keys].sort().map((key) => makeColumn(kind, key));
  });
}

/** In an address: no column is shown. */
export const noColumns = "none";
const fewColumns = 3;

/** Metrics that MLflow logs of the machine. */
export const ofMachine = (c: Column) => c.kind === "metrics" && c.key.startsWith("system/");

/** The chosen columns; without a choice, the first metrics and parameters. */
export function shownColumns(chosen: readonly string[] | undefined, there: readonly Column[]): Column[] {
  if (chosen) return chosen.map(columnOf).filter((c) => c !== null);
  const few = (kind: Kind) => there.filter((c) => c.kind === kind && !ofMachine(c)).slice(0, fewColumns);
  return [...few("metrics"), ...few("params")];
}

/** The value of a run in a column; undefined if it has none. */
export function valueIn(run: Logged, c: Column): MetricValue | undefined {
  if (c.kind === "metrics") return run.metrics.find((m) => m.key === c.key)?.value;
  const pairs = c.kind === "params" ? run.parameters : run.tags;
  return pairs.find((p) => p.key === c.key)?.value as MetricValue | undefined;
}

/** A value as text; undefined if the run has none. */
export function textIn(run: Logged, c: Column): string | undefined {
  const v = valueIn(run, c);
  return v === undefined ? undefined : c.kind === "metrics" ? formatMetric(v) : String(v);
}

/** The next sort after a click: ascending, descending, none. */
export function nextSort(sort: string | undefined, id: string): string | undefined {
  if (sort === id) return `-${id}`;
  return sort === `-${id}` ? undefined : id;
}

/** Runs with the same value in a column. */
export interface Group {
  /** Null for runs without the key. */
  value: string | null;
  runs: Logged[];
}

/** Runs by their value in a column, in the order of the first run of each; those without it last. */
export function groupRuns(runs: readonly Logged[], by: Column): Group[] {
  const groups = new Map<string | null, Logged[]>();
  for (const r of runs) {
    const value = textIn(r, by) ?? null;
    const group = groups.get(value);
    if (group) group.push(r);
    else groups.set(value, [r]);
  }
  const all = [...groups].map(([value, of]) => ({ value, runs: of }));
  return [...all.filter((g) => g.value !== null), ...all.filter((g) => g.value === null)];
}

/** The mean of a metric over runs; null unless a run has a finite value. */
export function meanIn(runs: readonly Logged[], c: Column): number | null {
  const values = runs.map((r) => valueIn(r, c)).filter((v) => typeof v === "number");
  return values.length ? values.reduce((a, b) => a + b / values.length, 0) : null;
}
