import { columnsIn, type Logged, ofMachine, textIn, valueIn } from "./columns";
import type { Column, Kind } from "./search";

/** One parameter or metric of several runs, in their order. */
export interface Difference {
  column: Column;
  values: (string | undefined)[];
  /** Whether two runs have different values, or one has none. */
  differs: boolean;
}

export function differences(runs: readonly Logged[], kind: Kind): Difference[] {
  return columnsIn(runs)
    .filter((c) => c.kind === kind)
    .map((column) => {
      const exact = runs.map((r) => valueIn(r, column));
      return {
        column,
        values: runs.map((r) => textIn(r, column)),
        differs: exact.some((v) => v !== exact[0]),
      };
    });
}

/** An axis of a chart that has one value per run: numbers, or categories if a value is none. */
export interface Axis {
  column: Column;
  categories: string[] | null;
  /** By run: a number, or a category; null for a run without it. */
  values: (number | string | null)[];
}

const numberOf = (v: string | number | undefined) => {
  const n = typeof v === "number" ? v : v === undefined || v.trim() === "" ? Number.NaN : Number(v);
  return Number.isFinite(n) ? n : null;
};

export function axisOf(runs: readonly Logged[], column: Column): Axis {
  const all = runs.map((r) => valueIn(r, column));
  const numeric = column.kind === "metrics" || all.every((v) => v === undefined || numberOf(v) !== null);
  if (numeric) return { column, categories: null, values: all.map(numberOf) };
  const values = all.map((v) => (v === undefined ? null : String(v)));
  return { column, categories: [...new Set(values.filter((v) => v !== null))].sort(), values };
}

/** Axes to begin with: parameters that differ, then metrics. */
export function firstAxes(runs: readonly Logged[], params: number, metrics: number): Column[] {
  const different = differences(runs, "params").filter((d) => d.differs);
  return [
    ...different.slice(0, params).map((d) => d.column),
    ...columnsIn(runs)
      .filter((c) => c.kind === "metrics" && !ofMachine(c))
      .slice(0, metrics),
  ];
}
