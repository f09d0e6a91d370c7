import { describe, expect, it } from "vitest";
import type { Attempt, RunDetail, TaskDetail } from "./queries";
import { downloadPath, select } from "./selection";

const attempt = (taskKey: string, number: number): Attempt => ({
  __typename: "Attempt",
  id: `att_${taskKey}${number}`,
  taskKey,
  number,
  status: "SUCCESS",
  exitCode: 0,
  signal: null,
  message: null,
  held: null,
  createdAt: "2026-01-01T00:00:00Z",
  startedAt: "2026-01-01T00:00:00Z",
  finishedAt: "2026-01-01T00:00:01Z",
  logSize: "0",
  agent: null,
});
const task = (key: string, status: TaskDetail["status"], second: number, attempts = 1): TaskDetail => ({
  __typename: "Task",
  id: key,
  key,
  status,
  retryCount: 0,
  message: null,
  notBefore: null,
  computeId: null,
  compute: null,
  startedAt: `2026-01-01T00:00:0${second}Z`,
  finishedAt: `2026-01-01T00:00:0${second + 1}Z`,
  attempts: Array.from({ length: attempts }, (_, i) => attempt(key, i + 1)),
  command: "",
  dependsOn: [],
  maxRetries: 0,
  timeoutSeconds: 0,
});
const run = (tasks: TaskDetail[], attempts: Attempt[] = []) =>
  ({ id: "run_1", tasks, attempts, singleCommand: tasks.length === 0 }) as unknown as RunDetail;

describe("what a run's page shows", () => {
  it("is what failed and is declared first, as in the run's message, with its latest attempt", () => {
    const r = run([task("a", "SUCCESS", 1), task("c", "FAILED", 4, 3), task("b", "FAILED", 2)]);
    const s = select(r, {});
    expect([s.task?.key, s.attempt?.number, s.index]).toEqual(["c", 3, 1]);
  });
  it("is what began last of what runs", () => {
    const r = run([task("a", "SUCCESS", 5), task("b", "RUNNING", 1), task("c", "RUNNING", 3)]);
    expect(select(r, {}).task?.key).toBe("c");
  });
  it("is what the address points to", () => {
    const r = run([task("a", "SUCCESS", 1, 2), task("b", "FAILED", 2)]);
    const s = select(r, { task: "a", attempt: 1 });
    expect([s.task?.key, s.attempt?.number]).toEqual(["a", 1]);
  });
  it("is not broken by an address that points to nothing", () => {
    const r = run([task("a", "SUCCESS", 1)]);
    const s = select(r, { task: "gone", attempt: 9 });
    expect([s.task?.key, s.attempt?.number]).toEqual(["a", 1]);
    expect(select(run([]), {}).attempt).toBeUndefined();
  });
  it("is an attempt of the command when there are no tasks", () => {
    const r = run([], [attempt("", 1), attempt("", 2)]);
    expect(select(r, {}).attempt?.number).toBe(2);
    expect(select(r, { attempt: 1 }).attempt?.number).toBe(1);
  });
});

it("downloadPath names the task, or none for a single command", () => {
  expect(downloadPath(run([task("a/b", "SUCCESS", 1)]), attempt("a/b", 2))).toBe(
    "/api/v1/runs/run_1/tasks/a%2Fb/logs?attempt=2&download=1",
  );
  expect(downloadPath(run([], [attempt("", 1)]), attempt("", 1))).toBe(
    "/api/v1/runs/run_1/logs?attempt=1&download=1",
  );
});
