import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconArrowBarToDown, IconDownload, IconTextWrap } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { failed } from "@/lib/notify";
import { CopyButton } from "@/ui/Copy";
import { ErrorPanel } from "@/ui/States";
import type { Kind, MachineFull } from "./kinds";
import { logText } from "./log";
import { downloadBytes, logBytes, machineLogQuery, readLog } from "./queries";

const pollMs = 5_000;

/** The end of the agent's log, refetched every five seconds and when the state changes. */
export function MachineLog({ kind, machine: m }: { kind: Kind; machine: MachineFull }) {
  const resting = m.state === "STOPPED" || m.state === "FAILED";
  // The last lines before a stop arrive after the state. So a resting machine is still read, less
  // often.
  const q = useQuery({ ...machineLogQuery(kind, m.id), refetchInterval: resting ? 6 * pollMs : pollMs });
  const { refetch } = q;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new state is what asks for it
  useEffect(() => void refetch(), [refetch, m.state]);
  const text = useMemo(() => logText(q.data ?? "", logBytes), [q.data]);
  const [wrap, setWrap] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const [follow, setFollow] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text is what moves the end
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follow, wrap]);
  const download = async () => {
    try {
      save(`${m.name}.log`, logText(await readLog(kind, m.id, downloadBytes), downloadBytes));
    } catch (e) {
      failed("The log was not read", e);
    }
  };
  return (
    <section className="card" aria-label="Log of the machine's agent">
      <div className="section-title machine-log-head">
        <h2>Log of its agent</h2>
        <span className="machine-log-tools">
          <Tooltip label="Wrap long lines">
            <ActionIcon
              variant={wrap ? "light" : "subtle"}
              color={wrap ? undefined : "gray"}
              aria-label="Wrap long lines"
              aria-pressed={wrap}
              onClick={() => setWrap(!wrap)}
            >
              <IconTextWrap size={15} />
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Download the log">
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label="Download the log"
              disabled={!text}
              onClick={() => void download()}
            >
              <IconDownload size={15} />
            </ActionIcon>
          </Tooltip>
          <CopyButton value={text} label="Copy" />
        </span>
      </div>
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="machine-log-frame">
        <div
          ref={box}
          className="machine-log"
          data-wrap={wrap || undefined}
          role="log"
          aria-live="off"
          aria-label="Lines of the log"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
          tabIndex={0}
          onScroll={(e) => {
            const el = e.currentTarget;
            setFollow(el.scrollHeight - el.scrollTop - el.clientHeight < 24);
          }}
        >
          {text || (
            <span className="dim">
              {q.isPending ? "Reading it…" : "The log begins with its first start."}
            </span>
          )}
        </div>
        {!follow && (
          <Button
            size="compact-sm"
            radius="xl"
            className="log-end"
            leftSection={<IconArrowBarToDown size={14} />}
            onClick={() => setFollow(true)}
          >
            Jump to the end
          </Button>
        )}
      </div>
    </section>
  );
}

/** Downloads a text as a file. */
function save(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  URL.revokeObjectURL(url);
}
