import type { Attempt, RunDetail, TaskDetail } from "./queries";

/** The part of a run's page that the address names. */
export interface Place {
  task?: string | undefined;
  attempt?: number | undefined;
  line?: number | undefined;
  view?: "graph" | "gantt" | undefined;
}

const later = (a: TaskDetail, b: TaskDetail) => ((a.startedAt ?? "") > (b.startedAt ?? "") ? a : b);

/**
 * The default task: the failed one declared first, which the run's message names; else the running
 * one, else the last one that ran, else the first.
 */
export function defaultTask(run: RunDetail): TaskDetail | undefined {
  const failed = run.tasks.find((t) => t.status === "FAILED");
  if (failed) return failed;
  const running = run.tasks.filter((t) => t.status === "RUNNING");
  if (running.length) return running.reduce(later);
  const started = run.tasks.filter((t) => t.attempts.length > 0);
  return started.length ? started.reduce(later) : run.tasks[0];
}

export interface Selection {
  task: TaskDetail | undefined;
  /** Place of the task among the run's tasks. */
  index: number | undefined;
  attempts: readonly Attempt[];
  attempt: Attempt | undefined;
}

/** The task and attempt that a place points to; the latest attempt unless it says which. */
export function select(run: RunDetail, place: Place): Selection {
  const task = run.tasks.find((t) => t.key === place.task) ?? defaultTask(run);
  const attempts = run.singleCommand ? run.attempts : (task?.attempts ?? []);
  const chosen = place.task || run.singleCommand ? place.attempt : undefined;
  const attempt = attempts.find((a) => a.number === chosen) ?? attempts.at(-1);
  return { task, index: task && run.tasks.indexOf(task), attempts, attempt };
}

export const isOver = (a: Attempt) => a.status !== "STARTING" && a.status !== "RUNNING";

/** Where the whole log of an attempt is downloaded from. */
export function downloadPath(run: RunDetail, a: Attempt): string {
  const base = `/api/v1/runs/${encodeURIComponent(run.id)}`;
  const task = run.singleCommand ? "" : `/tasks/${encodeURIComponent(a.taskKey)}`;
  return `${base}${task}/logs?attempt=${a.number}&download=1`;
}
