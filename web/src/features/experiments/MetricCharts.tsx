import { Group, SegmentedControl, Switch, Text, TextInput } from "@mantine/core";
import { IconChartLine, IconSearch } from "@tabler/icons-react";
import { useCallback, useState } from "react";
import { EmptyState } from "@/ui/States";
import { LivePoints } from "./LivePoints";
import { type Look, xAxes } from "./look";
import { MetricCard } from "./MetricCard";
import { groupMetrics } from "./series";

/** A run whose metrics are drawn. */
export interface DrawnRun {
  id: string;
  name: string;
  startedAt: string;
  /** Whether it still logs. */
  live: boolean;
}

const xWords = { step: "Step", time: "Time", relative: "Since start" } as const;
const manyMetrics = 8;

/** One small chart per metric, of one run or several, in groups by the text before the slash. */
export function MetricCharts({
  runs,
  keys,
  look,
  onLook,
}: {
  runs: readonly DrawnRun[];
  keys: readonly string[];
  look: Look;
  onLook: (l: Partial<Look>) => void;
}) {
  const [asTable, setAsTable] = useState(false);
  const [search, setSearch] = useState("");
  const [drawn, setDrawn] = useState<ReadonlySet<string>>(new Set());
  const onDrawn = useCallback(
    (key: string, on: boolean) =>
      setDrawn((old) => new Set([...old].filter((k) => k !== key).concat(on ? key : []))),
    [],
  );
  if (keys.length === 0)
    return (
      <EmptyState icon={IconChartLine} title="No metrics yet">
        A metric is drawn here as soon as its first value is logged.
      </EmptyState>
    );
  const found = keys.filter((k) => k.toLowerCase().includes(search.trim().toLowerCase()));
  const groups = groupMetrics(found);
  const cards = (of: readonly string[]) =>
    of.map((key) => (
      <MetricCard key={key} name={key} runs={runs} look={look} asTable={asTable} onDrawn={onDrawn} />
    ));
  return (
    <>
      <Group className="chart-tools" gap="md">
        <SegmentedControl
          size="xs"
          aria-label="Across"
          data={xAxes.map((value) => ({ value, label: xWords[value] }))}
          value={look.x}
          onChange={(x) => onLook({ x: x as Look["x"] })}
        />
        <Switch
          size="xs"
          label="Log scale"
          checked={look.log}
          onChange={(e) => onLook({ log: e.currentTarget.checked })}
        />
        <Smoothing value={look.smoothing} onChange={(smoothing) => onLook({ smoothing })} />
        <Switch
          size="xs"
          label="Show as tables"
          checked={asTable}
          onChange={(e) => setAsTable(e.currentTarget.checked)}
        />
        {keys.length > manyMetrics && (
          <TextInput
            size="xs"
            w={170}
            aria-label="Find a metric"
            placeholder="Find a metric"
            leftSection={<IconSearch size={13} aria-hidden />}
            value={search}
            onChange={(e) => setSearch(e.currentTarget.value)}
          />
        )}
      </Group>
      {groups.map((g) =>
        groups.length === 1 ? (
          <div key={g.prefix} className="metric-grid">
            {cards(g.keys)}
          </div>
        ) : (
          <details key={g.prefix} open className="metric-group">
            <summary>
              <h3>{g.prefix || "Without a prefix"}</h3> <span className="dim">{g.keys.length}</span>
            </summary>
            <div className="metric-grid">{cards(g.keys)}</div>
          </details>
        ),
      )}
      {found.length === 0 && (
        <Text size="sm" c="dimmed" className="card-pad">
          No metric has this text in its key.
        </Text>
      )}
      {runs.map((r) => r.live && <LivePoints key={r.id} run={r.id} keys={[...drawn].sort()} />)}
    </>
  );
}

function Smoothing({ value, onChange }: { value: number; onChange: (v: number) => void }) {
  const [moving, setMoving] = useState<number | null>(null);
  const shown = moving ?? value;
  const settle = () => {
    if (moving === null) return;
    setMoving(null);
    onChange(moving);
  };
  return (
    <label className="smoothing">
      Smoothing
      <input
        type="range"
        min={0}
        max={0.99}
        step={0.01}
        value={shown}
        onChange={(e) => setMoving(e.currentTarget.valueAsNumber)}
        onPointerUp={settle}
        onKeyUp={settle}
        onBlur={settle}
      />
      <span className="smoothing-value">{shown.toFixed(2)}</span>
    </label>
  );
}
