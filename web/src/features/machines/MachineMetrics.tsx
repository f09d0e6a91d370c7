import { Text } from "@mantine/core";
import { useMemo } from "react";
import type { MachineState } from "@/gql/gen";
import { useNow } from "@/lib/clock";
import { formatAgo } from "@/lib/format";
import { Sparkline } from "@/ui/Sparkline";
import { hour, rangeText, seriesOf } from "./samples";
import { useSamples } from "./useSamples";

const stepMs = 10_000;
/** The shortest span of the axis. */
const shortest = 5 * 60_000;

/** The use of the machine in the last hour and now. */
export function MachineMetrics({ id, state }: { id: string; state: MachineState }) {
  const { samples, failure } = useSamples(id);
  const now = useNow();
  const newest = samples.at(-1)?.at ?? 0;
  const to = Math.max(newest, Math.floor(now / stepMs) * stepMs);
  // A history of less than an hour fills the width.
  const from = Math.max(to - hour, Math.min(samples[0]?.at ?? 0, to - shortest));
  const all = useMemo(() => seriesOf(samples), [samples]);
  const stale = state !== "RUNNING";
  const shown = newest > to - hour ? all : [];
  const range = rangeText(shown.length > 0 ? to - from : hour);
  return (
    <section className="card" aria-label="Use of the machine">
      <div className="section-title">
        <h2>Use in the last {range}</h2>
        {stale && shown.length > 0 && <span className="dim since">last values; measured while it runs</span>}
      </div>
      {failure && (
        <Text size="sm" px="md" pb="sm">
          {failure}
        </Text>
      )}
      {!failure && shown.length === 0 && (
        <Text size="sm" c="dimmed" px="md" pb="md">
          {stale
            ? "Nothing was measured in the last hour: a machine is measured while it runs."
            : "The first measurement comes within seconds."}
        </Text>
      )}
      {shown.length > 0 && (
        <div className="sparklines">
          {shown.map((s) => (
            <figure key={s.name}>
              <figcaption>
                <b>{s.name}</b>
                <span>{s.now}</span>
              </figcaption>
              <Sparkline
                points={s.points}
                from={from}
                to={to}
                top={s.top}
                label={`${s.name} over the last ${range}: ${stale ? "last" : "now"} ${s.now}, at most ${s.most}`}
              />
            </figure>
          ))}
          <div className="sparklines-axis" aria-hidden="true">
            <span>{formatAgo(new Date(from).toISOString(), to)}</span>
            <span>now</span>
          </div>
        </div>
      )}
    </section>
  );
}
