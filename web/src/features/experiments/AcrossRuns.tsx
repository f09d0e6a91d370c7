import { Group, MultiSelect, Select, Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import { PanelSkeleton } from "@/ui/States";
import type { ComparePlace } from "./ComparePage";
import { parallelOption, scatterOption } from "./chart";
import { columnsIn, type Logged } from "./columns";
import { axisOf, firstAxes } from "./compare";
import { RunMark } from "./RunMark";
import { columnOf } from "./search";

const Chart = lazy(() => import("@/ui/Chart"));
const ParallelChart = lazy(() => import("./ParallelChart"));

/** Two charts with one mark per run: parallel coordinates and a scatter. */
export function AcrossRuns({
  runs,
  place,
  onPlace,
}: {
  runs: readonly Logged[];
  place: ComparePlace;
  onPlace: (p: Partial<ComparePlace>) => void;
}) {
  const there = columnsIn(runs).filter((c) => c.kind !== "tags");
  if (there.length < 2) return null;
  const choices = there.map((c) => c.id);
  const known = (id: string | undefined) => there.find((c) => c.id === id);
  const axes = place.axes?.map(columnOf).filter((c) => c !== null) ?? firstAxes(runs, 5, 2);
  const x = known(place.across) ?? firstAxes(runs, 1, 0)[0] ?? there[0];
  const y = known(place.up) ?? firstAxes(runs, 0, 1)[0] ?? there[1];
  if (!x || !y) return null;
  const names = runs.map((r) => r.name);
  const parallelLabel = `Parallel coordinates of ${axes.map((a) => a.key).join(", ")}`;
  const scatterLabel = `${y.key} by ${x.key}, one point per run`;
  const parallel = axes.map((a) => axisOf(runs, a));
  const select = { size: "xs" as const, data: choices, allowDeselect: false, searchable: true, w: 210 };
  return (
    <div className="two across-runs">
      <section className="card" aria-label="Parallel coordinates">
        <div className="section-title">
          <h2>Parallel coordinates</h2>
        </div>
        <div className="card-pad across-tools">
          <MultiSelect
            size="xs"
            aria-label="Axes"
            data={choices}
            value={axes.map((a) => a.id)}
            onChange={(v) => onPlace({ axes: v.length ? v : undefined })}
            maxValues={12}
            searchable
          />
        </div>
        {axes.length > 1 ? (
          <div className="across-room">
            <Suspense fallback={<PanelSkeleton height={320} />}>
              <ParallelChart option={parallelOption(names, parallel, parallelLabel)} label={parallelLabel} />
            </Suspense>
          </div>
        ) : (
          <Text size="sm" c="dimmed" className="card-pad">
            Choose two axes or more.
          </Text>
        )}
        <Legend names={names} />
      </section>
      <section className="card" aria-label="Scatter">
        <div className="section-title">
          <h2>Scatter</h2>
        </div>
        <Group gap="xs" className="card-pad across-tools">
          <Select
            {...select}
            aria-label="Across"
            value={x.id}
            onChange={(v) => v && onPlace({ across: v })}
          />
          <Select {...select} aria-label="Upwards" value={y.id} onChange={(v) => v && onPlace({ up: v })} />
        </Group>
        <div className="across-room">
          <Suspense fallback={<PanelSkeleton height={320} />}>
            <Chart
              option={scatterOption(names, axisOf(runs, x), axisOf(runs, y), scatterLabel)}
              label={scatterLabel}
            />
          </Suspense>
        </div>
      </section>
    </div>
  );
}

function Legend({ names }: { names: readonly string[] }) {
  return (
    <ul className="run-legend">
      {names.map((name, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: names may be equal
        <li key={i}>
          <RunMark n={i} /> {name}
        </li>
      ))}
    </ul>
  );
}
