import { Table, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useMemo, useRef } from "react";
import { formatCount, formatTime, plural } from "@/lib/format";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { metricOption, type Named, sinceStart } from "./chart";
import { type History, historyQuery } from "./history";
import type { Look, XAxis } from "./look";
import type { DrawnRun } from "./MetricCharts";
import { type Line, lineOf } from "./series";
import { useNear } from "./useNear";
import { formatMetric } from "./value";

const Chart = lazy(() => import("@/ui/Chart"));
const tableAtMost = 200;

/** One metric of the runs. It is read and drawn while it is in sight. */
export function MetricCard({
  name,
  runs,
  look,
  asTable,
  onDrawn,
}: {
  name: string;
  runs: readonly DrawnRun[];
  look: Look;
  asTable: boolean;
  onDrawn: (key: string, on: boolean) => void;
}) {
  const card = useRef<HTMLElement>(null);
  const near = useNear(card);
  useEffect(() => {
    if (!near) return;
    onDrawn(name, true);
    return () => onDrawn(name, false);
  }, [near, name, onDrawn]);
  return (
    <figure ref={card} className="metric-card" aria-label={name}>
      {near ? (
        <Drawn name={name} runs={runs} look={look} asTable={asTable} />
      ) : (
        <figcaption>
          <b>{name}</b>
        </figcaption>
      )}
    </figure>
  );
}

function Drawn({
  name,
  runs,
  look,
  asTable,
}: {
  name: string;
  runs: readonly DrawnRun[];
  look: Look;
  asTable: boolean;
}) {
  const all = useQueries({ queries: runs.map((r) => historyQuery(r.id, name)) });
  const histories = all.map((q) => q.data);
  // biome-ignore lint/correctness/useExhaustiveDependencies: histories is another array on each render
  const lines = useMemo(
    () =>
      runs.map(
        (r, i): Named => ({
          name: r.name,
          line: lineOf(histories[i]?.points ?? [], look, Date.parse(r.startedAt)),
        }),
      ),
    [runs, look, ...histories],
  );
  const last = lines.length === 1 ? histories[0]?.points.at(-1)?.value : undefined;
  const label = `${name} by ${xNames[look.x]}${look.log ? ", log scale" : ""}, ${plural(runs.length, "run")}`;
  const option = useMemo(() => metricOption(lines, look, label), [lines, look, label]);
  const failure = all.find((q) => q.error);
  const loading = all.some((q) => q.isPending) && !failure;
  return (
    <>
      <figcaption>
        <b>{name}</b>
        {last !== undefined && <span>{formatMetric(last)}</span>}
      </figcaption>
      {failure && <ErrorPanel error={failure.error} retry={() => failure.refetch()} />}
      {loading && <PanelSkeleton height={200} />}
      {!loading && !failure && !asTable && (
        <div className="metric-room">
          <Suspense fallback={<PanelSkeleton height={200} />}>
            <Chart option={option} label={label} group="metrics" />
          </Suspense>
        </div>
      )}
      {!loading && asTable && <PointsTable name={name} lines={lines} x={look.x} />}
      <Notes lines={lines.map((l) => l.line)} histories={histories} />
    </>
  );
}

const xNames: Record<XAxis, string> = { step: "step", time: "time", relative: "time since the start" };

const xText = (x: XAxis, v: number) => {
  if (x === "step") return formatCount(v);
  return x === "time" ? formatTime(new Date(v).toISOString()) : sinceStart(v);
};

/** Which points the chart leaves out. */
function Notes({
  lines,
  histories,
}: {
  lines: readonly Line[];
  histories: readonly (History | undefined)[];
}) {
  const sum = (of: (l: Line) => number) => lines.reduce((n, l) => n + of(l), 0);
  const notFinite = sum((l) => l.notFinite);
  const notPositive = sum((l) => l.notPositive);
  const drawn = histories.reduce((n, h) => n + (h?.points.length ?? 0), 0);
  const total = histories.reduce((n, h) => n + (h?.total ?? 0), 0);
  const notes = [
    total > drawn &&
      `${formatCount(drawn)} of ${formatCount(total)} points are drawn, with the lowest and the highest of each part.`,
    notFinite > 0 && `Left out: ${plural(notFinite, "value")} that ${isAre(notFinite)} NaN or infinite.`,
    notPositive > 0 &&
      `Left out: ${plural(notPositive, "value")} that ${isAre(notPositive)} not above 0, for the log scale.`,
  ].filter(Boolean);
  if (notes.length === 0) return null;
  return (
    <Text size="xs" c="dimmed" className="metric-notes">
      {notes.join(" ")}
    </Text>
  );
}

const isAre = (n: number) => (n === 1 ? "is" : "are");

function PointsTable({ name, lines, x }: { name: string; lines: readonly Named[]; x: XAxis }) {
  const rows = lines.flatMap(({ name: run, line }) =>
    line.raw.map(([at, value], i) => ({ run, at, value, smooth: line.smooth?.[i]?.[1] })),
  );
  const shown = rows.slice(-tableAtMost).reverse();
  const smooth = lines.some((l) => l.line.smooth);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so that keys must reach it
    <section className="metric-table" aria-label={`Points of ${name}`} tabIndex={0}>
      <Table aria-label={name} className="rows" stickyHeader>
        <Table.Thead>
          <Table.Tr>
            {lines.length > 1 && <Table.Th>Run</Table.Th>}
            <Table.Th>{xNames[x]}</Table.Th>
            <Table.Th ta="right">value</Table.Th>
            {smooth && <Table.Th ta="right">smooth</Table.Th>}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {shown.map((p, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: points may be equal
            <Table.Tr key={i}>
              {lines.length > 1 && <Table.Td>{p.run}</Table.Td>}
              <Table.Td>{xText(x, p.at)}</Table.Td>
              <Table.Td ta="right">{p.value}</Table.Td>
              {smooth && <Table.Td ta="right">{formatMetric(p.smooth ?? 0)}</Table.Td>}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {rows.length > tableAtMost && (
        <Text size="xs" c="dimmed" p="xs">
          The last {tableAtMost} of {formatCount(rows.length)} points.
        </Text>
      )}
    </section>
  );
}
