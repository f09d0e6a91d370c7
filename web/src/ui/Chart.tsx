import { useComputedColorScheme } from "@mantine/core";
import { BarChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  DatasetComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  TooltipComponent,
} from "echarts/components";
import { connect, type ECharts, type EChartsCoreOption, init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { useEffect, useRef } from "react";

use([
  LineChart,
  BarChart,
  ScatterChart,
  GridComponent,
  TooltipComponent,
  LegendComponent,
  DatasetComponent,
  DataZoomComponent,
  AriaComponent,
  CanvasRenderer,
]);

/** A chart. Its text is drawn: say what it shows in the label, and offer a table beside it. */
export default function Chart({
  option,
  label,
  group,
}: {
  option: EChartsCoreOption;
  label: string;
  /** Charts of one group show the same x on hover. */
  group?: string;
}) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<ECharts>(null);
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    if (!host.current) return;
    const c = init(host.current, scheme === "dark" ? "dark" : undefined, { renderer: "canvas" });
    chart.current = c;
    if (group) {
      c.group = group;
      connect(group);
    }
    const room = new ResizeObserver(() => c.resize());
    room.observe(host.current);
    return () => {
      room.disconnect();
      c.dispose();
    };
  }, [scheme, group]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chart of another scheme needs the option again
  useEffect(() => {
    chart.current?.setOption(
      { backgroundColor: "transparent", animation: false, ...option },
      { notMerge: true },
    );
  }, [option, scheme, group]);
  return <div ref={host} role="img" aria-label={label} style={{ height: "100%", minHeight: 220 }} />;
}
