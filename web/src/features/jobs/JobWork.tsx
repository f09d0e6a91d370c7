import { ActionIcon, Text } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { lazy, Suspense, useMemo, useState } from "react";
import type { JobFullFragment } from "@/gql/gen";
import { plural } from "@/lib/format";
import { ComputeLink } from "@/ui/Machine";

const Dag = lazy(() => import("@/ui/Dag").then((m) => ({ default: m.Dag })));

/** The work of a job: its command, or its tasks as a graph. */
export function JobWork({ job }: { job: JobFullFragment }) {
  const [selected, setSelected] = useState<number>();
  const list = job.tasks;
  const tasks = useMemo(
    () =>
      list?.map((t) => ({
        key: t.key,
        dependsOn: t.dependsOn,
        detail:
          [
            t.compute && `on ${t.compute.name}`,
            t.maxRetries && `up to ${plural(t.maxRetries, "retry", "retries")}`,
          ]
            .filter(Boolean)
            .join(", ") || undefined,
      })) ?? [],
    [list],
  );
  const task = selected === undefined ? undefined : list?.[selected];
  if (!list?.length)
    return (
      <section className="card" aria-label="Command">
        <div className="section-title">
          <h2>Command</h2>
        </div>
        <div className="card-pad" style={{ paddingTop: 0 }}>
          {job.command ? (
            <pre className="code-block">{job.command}</pre>
          ) : (
            <Text size="sm" c="dimmed">
              This job has neither a command nor tasks, so it cannot run. Edit it to say what to run.
            </Text>
          )}
        </div>
      </section>
    );
  return (
    <section className="card" aria-label="Tasks">
      <div className="section-title">
        <h2>{plural(list.length, "task")}</h2>
      </div>
      <div style={{ height: Math.min(420, 170 + list.length * 14) }}>
        <Suspense>
          <Dag tasks={tasks} selected={selected} onSelect={setSelected} label="Graph of the tasks" />
        </Suspense>
      </div>
      {task && (
        <div className="task-detail">
          <div className="task-detail-head">
            <b>{task.key}</b>
            <Text size="xs" c="dimmed">
              {task.dependsOn.length ? `After ${task.dependsOn.join(", ")}` : "Starts at once"}
              {` · ${plural(task.maxRetries, "retry", "retries")}`}
              {task.timeoutSeconds ? ` · time-out ${task.timeoutSeconds} s` : ""}
              {task.computeId && (
                <>
                  {" · on "}
                  <ComputeLink compute={task.compute} id={task.computeId} />
                </>
              )}
            </Text>
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              ml="auto"
              aria-label="Close"
              onClick={() => setSelected(undefined)}
            >
              <IconX size={15} />
            </ActionIcon>
          </div>
          <pre className="code-block">{task.command}</pre>
        </div>
      )}
    </section>
  );
}
