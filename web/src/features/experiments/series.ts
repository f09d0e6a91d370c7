import type { MetricValue } from "./columns";
import type { Look } from "./look";

/** One value of a metric. `at` is in milliseconds since 1970. */
export interface Point {
  step: number;
  at: number;
  value: MetricValue;
}

export type XY = [x: number, y: number];

/** What a chart draws of a metric, and how many of its points it cannot draw. */
export interface Line {
  raw: XY[];
  /** Null without smoothing. */
  smooth: XY[] | null;
  /** Points that are NaN or infinite. */
  notFinite: number;
  /** Points that are not positive, for a logarithmic scale. */
  notPositive: number;
}

/**
 * Exponential moving average, corrected for its start: the first values are not pulled toward zero.
 */
export function smooth(values: readonly number[], weight: number): number[] {
  let last = 0;
  let bias = 1;
  return values.map((v) => {
    last = last * weight + (1 - weight) * v;
    bias *= weight;
    return last / (1 - bias);
  });
}

/** The line of a metric. `start` is the run's start, for times relative to it. */
export function lineOf(points: readonly Point[], look: Look, start: number): Line {
  const finite = points.filter((p): p is Point & { value: number } => typeof p.value === "number");
  const drawn = look.log ? finite.filter((p) => p.value > 0) : finite;
  const xOf = { step: (p: Point) => p.step, time: (p: Point) => p.at, relative: (p: Point) => p.at - start }[
    look.x
  ];
  const raw = drawn.map((p): XY => [xOf(p), p.value]).sort((a, b) => a[0] - b[0]);
  const averages =
    look.smoothing > 0
      ? smooth(
          raw.map((p) => p[1]),
          look.smoothing,
        )
      : null;
  return {
    raw,
    smooth: averages ? raw.map(([x], i): XY => [x, averages[i] ?? 0]) : null,
    notFinite: points.length - finite.length,
    notPositive: finite.length - drawn.length,
  };
}

const rank = (prefix: string) => (prefix === "" ? 0 : prefix === "system" ? 2 : 1);

/**
 * Metrics with the same text before their first slash. Those without a slash come first, and those
 * that MLflow logs of the machine last.
 */
export interface MetricGroup {
  prefix: string;
  keys: string[];
}

export function groupMetrics(keys: readonly string[]): MetricGroup[] {
  const groups = new Map<string, string[]>();
  for (const key of [...keys].sort()) {
    const slash = key.indexOf("/");
    const prefix = slash > 0 ? key.slice(0, slash) : "";
    groups.set(prefix, [...(groups.get(prefix) ?? []), key]);
  }
  return [...groups]
    .map(([prefix, of]) => ({ prefix, keys: of }))
    .sort((a, b) => rank(a.prefix) - rank(b.prefix) || (a.prefix < b.prefix ? -1 : 1));
}
