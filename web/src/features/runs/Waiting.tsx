import { ComputeLink } from "@/ui/Machine";
import { StatusIcon } from "@/ui/Status";
import type { TaskDetail } from "./queries";

/** Why ready tasks wait: one line per reason, with its compute instance. */
export function Waiting({ tasks }: { tasks: readonly TaskDetail[] }) {
  const reasons = new Map<string, TaskDetail[]>();
  for (const t of tasks)
    if (t.status === "QUEUED" && t.message) reasons.set(t.message, [...(reasons.get(t.message) ?? []), t]);
  if (reasons.size === 0) return null;
  return (
    <ul className="tasks-wait" aria-label="What tasks wait for">
      {[...reasons].map(([message, list]) => (
        <li key={message} data-status="QUEUED">
          <StatusIcon status="QUEUED" />
          <span>
            <b>{named(list)}</b>: {message}
          </span>
          {list[0]?.compute && <ComputeLink compute={list[0].compute} id={list[0].computeId} />}
        </li>
      ))}
    </ul>
  );
}

/** "a, b, c and 4 more". */
function named(tasks: readonly TaskDetail[]): string {
  const keys = tasks.slice(0, 3).map((t) => t.key);
  return tasks.length > 3 ? `${keys.join(", ")} and ${tasks.length - 3} more` : keys.join(", ");
}
