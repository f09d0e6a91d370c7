import { Button, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlus, IconTrash } from "@tabler/icons-react";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { plural } from "@/lib/format";
import type { Errors } from "./fields";
import { newTask, type TaskModel } from "./model";
import { TaskForm } from "./TaskForm";
import { maxTasks } from "./validate";

const Dag = lazy(() => import("@/ui/Dag").then((m) => ({ default: m.Dag })));

/** The tasks of a job: their graph, and beside it the chosen one as a form. */
export function TasksEditor({
  tasks,
  onChange,
  errors,
}: {
  tasks: TaskModel[];
  onChange: (t: TaskModel[]) => void;
  errors: Errors;
}) {
  const [chosen, setChosen] = useState<number | undefined>(tasks.length ? 0 : undefined);
  const selected = chosen !== undefined && chosen < tasks.length ? chosen : undefined;
  const nodes = useMemo(
    () =>
      tasks.map((t, i) => ({
        key: t.key,
        dependsOn: t.dependsOn,
        invalid: [...errors.keys()].some((p) => p.startsWith(`tasks.${i}.`)),
        detail: t.maxRetries ? `up to ${plural(t.maxRetries, "retry", "retries")}` : undefined,
      })),
    [tasks, errors],
  );
  const choose = useCallback((i: number) => setChosen(i), []);
  const add = () => {
    const after = selected === undefined ? undefined : tasks[selected]?.key;
    onChange([...tasks, newTask(freeKey(tasks), after ? [after] : [])]);
    setChosen(tasks.length);
  };
  const remove = (i: number) => {
    const key = tasks[i]?.key;
    const stillThere = tasks.some((t, j) => j !== i && t.key === key);
    const rest = tasks.filter((_, j) => j !== i);
    onChange(
      stillThere ? rest : rest.map((t) => ({ ...t, dependsOn: t.dependsOn.filter((d) => d !== key) })),
    );
    setChosen(Math.max(0, i - 1));
  };
  const task = selected === undefined ? undefined : tasks[selected];
  return (
    <>
      <div className="editor-grid" style={{ borderTop: "1px solid var(--mantine-color-default-border)" }}>
        <div className="editor-graph">
          <div className="editor-tools">
            <Button
              size="xs"
              variant="default"
              leftSection={<IconPlus size={14} />}
              onClick={add}
              disabled={tasks.length >= maxTasks}
            >
              {task?.key ? `Add a task after ${task.key}` : "Add a task"}
            </Button>
            <Text size="xs" c="dimmed" ml="auto">
              {plural(tasks.length, "task")}
            </Text>
          </div>
          {tasks.length > 0 ? (
            <Suspense>
              <Dag tasks={nodes} selected={selected} onSelect={choose} label="Graph of the tasks" />
            </Suspense>
          ) : (
            <div className="editor-none">
              <Text size="sm" c="dimmed">
                No tasks yet. Such a job can be saved, but not run.
              </Text>
            </div>
          )}
        </div>
        {task && selected !== undefined ? (
          <div className="editor-task">
            <TaskForm
              key={selected}
              task={task}
              index={selected}
              tasks={tasks}
              errors={errors}
              onChange={(t) => onChange(changed(tasks, selected, t))}
            />
            <Button
              mt="md"
              size="xs"
              variant="subtle"
              color="red"
              leftSection={<IconTrash size={14} />}
              onClick={() => remove(selected)}
            >
              Remove this task
            </Button>
          </div>
        ) : (
          <div className="editor-none">
            <Text size="sm" c="dimmed">
              Choose a task in the graph, or add one.
            </Text>
          </div>
        )}
      </div>
      <IssueList errors={errors} tasks={tasks} onChoose={choose} />
    </>
  );
}

/** A key that no task has: task-2, task-3 and so on. */
function freeKey(tasks: readonly TaskModel[]): string {
  const usedKeys = new Set(tasks.map((t) => t.key));
  let n = tasks.length + 1;
  while (usedKeys.has(`task-${n}`)) n++;
  return `task-${n}`;
}

/**
 * The tasks with one changed. Renaming a task with a unique key also renames it in its dependents.
 */
function changed(tasks: readonly TaskModel[], i: number, t: TaskModel): TaskModel[] {
  const old = tasks[i]?.key;
  const unique = tasks.filter((x) => x.key === old).length === 1;
  return tasks.map((x, j) => {
    if (i === j) return t;
    if (!unique || !old || old === t.key || !x.dependsOn.includes(old)) return x;
    return { ...x, dependsOn: x.dependsOn.map((d) => (d === old ? t.key : d)) };
  });
}

function IssueList({
  errors,
  tasks,
  onChoose,
}: {
  errors: Errors;
  tasks: readonly TaskModel[];
  onChoose: (i: number) => void;
}) {
  const list = [...errors].filter(([p]) => p === "tasks" || p.startsWith("tasks."));
  if (list.length === 0) return null;
  return (
    <ul className="issues" aria-label="To put right">
      {list.map(([path, message]) => {
        const i = Number(path.split(".")[1]);
        return (
          <li key={path}>
            <IconAlertTriangle size={14} aria-hidden />
            {Number.isInteger(i) ? (
              <button type="button" className="issue-link" onClick={() => onChoose(i)}>
                {tasks[i]?.key || `Task ${i + 1}`}: {message}
              </button>
            ) : (
              message
            )}
          </li>
        );
      })}
    </ul>
  );
}
