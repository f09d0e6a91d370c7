import { Button, Group, Text } from "@mantine/core";
import { IconFileText } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { AttemptLogDocument } from "@/gql/gen";
import { plural } from "@/lib/format";
import { gql } from "@/lib/graphql";
import { stripAnsi, visible } from "@/ui/ansi";
import { CopyButton } from "@/ui/Copy";
import { StatusIcon } from "@/ui/Status";
import { toBytes } from "./logSource";
import type { Attempt, RunDetail } from "./queries";
import { defaultTask } from "./selection";

const tailSize = 4096;
const tailLines = 20;

/** The end of an attempt's log, without colours. */
function useTail(a: Attempt | undefined) {
  const size = Number(a?.logSize ?? 0);
  const offset = String(Math.max(0, size - tailSize));
  const q = useQuery({
    ...gql(
      AttemptLogDocument,
      { attempt: a?.id ?? "", offset, maxBytes: tailSize },
      { staleTime: Number.POSITIVE_INFINITY },
    ),
    enabled: size > 0,
  });
  if (!q.data) return "";
  const decoder = new TextDecoder();
  const text = toBytes(q.data.attemptLog)
    .map((c) => decoder.decode(c.bytes, { stream: true }))
    .join("");
  const lines = text.replace(/\n$/, "").split("\n");
  const whole = offset === "0" ? lines : lines.slice(1);
  return whole
    .slice(-tailLines)
    .map((l) => stripAnsi(visible(l.replace(/\r$/, ""))))
    .join("\n");
}

function ended(a: Attempt | undefined): string | null {
  if (!a) return null;
  if (a.signal) return `Ended by ${a.signal}`;
  return a.exitCode === null ? null : `Exit code ${a.exitCode}`;
}

const showEnd = (el: HTMLElement | null) => {
  if (el) el.scrollTop = el.scrollHeight;
};

/** Failure first: what failed, why, and the end of its log. */
export function FailurePanel({
  run,
  onOpen,
}: {
  run: RunDetail;
  onOpen: (task: string, attempt?: number) => void;
}) {
  const task = run.singleCommand ? undefined : defaultTask(run);
  const attempts = run.singleCommand ? run.attempts : (task?.attempts ?? []);
  const attempt = attempts.at(-1);
  const tail = useTail(attempt);
  const others = run.tasks.filter((t) => t.status === "FAILED" && t.key !== task?.key);
  const skipped = run.tasks.filter((t) => t.status === "SKIPPED").length;
  const reason = task?.message ?? attempt?.message ?? run.message;
  const end = ended(attempt);
  const error = [`${run.jobName}${task ? `, task ${task.key}` : ""}: ${reason ?? "failed"}`, end, tail];
  return (
    <section className="card failure" aria-label="What failed">
      <div className="failure-text">
        <h2 data-status="FAILED">
          <StatusIcon status="FAILED" size={17} />
          {task ? `Task ${task.key} failed` : "The command failed"}
        </h2>
        <Text size="sm">{reason}</Text>
        <Text size="xs" c="dimmed">
          {[
            end && !reason?.includes(end.toLowerCase()) ? end : null,
            attempts.length > 1 ? `${plural(attempts.length, "attempt")}` : null,
            skipped ? `${plural(skipped, "task")} skipped because of it` : null,
            attempt?.agent ? `on agent ${attempt.agent.name}` : null,
          ]
            .filter(Boolean)
            .join(" · ")}
        </Text>
        {others.length > 0 && (
          <Text size="sm">
            Also failed:{" "}
            {others.slice(0, 6).map((t) => (
              <Button key={t.key} variant="subtle" size="compact-xs" onClick={() => onOpen(t.key)}>
                {t.key}
              </Button>
            ))}
            {others.length > 6 && ` and ${others.length - 6} more`}
          </Text>
        )}
        <Group gap="xs">
          {task && (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconFileText size={14} />}
              onClick={() => onOpen(task.key, attempt?.number)}
            >
              Open its log
            </Button>
          )}
          <CopyButton value={error.filter(Boolean).join("\n\n")} label="Copy error" />
        </Group>
      </div>
      <section
        key={tail}
        className="failure-tail"
        ref={showEnd}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        tabIndex={0}
        aria-label="Last lines of its log"
      >
        {tail || "It has written nothing."}
      </section>
    </section>
  );
}
