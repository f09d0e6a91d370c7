import "./log.css";
import { ActionIcon, Button, Group, Text, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedCallback, useLocalStorage } from "@mantine/hooks";
import {
  IconAlertTriangle,
  IconArrowBarToDown,
  IconArrowsMaximize,
  IconArrowsMinimize,
  IconChevronDown,
  IconChevronUp,
  IconClock,
  IconDownload,
  IconSearch,
} from "@tabler/icons-react";
import { type ReactNode, useEffect, useEffectEvent, useRef, useState, useSyncExternalStore } from "react";
import { plural } from "@/lib/format";
import { useShortcuts } from "@/lib/hotkeys";
import { LogRow } from "./LogLines";
import type { LogStore } from "./logStore";
import { useLogScroll } from "./useLogScroll";

/**
 * A log of any length: only the lines in view are in the page. Search, errors, times, follow, and
 * links to lines. Give it a new `key` with another store.
 */
export function LogViewer({
  store,
  live,
  opensAtProblem,
  line,
  onLine,
  download,
  children,
  notice,
  empty,
}: {
  store: LogStore;
  /** More may come. */
  live: boolean;
  /** Begin at the first error, which readers of a failed attempt look for. */
  opensAtProblem?: boolean;
  /** Number of the line that the URL points to. */
  line?: number | undefined;
  onLine: (n: number) => void;
  /** Address of the whole log. */
  download: string;
  /** Left part of the bar: which log this is. */
  children?: ReactNode;
  notice?: ReactNode;
  /** Text while there are no lines. */
  empty: string;
}) {
  const version = useSyncExternalStore(store.subscribe, store.version);
  const [times, setTimes] = useLocalStorage({ key: "millpond-log-times", defaultValue: false });
  const [full, setFull] = useState(false);
  const [needle, setNeedle] = useState("");
  const [hits, setHits] = useState<readonly number[]>([]);
  const [hit, setHit] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const n = store.length;
  const scroll = useLogScroll(n, version, live && line === undefined);

  const target = line === undefined ? undefined : line - store.firstLine;
  const arrived = target !== undefined && target >= 0 && target < n;
  const jump = useEffectEvent((i: number) => scroll.goTo(i));
  useEffect(() => {
    if (arrived && target !== undefined) jump(target);
  }, [arrived, target]);
  const firstProblem = opensAtProblem && line === undefined ? store.problems[0] : undefined;
  useEffect(() => {
    if (firstProblem !== undefined) jump(firstProblem);
  }, [firstProblem]);

  const find = useDebouncedCallback((s: string) => {
    const found = store.search(s);
    setNeedle(s.toLowerCase());
    setHits(found);
    setHit(0);
    if (found[0] !== undefined) scroll.goTo(found[0]);
  }, 120);
  const step = (d: number) => {
    if (!hits.length) return;
    const k = (hit + d + hits.length) % hits.length;
    setHit(k);
    scroll.goTo(hits[k] as number);
  };
  const nextProblem = () => {
    const middle = scroll.first + Math.floor((scroll.last - scroll.first) / 2);
    const next = store.problems.find((i) => i > middle) ?? store.problems[0];
    if (next !== undefined) scroll.goTo(next);
  };
  useShortcuts("Log", [
    { keys: ["l"], label: "Search the log", run: () => field.current?.focus() },
    { keys: ["e"], label: "Next error", run: nextProblem },
    { keys: ["t"], label: "Show or hide times", run: () => setTimes(!times) },
    { keys: ["f"], label: "Log on the full screen, and back", run: () => setFull(!full) },
    { keys: ["G"], label: "Follow the end", run: () => scroll.setFollow(true) },
  ]);

  const rows = [];
  for (let i = scroll.first; i < scroll.last; i++) {
    const l = store.line(i);
    rows.push(
      <LogRow
        key={i}
        number={store.firstLine + i}
        text={l.text}
        stderr={l.stderr}
        at={l.at}
        times={times}
        needle={needle}
        state={target === i ? "target" : hits[hit] === i ? "hit" : undefined}
      />,
    );
  }
  const digits = Math.max(4, String(store.firstLine + n).length);
  return (
    <section
      aria-label="Log"
      className="log"
      data-full={full || undefined}
      onKeyDown={(e) => e.key === "Escape" && full && setFull(false)}
    >
      <div className="log-bar">
        <Group gap={6} wrap="wrap" className="log-which">
          {children}
        </Group>
        <Group gap={4} wrap="nowrap">
          <TextInput
            ref={field}
            size="xs"
            w={150}
            placeholder="Search the log"
            aria-label="Search the log"
            leftSection={<IconSearch size={13} aria-hidden />}
            onChange={(e) => find(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Enter") step(e.shiftKey ? -1 : 1);
              if (e.key === "Escape") e.currentTarget.blur();
            }}
          />
          <Text size="xs" c="dimmed" aria-live="polite" className="log-count">
            {needle ? `${hits.length ? hit + 1 : 0} of ${hits.length}` : plural(n, "line")}
          </Text>
          <Tool label="Previous match (Shift+Enter)" onClick={() => step(-1)} disabled={!hits.length}>
            <IconChevronUp size={15} />
          </Tool>
          <Tool label="Next match (Enter)" onClick={() => step(1)} disabled={!hits.length}>
            <IconChevronDown size={15} />
          </Tool>
          <Tool
            label={`Next of ${plural(store.problems.length, "error line")} (e)`}
            onClick={nextProblem}
            disabled={!store.problems.length}
          >
            <IconAlertTriangle size={15} />
          </Tool>
          <Tool label="Show times (t)" onClick={() => setTimes(!times)} pressed={times}>
            <IconClock size={15} />
          </Tool>
          <Tool
            label="Follow the end (Shift+G)"
            onClick={() => scroll.setFollow(!scroll.follow)}
            pressed={scroll.follow}
          >
            <IconArrowBarToDown size={15} />
          </Tool>
          <Tooltip label="Download the whole log">
            <ActionIcon
              component="a"
              href={download}
              download
              variant="subtle"
              color="gray"
              aria-label="Download the whole log"
            >
              <IconDownload size={15} />
            </ActionIcon>
          </Tooltip>
          <Tool label="Full screen (f)" onClick={() => setFull(!full)} pressed={full}>
            {full ? <IconArrowsMinimize size={15} /> : <IconArrowsMaximize size={15} />}
          </Tool>
        </Group>
      </div>
      {notice && <div className="log-notice">{notice}</div>}
      <div className="log-frame">
        <div
          ref={scroll.box}
          className="log-box"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
          tabIndex={0}
          role="log"
          aria-label="Lines of the log"
          aria-live="off"
          onScroll={scroll.onScroll}
          onWheel={scroll.onWheel}
        >
          {n === 0 && <p className="log-empty">{empty}</p>}
          <div
            className="log-space"
            style={{ height: scroll.pixels, minWidth: `${Math.min(store.widest, 5_000) + digits + 24}ch` }}
          >
            {/* biome-ignore lint/a11y/noStaticElementInteractions: a shortcut for the mouse */}
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: a shortcut for the mouse */}
            <div
              className="log-view"
              style={{ height: Math.min(scroll.height, scroll.pixels), "--log-digits": digits } as object}
              onClick={(e) => {
                const at = (e.target as HTMLElement).dataset.line;
                if (at) onLine(Number(at));
              }}
            >
              <div style={{ transform: `translateY(${scroll.shift}px)` }}>{rows}</div>
            </div>
          </div>
        </div>
        {!scroll.follow && live && n > 0 && (
          <Button
            size="compact-sm"
            radius="xl"
            className="log-end"
            leftSection={<IconArrowBarToDown size={14} />}
            onClick={() => scroll.setFollow(true)}
          >
            Jump to the end
          </Button>
        )}
      </div>
    </section>
  );
}

function Tool({
  label,
  onClick,
  pressed,
  disabled,
  children,
}: {
  label: string;
  onClick: () => void;
  pressed?: boolean;
  disabled?: boolean;
  children: ReactNode;
}) {
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant={pressed ? "light" : "subtle"}
        color={pressed ? undefined : "gray"}
        aria-label={label.replace(/ \([^)]*\)$/, "")}
        aria-pressed={pressed}
        disabled={disabled}
        onClick={onClick}
      >
        {children}
      </ActionIcon>
    </Tooltip>
  );
}
