import { SegmentedControl } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { lazy, type PointerEvent, Suspense, useCallback, useMemo, useRef } from "react";
import { TaskStatus } from "@/gql/gen";
import { formatDuration } from "@/lib/format";
import { useShortcuts } from "@/lib/hotkeys";
import type { DagTask } from "@/ui/Dag";
import { Gantt } from "@/ui/Gantt";
import { StatusBadge, statusWord } from "@/ui/Status";
import type { RunDetail, TaskDetail } from "./queries";
import { Waiting } from "./Waiting";

const Dag = lazy(() => import("@/ui/Dag").then((m) => ({ default: m.Dag })));
const smallest = 120;
const largest = 900;

function toDag(t: TaskDetail): DagTask {
  const took =
    t.startedAt && t.finishedAt
      ? formatDuration(Date.parse(t.finishedAt) - Date.parse(t.startedAt))
      : undefined;
  const retries = t.retryCount > 0 && t.status === "RUNNING" ? `retry ${t.retryCount}` : undefined;
  const where = t.compute && `on ${t.compute.name}`;
  const detail = [took ?? retries, where].filter(Boolean).join(", ") || undefined;
  return { key: t.key, dependsOn: t.dependsOn, status: t.status, detail };
}

/** The tasks as a graph or over time; v switches, a click chooses the log below. */
export function TasksPanel({
  run,
  selected,
  view,
  onView,
  onSelect,
}: {
  run: RunDetail;
  selected: number | undefined;
  view: "graph" | "gantt";
  onView: (v: "graph" | "gantt") => void;
  onSelect: (task: string, attempt?: number) => void;
}) {
  const [height, setHeight] = useLocalStorage({ key: "millpond-tasks-height", defaultValue: 210 });
  const resize = (h: number) => setHeight(Math.min(largest, Math.max(smallest, Math.round(h))));
  useShortcuts("Run", [
    { keys: ["v"], label: "Graph or timeline", run: () => onView(view === "graph" ? "gantt" : "graph") },
    { keys: ["n"], label: "Next task", run: () => step(1) },
    { keys: ["p"], label: "Previous task", run: () => step(-1) },
  ]);
  const step = (d: number) => {
    const next = run.tasks[((selected ?? 0) + d + run.tasks.length) % run.tasks.length];
    if (next) onSelect(next.key);
  };
  const tasks = useMemo(() => run.tasks.map(toDag), [run.tasks]);
  const keys = useRef(onSelect);
  keys.current = onSelect;
  const list = run.tasks;
  const choose = useCallback((i: number) => keys.current(list[i]?.key ?? ""), [list]);
  return (
    <>
      <section className="card" aria-label="Tasks">
        <div className="tasks-head">
          <h2>Tasks</h2>
          <Counts tasks={run.tasks} />
          <SegmentedControl
            size="xs"
            value={view}
            onChange={(v) => onView(v as "graph" | "gantt")}
            data={[
              { value: "graph", label: "Graph" },
              { value: "gantt", label: "Timeline" },
            ]}
            aria-label="View of the tasks"
          />
        </div>
        <Waiting tasks={run.tasks} />
        <div style={{ height }}>
          {view === "graph" ? (
            <Suspense>
              <Dag tasks={tasks} selected={selected} onSelect={choose} label="Graph of the tasks" />
            </Suspense>
          ) : (
            <Gantt
              tasks={run.tasks}
              start={run.startedAt ?? run.createdAt}
              end={run.finishedAt}
              selected={selected}
              onSelect={(i, attempt) => onSelect(list[i]?.key ?? "", attempt)}
            />
          )}
        </div>
      </section>
      <Splitter height={height} onResize={resize} />
    </>
  );
}

function Counts({ tasks }: { tasks: readonly TaskDetail[] }) {
  const counts = Object.values(TaskStatus)
    .map((status) => ({ status, n: tasks.filter((t) => t.status === status).length }))
    .filter((c) => c.n > 0);
  return (
    <div className="tasks-count">
      {counts.map((c) => (
        <StatusBadge key={c.status} status={c.status} word={`${c.n} ${statusWord(c.status).toLowerCase()}`} />
      ))}
    </div>
  );
}

/** Between the tasks and the log: drag it, or use the arrow keys. */
function Splitter({ height, onResize }: { height: number; onResize: (h: number) => void }) {
  const from = useRef<{ y: number; height: number } | null>(null);
  const move = (e: PointerEvent) => {
    if (from.current) onResize(from.current.height + e.clientY - from.current.y);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: an hr cannot be moved; this is the window splitter pattern of ARIA
    <div
      className="splitter"
      role="separator"
      tabIndex={0}
      aria-orientation="horizontal"
      aria-label="Height of the tasks"
      aria-valuenow={height}
      aria-valuemin={smallest}
      aria-valuemax={largest}
      onPointerDown={(e) => {
        from.current = { y: e.clientY, height };
        e.currentTarget.setPointerCapture(e.pointerId);
      }}
      onPointerMove={move}
      onPointerUp={() => {
        from.current = null;
      }}
      onKeyDown={(e) => {
        if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
        e.preventDefault();
        onResize(height + (e.key === "ArrowDown" ? 20 : -20));
      }}
    />
  );
}
