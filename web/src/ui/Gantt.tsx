import "./graph.css";
import { Tooltip } from "@mantine/core";
import type { AttemptStatus, ComputeLinkFragment, TaskStatus } from "@/gql/gen";
import { useNow } from "@/lib/clock";
import { formatClock, formatDuration } from "@/lib/format";
import { ComputeLink } from "./Machine";
import { StatusIcon, statusWord } from "./Status";

export interface GanttAttempt {
  number: number;
  status: AttemptStatus;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
}
export interface GanttTask {
  key: string;
  status: TaskStatus;
  attempts: readonly GanttAttempt[];
  compute: ComputeLinkFragment | null;
  computeId: string | null;
}

const ms = (t: string) => Date.parse(t);
const begin = (a: GanttAttempt) => ms(a.startedAt ?? a.createdAt);

/** Time steps that make three to eight ticks of an axis of so many milliseconds. */
function tickStep(span: number): number {
  const steps = [100, 250, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 216e5, 864e5];
  return steps.find((s) => span / s <= 8) ?? span / 6;
}

/** Tasks over time, one row each; every attempt has its own bar. */
export function Gantt({
  tasks,
  start,
  end,
  selected,
  onSelect,
}: {
  tasks: readonly GanttTask[];
  /** The run's start. */
  start: string;
  /** The run's end; null while it goes on. */
  end: string | null;
  selected?: number | undefined;
  onSelect: (index: number, attempt?: number) => void;
}) {
  const now = useNow(end === null);
  const ends = tasks.flatMap((t) => t.attempts.map((a) => (a.finishedAt ? ms(a.finishedAt) : now)));
  const begins = tasks.flatMap((t) => t.attempts.map(begin));
  const t0 = Math.min(ms(start), ...begins);
  const t1 = Math.max(t0 + 500, ...ends, end === null ? now : 0);
  const span = t1 - t0;
  const at = (t: number) => `${((t - t0) / span) * 100}%`;
  const step = tickStep(span);
  const ticks = Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => i * step);
  return (
    <section className="gantt" aria-label="Timeline of the tasks">
      <div className="gantt-axis" aria-hidden="true">
        <span />
        <div>
          {ticks.map((t) => (
            <span key={t} style={{ left: at(t0 + t) }}>
              {t === 0 ? "0" : formatDuration(t)}
            </span>
          ))}
        </div>
      </div>
      <ul className="gantt-rows">
        {tasks.map((t, i) => (
          <li key={t.key} className="gantt-row" data-selected={selected === i || undefined}>
            <div className="gantt-head">
              <button
                type="button"
                className="gantt-label"
                onClick={() => onSelect(i)}
                aria-pressed={selected === i}
                aria-label={`${t.key}, ${statusWord(t.status)}`}
              >
                <StatusIcon status={t.status} />
                <span>{t.key}</span>
              </button>
              {t.compute && <ComputeLink compute={t.compute} id={t.computeId} />}
            </div>
            <div className="gantt-track">
              {ticks.map((x) => (
                <i key={x} className="gantt-grid" style={{ left: at(t0 + x) }} />
              ))}
              {t.attempts.map((a) => (
                <Bar
                  key={a.number}
                  task={t}
                  attempt={a}
                  t0={t0}
                  span={span}
                  now={now}
                  onSelect={() => onSelect(i, a.number)}
                />
              ))}
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Bar({
  task,
  attempt: a,
  t0,
  span,
  now,
  onSelect,
}: {
  task: GanttTask;
  attempt: GanttAttempt;
  t0: number;
  span: number;
  now: number;
  onSelect: () => void;
}) {
  const s = begin(a);
  const e = Math.max(s, a.finishedAt ? ms(a.finishedAt) : now);
  const left = ((s - t0) / span) * 100;
  const width = Math.max(0.35, ((e - s) / span) * 100);
  const many = task.attempts.length > 1;
  const name = `${many ? `Attempt ${a.number}: ` : ""}${statusWord(a.status)}, ${formatDuration(e - s)}`;
  return (
    <Tooltip label={`${name}, from ${formatClock(s)}`}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a shortcut for the mouse; the row's button and the attempt selector do the same */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: see above */}
      <span
        className="gantt-bar"
        data-status={a.status}
        style={{ left: `${left}%`, width: `${width}%` }}
        onClick={onSelect}
      >
        {width > 12 && <span>{many ? `${a.number} · ${formatDuration(e - s)}` : formatDuration(e - s)}</span>}
      </span>
    </Tooltip>
  );
}
