import type { MachineMetricsSubscription } from "@/gql/gen";
import { formatBytes, plural } from "@/lib/format";
import type { Point } from "@/ui/sparkline";

type Raw = MachineMetricsSubscription["machineMetrics"];

/** How much of a machine was used at one moment. Memory and disk are in bytes. */
export interface Sample {
  at: number;
  cpu: number;
  cores: number;
  memory: number;
  memoryTotal: number;
  disk: number;
  diskTotal: number;
  gpus: readonly { name: string; load: number; memory: number; memoryTotal: number }[];
}

export const hour = 3_600_000;

/** The range of the chart, after "the last": "5 minutes", "hour". */
export const rangeText = (ms: number) =>
  ms >= hour ? "hour" : plural(Math.max(1, Math.floor(ms / 60_000)), "minute");

export const toSample = (r: Raw): Sample => ({
  at: Date.parse(r.at),
  cpu: r.cpu,
  cores: r.cores,
  memory: Number(r.memory),
  memoryTotal: Number(r.memoryTotal),
  disk: Number(r.disk),
  diskTotal: Number(r.diskTotal),
  gpus: r.gpus.map((g) => ({ ...g, memory: Number(g.memory), memoryTotal: Number(g.memoryTotal) })),
});

/**
 * The held samples with the new ones, without duplicates and samples more than an hour older than
 * the newest.
 */
export function addSamples(held: readonly Sample[], came: readonly Sample[]): readonly Sample[] {
  let last = held.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  const fresh: Sample[] = [];
  for (const s of came) {
    if (s.at <= last) continue;
    fresh.push(s);
    last = s.at;
  }
  if (fresh.length === 0) return held;
  const all = [...held, ...fresh];
  const first = all.findIndex((s) => s.at > last - hour);
  return first > 0 ? all.slice(first) : all;
}

/** A line of the chart: its name, current use, capacity and points. */
export interface Series {
  name: string;
  now: string;
  /** The hour's maximum in words. */
  most: string;
  top: number;
  points: readonly Point[];
}

const percent = (part: number, whole: number) => `${whole > 0 ? Math.round((100 * part) / whole) : 0} %`;
const cores = (n: number) => (n < 10 ? n.toFixed(2) : n.toFixed(1));

function series(
  name: string,
  samples: readonly Sample[],
  value: (s: Sample) => number | undefined,
  top: number,
  text: (v: number) => string,
): Series {
  const points = samples.flatMap((s) => {
    const v = value(s);
    return v === undefined ? [] : [{ at: s.at, value: v }];
  });
  const values = points.map((p) => p.value);
  return {
    name,
    now: text(values.at(-1) ?? 0),
    most: text(values.reduce((a, b) => Math.max(a, b), 0)),
    top,
    points,
  };
}

/** Series for CPU, memory and disk, and two for each GPU; empty without samples. */
export function seriesOf(samples: readonly Sample[]): Series[] {
  const last = samples.at(-1);
  if (!last) return [];
  const bytes = (total: number) => (v: number) =>
    `${formatBytes(v)} of ${formatBytes(total)} (${percent(v, total)})`;
  return [
    series(
      "CPU",
      samples,
      (s) => s.cpu,
      last.cores,
      (v) =>
        `${cores(v)} of ${last.cores} ${last.cores === 1 ? "core" : "cores"} (${percent(v, last.cores)})`,
    ),
    series("Memory", samples, (s) => s.memory, last.memoryTotal, bytes(last.memoryTotal)),
    series("Disk", samples, (s) => s.disk, last.diskTotal, bytes(last.diskTotal)),
    ...last.gpus.flatMap((g, i) => [
      series(
        `GPU ${i + 1}, ${g.name}`,
        samples,
        (s) => s.gpus[i]?.load,
        1,
        (v) => percent(v, 1),
      ),
      series(
        `Memory of GPU ${i + 1}`,
        samples,
        (s) => s.gpus[i]?.memory,
        g.memoryTotal,
        bytes(g.memoryTotal),
      ),
    ]),
  ];
}
