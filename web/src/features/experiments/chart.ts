import { formatDuration } from "@/lib/format";
import { palette } from "@/ui/palette";
import type { Axis } from "./compare";
import type { Look, XAxis } from "./look";
import type { Line } from "./series";
import { formatMetric } from "./value";

const strokes = ["solid", "dashed", "dotted"] as const;

/** How the n-th run is drawn on every chart: after the last colour, with dashes. */
export const styleOf = (n: number) => ({
  color: palette[n % palette.length] as string,
  type: strokes[Math.floor(n / palette.length) % strokes.length] as (typeof strokes)[number],
});

export interface Named {
  name: string;
  line: Line;
}

/** A time since a run's start; a point may be older than the run. */
export const sinceStart = (ms: number) => `${ms < 0 ? "-" : ""}${formatDuration(Math.abs(ms))}`;

const xAxisOf: Record<XAxis, object> = {
  step: { type: "value", min: "dataMin", max: "dataMax", axisLabel: { hideOverlap: true } },
  time: { type: "time", axisLabel: { hideOverlap: true } },
  relative: {
    type: "value",
    min: "dataMin",
    max: "dataMax",
    axisLabel: { hideOverlap: true, formatter: sinceStart },
  },
};

/** What ECharts draws of one metric of several runs. */
export function metricOption(lines: readonly Named[], look: Look, label: string) {
  const alone = lines.length === 1;
  return {
    aria: { enabled: true, label: { description: label } },
    grid: { left: 8, right: 14, top: 10, bottom: 6, containLabel: true },
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      order: "valueDesc",
      valueFormatter: (v: unknown) => (typeof v === "number" ? formatMetric(v) : String(v)),
      textStyle: { fontSize: 12 },
    },
    xAxis: xAxisOf[look.x],
    yAxis: {
      type: look.log ? "log" : "value",
      scale: true,
      axisLabel: { formatter: (v: number) => formatMetric(v), hideOverlap: true },
    },
    series: lines.flatMap(({ name, line }, i) => {
      const { color, type } = styleOf(i);
      const base = {
        type: "line",
        sampling: "lttb",
        symbolSize: 5,
        itemStyle: { color },
        emphasis: { disabled: true },
      };
      const width = alone ? 1.8 : 1.5;
      const main = { ...base, name, showSymbol: line.raw.length < 30, lineStyle: { color, type, width } };
      if (!line.smooth) return [{ ...main, data: line.raw }];
      const faint = { ...base, name: `${name}, as logged`, showSymbol: false, silent: true };
      return [
        { ...faint, lineStyle: { color, width: 1, opacity: 0.25 }, tooltip: { show: false }, data: line.raw },
        { ...main, data: line.smooth },
      ];
    }),
  };
}

const axisBase = (a: Axis) =>
  a.categories ? { type: "category", data: a.categories } : { type: "value", scale: true };

/** One point per run. */
export function scatterOption(names: readonly string[], x: Axis, y: Axis, label: string) {
  return {
    aria: { enabled: true, label: { description: label } },
    grid: { left: 16, right: 24, top: 34, bottom: 28, containLabel: true },
    tooltip: { trigger: "item", renderMode: "richText", confine: true },
    xAxis: { ...axisBase(x), name: x.column.key, nameLocation: "middle", nameGap: 30 },
    yAxis: { ...axisBase(y), name: y.column.key, nameTextStyle: { align: "left" } },
    series: names.flatMap((name, i) => {
      const at = [x.values[i] ?? null, y.values[i] ?? null];
      if (at.includes(null)) return [];
      return [{ name, type: "scatter", symbolSize: 12, itemStyle: { color: styleOf(i).color }, data: [at] }];
    }),
  };
}

/** One line per run across the axes. */
export function parallelOption(names: readonly string[], axes: readonly Axis[], label: string) {
  return {
    aria: { enabled: true, label: { description: label } },
    tooltip: { renderMode: "richText", confine: true },
    parallel: { left: 50, right: 70, top: 44, bottom: 24 },
    parallelAxis: axes.map((a, dim) => ({
      dim,
      name: a.column.key,
      nameTextStyle: { width: 130, overflow: "truncate" },
      ...axisBase(a),
      ...(a.categories ? {} : { axisLabel: { formatter: (v: number) => formatMetric(v) } }),
    })),
    series: names.map((name, i) => {
      const { color, type } = styleOf(i);
      return {
        name,
        type: "parallel",
        lineStyle: { color, type, width: 2, opacity: 0.85 },
        emphasis: { lineStyle: { width: 4, opacity: 1 } },
        data: [axes.map((a) => a.values[i] ?? "-")],
      };
    }),
  };
}
