import type { FileModel, JobModel, TaskModel, VariableModel } from "./model";

/** A problem and its place: a field's path, such as tasks.2.key. */
export interface Issue {
  path: string;
  message: string;
}

export const maxTasks = 1000;
export const maxFiles = 100;
/** Bytes of all files of a job together. */
export const maxFileBytes = 4 << 20;
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;
const taskKey = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$/;
const reserved = "MILLPOND_";

/** All errors that prevent saving a job. The server has the last word. */
export function validateJob(m: JobModel): Issue[] {
  const issues: Issue[] = [];
  if (!m.name.trim()) issues.push({ path: "name", message: "Give the job a name." });
  if (m.tasks?.length && m.command?.trim())
    issues.push({ path: "command", message: "A job has either a command or tasks: leave one of them out." });
  if (m.tasks) issues.push(...validateTasks(m.tasks));
  else if (!m.command?.trim()) issues.push({ path: "command", message: "Say what to run." });
  issues.push(...validateVariables(m.environment, "environment"));
  issues.push(...validateVariables(m.parameters, "parameters"));
  issues.push(...validateFiles(m.files));
  if (m.schedule && !m.schedule.cron.trim())
    issues.push({ path: "schedule.cron", message: "Give a cron line, or turn the schedule off." });
  return issues;
}

function validateVariables(list: readonly VariableModel[], path: string): Issue[] {
  return list.flatMap((v, i) => {
    const at = `${path}.${i}.name`;
    if (!variableName.test(v.name))
      return [{ path: at, message: "Letters, digits and _, and not a digit first." }];
    if (v.name.startsWith(reserved))
      return [{ path: at, message: `Names that begin with ${reserved} are reserved for the platform.` }];
    if (list.findIndex((x) => x.name === v.name) < i)
      return [{ path: at, message: `${v.name} is here twice.` }];
    return [];
  });
}

/** Bytes of a file, from its content if the server does not have it yet. */
export const fileSize = (f: FileModel) =>
  f.content === undefined ? (f.size ?? 0) : Math.floor((f.content.replace(/=+$/, "").length * 3) / 4);

const insideDirectory = (path: string) =>
  path !== "" &&
  path.split("/").every((part) => part !== "" && part !== "." && part !== "..") &&
  !path.includes("\\");

function validateFiles(files: readonly FileModel[]): Issue[] {
  const issues = files.flatMap((f, i) => {
    const path = `files.${i}.path`;
    if (!insideDirectory(f.path))
      return [{ path, message: "A path inside the working directory, such as lib/a.sh." }];
    const first = files.findIndex((x) => x.path === f.path);
    return first < i ? [{ path, message: `Another file is ${f.path} already.` }] : [];
  });
  const total = files.reduce((n, f) => n + fileSize(f), 0);
  if (files.length > maxFiles)
    issues.push({ path: "files", message: `A job has at most ${maxFiles} files.` });
  if (total > maxFileBytes)
    issues.push({ path: "files", message: "The files of a job have at most 4 MiB together." });
  return issues;
}

/** Errors in the tasks of a DAG: keys, commands, dependencies, cycles. */
export function validateTasks(tasks: readonly TaskModel[]): Issue[] {
  const issues: Issue[] = [];
  if (tasks.length > maxTasks)
    issues.push({ path: "tasks", message: `A job has at most ${maxTasks} tasks; here are ${tasks.length}.` });
  const first = new Map<string, number>();
  tasks.forEach((t, i) => {
    if (!first.has(t.key)) first.set(t.key, i);
  });
  tasks.forEach((t, i) => {
    const at = `tasks.${i}`;
    if (!t.key.trim()) issues.push({ path: `${at}.key`, message: "Give the task a key." });
    else if (!taskKey.test(t.key))
      issues.push({
        path: `${at}.key`,
        message: "At most 100 letters, digits, _, - and ., and not . first.",
      });
    else if (first.get(t.key) !== i)
      issues.push({ path: `${at}.key`, message: `Another task has the key ${t.key} already.` });
    if (!t.command.trim()) issues.push({ path: `${at}.command`, message: "Say what the task runs." });
    issues.push(...validateDependencies(t, at, first));
    issues.push(...validateVariables(t.environment, `${at}.environment`));
  });
  const cycle = findCycle(tasks);
  if (cycle) issues.push(cycleIssue(tasks, cycle));
  return issues;
}

function validateDependencies(t: TaskModel, at: string, keys: ReadonlyMap<string, number>): Issue[] {
  return t.dependsOn.flatMap((d) => {
    const path = `${at}.dependsOn`;
    if (d === t.key) return [{ path, message: "A task cannot wait for itself." }];
    return keys.has(d) ? [] : [{ path, message: `There is no task ${d}.` }];
  });
}

function cycleIssue(tasks: readonly TaskModel[], cycle: readonly string[]): Issue {
  const i = tasks.findIndex((t) => t.key === cycle[0]);
  return {
    path: `tasks.${i}.dependsOn`,
    message: `These tasks wait for each other in a circle: ${[...cycle, cycle[0]].join(" → ")}.`,
  };
}

/** Keys of tasks in a dependency cycle, each followed by a dependent; null without a cycle. */
export function findCycle(tasks: readonly { key: string; dependsOn: readonly string[] }[]): string[] | null {
  const byKey = new Map(tasks.map((t) => [t.key, t]));
  const state = new Map<string, "open" | "done">();
  for (const root of byKey.keys()) {
    const path: string[] = [];
    const stack = [{ key: root, next: 0 }];
    while (stack.length) {
      const top = stack[stack.length - 1] as { key: string; next: number };
      if (top.next === 0) {
        if (state.has(top.key)) {
          stack.pop();
          continue;
        }
        state.set(top.key, "open");
        path.push(top.key);
      }
      const dep = byKey.get(top.key)?.dependsOn[top.next++];
      if (dep === undefined) {
        state.set(top.key, "done");
        path.pop();
        stack.pop();
        continue;
      }
      if (dep === top.key || !byKey.has(dep)) continue;
      if (state.get(dep) === "open") return path.slice(path.indexOf(dep)).reverse();
      if (!state.has(dep)) stack.push({ key: dep, next: 0 });
    }
  }
  return null;
}

/** The path of a field as the server names it, such as tasks[2].depends_on. */
export const pathOf = (field: string) =>
  field.replace(/\[(\d+)\]/g, ".$1").replace(/_([a-z])/g, (_, c: string) => c.toUpperCase());

/** The first issue of each path. */
export const byPath = (issues: readonly Issue[]): ReadonlyMap<string, string> =>
  new Map(issues.toReversed().map((i) => [i.path, i.message]));
