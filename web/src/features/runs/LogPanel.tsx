import { ActionIcon, Button, Code, Group, Popover, SegmentedControl, Select, Text } from "@mantine/core";
import { IconFileText, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { formatBytes } from "@/lib/format";
import { LogViewer } from "@/ui/LogViewer";
import { ComputeLink } from "@/ui/Machine";
import { EmptyState } from "@/ui/States";
import { StatusBadge, StatusIcon } from "@/ui/Status";
import { Duration } from "@/ui/Time";
import type { Attempt, RunDetail, TaskDetail } from "./queries";
import { downloadPath, isOver, type Selection } from "./selection";
import { useAttemptLog } from "./useAttemptLog";

interface Props {
  run: RunDetail;
  selection: Selection;
  line: number | undefined;
  /** The run was over when the page was opened. */
  wasOver: boolean;
  onTask: (key: string) => void;
  onAttempt: (n: number) => void;
  onLine: (n: number) => void;
}

/** The log of one attempt, with selectors for the task and the attempt. */
export function LogPanel(p: Props) {
  const { attempt, task } = p.selection;
  return (
    <section className="card log-card" aria-label="Log of the task">
      {attempt ? (
        <AttemptLogView key={attempt.id} {...p} attempt={attempt} />
      ) : (
        <div>
          <div className="log-bar">
            <Group gap={6} wrap="wrap" className="log-which">
              <Which {...p} />
            </Group>
          </div>
          <EmptyState
            icon={IconFileText}
            title={task ? `${task.key} has not started` : "Nothing has started yet"}
          >
            {task?.message ?? p.run.message ?? "Its log appears here by itself, line by line, once it runs."}
          </EmptyState>
        </div>
      )}
    </section>
  );
}

function AttemptLogView(p: Props & { attempt: Attempt }) {
  const { attempt, run } = p;
  const size = Number(attempt.logSize);
  const log = useAttemptLog(attempt.id, size, p.line);
  const download = downloadPath(run, attempt);
  return (
    <LogViewer
      key={log.store.start}
      store={log.store}
      live={!isOver(attempt)}
      opensAtProblem={p.wasOver && attempt.status === "FAILED"}
      line={p.line}
      onLine={p.onLine}
      download={download}
      notice={notice(log, size, attempt, download)}
      empty={
        isOver(attempt) && log.state === "ended" ? "It has written nothing." : "Waiting for its first line…"
      }
    >
      <Which {...p} />
    </LogViewer>
  );
}

/** Why the whole log is not visible here; null if it is. */
function notice(
  log: ReturnType<typeof useAttemptLog>,
  size: number,
  attempt: Attempt,
  download: string,
): ReactNode {
  const whole = (
    <a href={download} download>
      download the whole log
    </a>
  );
  if (attempt.held) return <>The process is held back: {attempt.held}</>;
  if (log.state === "failed")
    return (
      <Group gap="sm">
        The log could not be read{log.error instanceof Error ? `: ${log.error.message}` : "."}
        <Button size="compact-xs" variant="default" onClick={() => log.begin()}>
          Try again
        </Button>
      </Group>
    );
  if (log.state === "full")
    return (
      <Group gap="sm">
        <span>
          This page holds no more of this log of {formatBytes(size)}: {whole}, or
        </span>
        <Button size="compact-xs" variant="default" onClick={() => log.begin("end")}>
          go to its end
        </Button>
      </Group>
    );
  if (log.store.start > 0)
    return (
      <Group gap="sm">
        <span>
          From {formatBytes(log.store.start)} of {formatBytes(size)} on: {whole}, or
        </span>
        <Button size="compact-xs" variant="default" onClick={() => log.begin("beginning")}>
          read it from the beginning
        </Button>
      </Group>
    );
  return null;
}

function Which({ run, selection, onTask, onAttempt }: Props) {
  const { task, attempts, attempt } = selection;
  return (
    <>
      {!run.singleCommand && task && (
        <Select
          size="xs"
          w={170}
          aria-label="Task"
          data={run.tasks.map((t) => t.key)}
          value={task.key}
          onChange={(v) => v && onTask(v)}
          searchable={run.tasks.length > 12}
          allowDeselect={false}
          leftSection={<StatusIcon status={task.status} />}
          renderOption={({ option }) => {
            const t = run.tasks.find((x) => x.key === option.value);
            return (
              <Group gap={8}>
                {t && <StatusIcon status={t.status} />}
                {option.label}
              </Group>
            );
          }}
          maxDropdownHeight={320}
          limit={200}
        />
      )}
      {attempts.length > 1 && attempts.length <= 6 && (
        <SegmentedControl
          size="xs"
          aria-label="Attempt"
          value={String(attempt?.number)}
          onChange={(v) => onAttempt(Number(v))}
          data={attempts.map((a) => ({
            value: String(a.number),
            label: `Attempt ${a.number}`,
          }))}
        />
      )}
      {attempts.length > 6 && (
        <Select
          size="xs"
          w={130}
          aria-label="Attempt"
          value={String(attempt?.number)}
          onChange={(v) => v && onAttempt(Number(v))}
          data={attempts.map((a) => ({ value: String(a.number), label: `Attempt ${a.number}` }))}
          allowDeselect={false}
        />
      )}
      {attempt && <AttemptFacts attempt={attempt} />}
      {task?.compute && (
        <Text size="xs" component="span" className="nowrap">
          <span className="dim">on </span>
          <ComputeLink compute={task.compute} id={task.computeId} />
        </Text>
      )}
      <Details run={run} task={task} attempt={attempt} />
    </>
  );
}

function AttemptFacts({ attempt: a }: { attempt: Attempt }) {
  return (
    <Group gap={8} wrap="nowrap">
      <StatusBadge status={a.status} />
      <Text size="xs" c="dimmed" component="span">
        <Duration from={a.startedAt} to={a.finishedAt} />
        {a.exitCode !== null && a.exitCode !== 0 && `, exit code ${a.exitCode}`}
        {a.signal && `, ${a.signal}`}
      </Text>
    </Group>
  );
}

/** The task's declaration when the run started. */
function Details({
  run,
  task,
  attempt,
}: {
  run: RunDetail;
  task: TaskDetail | undefined;
  attempt: Attempt | undefined;
}) {
  return (
    <Popover width={440} position="bottom-start" shadow="md" withinPortal trapFocus>
      <Popover.Target>
        <ActionIcon variant="subtle" color="gray" aria-label="About this task">
          <IconInfoCircle size={16} />
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown aria-label="About this task">
        <div className="task-popover">
          <Code block tabIndex={0}>
            {task?.command ?? run.command}
          </Code>
          <dl className="facts">
            {task && task.dependsOn.length > 0 && (
              <>
                <dt>After</dt>
                <dd>{task.dependsOn.join(", ")}</dd>
              </>
            )}
            {task && (
              <>
                <dt>Retries</dt>
                <dd>
                  {task.retryCount} of {task.maxRetries}
                </dd>
                <dt>Time-out</dt>
                <dd>{task.timeoutSeconds ? `${task.timeoutSeconds} s` : "none"}</dd>
              </>
            )}
            {task?.computeId && (
              <>
                <dt>Runs on</dt>
                <dd>
                  <ComputeLink compute={task.compute} id={task.computeId} />
                </dd>
              </>
            )}
            {attempt?.agent && (
              <>
                <dt>Agent</dt>
                <dd>{attempt.agent.name}</dd>
              </>
            )}
            {(attempt?.message ?? task?.message) && (
              <>
                <dt>Message</dt>
                <dd>{attempt?.message ?? task?.message}</dd>
              </>
            )}
            {attempt && (
              <>
                <dt>Log</dt>
                <dd>{formatBytes(Number(attempt.logSize))}</dd>
              </>
            )}
          </dl>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}
