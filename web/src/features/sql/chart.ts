import { isNumeric, isTemporal, type ResultColumn, type ResultSource } from "@/lib/result";
import { palette } from "@/ui/palette";

export type ChartKind = "line" | "bar" | "area" | "scatter";
export interface ChartChoice {
  kind: ChartKind;
  x: number;
  y: readonly number[];
}

/** The maximum number of points; more add nothing visible. */
export const chartAtMost = 10_000;

/**
 * A default chart for the columns: numbers over the first other column, as a line over time. Null
 * without numbers.
 */
export function proposal(columns: readonly ResultColumn[], rows: number): ChartChoice | null {
  const numbers = columns.flatMap((c, i) => (isNumeric(c.type) ? [i] : []));
  if (numbers.length === 0) return null;
  const time = columns.findIndex((c) => isTemporal(c.type));
  const text = columns.findIndex((c) => !isNumeric(c.type));
  if (time >= 0) return { kind: "line", x: time, y: numbers.slice(0, 4) };
  if (text >= 0) return { kind: rows > 60 ? "line" : "bar", x: text, y: numbers.slice(0, 4) };
  const [x = 0, ...rest] = numbers;
  return rest.length === 0 ? { kind: "line", x: -1, y: [x] } : { kind: "scatter", x, y: rest.slice(0, 1) };
}

const number = (v: string | null | undefined) => {
  const n = v === null || v === undefined || v === "" ? Number.NaN : Number(v);
  return Number.isFinite(n) ? n : null;
};

/** The points of a chart: the value at x, and one for each y. */
export function points(source: ResultSource, choice: ChartChoice, rows: number) {
  return Array.from({ length: rows }, (_, r) => ({
    x: choice.x < 0 ? String(r + 1) : (source.cell(r, choice.x) ?? "NULL"),
    y: choice.y.map((c) => number(source.cell(r, c))),
  }));
}

/** What ECharts draws. */
export function chartOption(
  columns: readonly ResultColumn[],
  choice: ChartChoice,
  data: ReturnType<typeof points>,
  label: string,
) {
  const xType = choice.x < 0 ? "long" : (columns[choice.x]?.type ?? "string");
  const byValue = choice.kind === "scatter" && isNumeric(xType) && choice.x >= 0;
  const many = data.length > 60;
  return {
    color: [...palette],
    aria: { enabled: true, label: { description: label } },
    grid: { left: 16, right: 20, top: 38, bottom: many ? 56 : 16, containLabel: true },
    legend: { top: 4, type: "scroll" },
    tooltip: { trigger: choice.kind === "scatter" ? "item" : "axis", renderMode: "richText" },
    xAxis: byValue
      ? { type: "value", scale: true, name: columns[choice.x]?.name, nameLocation: "middle", nameGap: 26 }
      : { type: "category", data: data.map((p) => p.x) },
    yAxis: { type: "value", scale: choice.kind !== "bar" && choice.kind !== "area" },
    dataZoom: many ? [{ type: "inside" }, { type: "slider", height: 20, bottom: 8 }] : [],
    series: choice.y.map((c, i) => ({
      name: columns[c]?.name,
      type: choice.kind === "area" ? "line" : choice.kind,
      ...(choice.kind === "area" ? { areaStyle: { opacity: 0.25 } } : {}),
      ...(choice.kind === "line" || choice.kind === "area"
        ? { showSymbol: data.length < 60, sampling: "lttb" }
        : {}),
      ...(choice.kind === "scatter" ? { symbolSize: data.length > 2000 ? 4 : 8 } : {}),
      data: data.map((p) => (byValue ? [number(p.x), p.y[i]] : p.y[i])),
    })),
  };
}
