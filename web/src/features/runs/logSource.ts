import { AttemptLogDocument, LogStream, RunLogsDocument, type RunLogsSubscription } from "@/gql/gen";
import { request } from "@/lib/graphql";
import { subscribe } from "@/lib/socket";
import { fromBase64, type LogBytes, type LogStore } from "@/ui/logStore";

type Page = RunLogsSubscription["runLogs"];

/** Bytes of one log that a page holds. The end and the download give access to the rest. */
export const pageBytes = 192 * 1024 * 1024;
/** Bytes that are read from the end of a longer log. */
export const tailBytes = 16 * 1024 * 1024;

export const toBytes = (p: Page): LogBytes[] =>
  p.chunks.map((c) => ({
    offset: Number(c.offset),
    stderr: c.stream === LogStream.Stderr,
    firstLine: Number(c.firstLine),
    at: Date.parse(c.emittedAt),
    bytes: fromBase64(c.data),
  }));

export type LogState = "reading" | "ended" | "full" | "failed";

/**
 * Reads an attempt's log from the store's next offset on, and as it grows. After a broken
 * connection or a missing chunk it continues from that offset: nothing is lost or doubled. Returns
 * the function that stops it.
 */
export function readLog(attempt: string, store: LogStore, report: (s: LogState, error?: unknown) => void) {
  let eof = false;
  let stop = () => {};
  let stopped = false;
  const take = (p: Page) => {
    if (!store.push(toBytes(p))) return restart();
    if (p.eof) {
      eof = true;
      store.finish();
      return end("ended");
    }
    if (store.next - store.start > pageBytes) end("full");
  };
  const end = (s: LogState, error?: unknown) => {
    report(s, error);
    stopped = true;
    stop();
  };
  const start = () => {
    stop = subscribe(
      RunLogsDocument,
      () => ({ attempt, offset: String(store.next) }),
      { next: (d) => !stopped && take(d.runLogs), error: (e) => end("failed", e) },
      () => eof,
    );
  };
  const restart = () => {
    stop();
    start();
  };
  report("reading");
  start();
  return () => {
    stopped = true;
    stop();
  };
}

/** Number of the line at an offset, or undefined past the end. */
async function lineAt(attempt: string, offset: number, signal: AbortSignal): Promise<number | undefined> {
  const vars = { attempt, offset: String(offset), maxBytes: 1 };
  const { attemptLog } = await request(AttemptLogDocument, vars, signal);
  const c = attemptLog.chunks[0];
  return c && Number(c.firstLine);
}

/**
 * An offset shortly before a line, found by bisection. In a log that is too long to read from its
 * beginning, it takes about twenty small requests.
 */
export async function offsetOfLine(
  attempt: string,
  line: number,
  size: number,
  signal: AbortSignal,
): Promise<number> {
  const window = 256 * 1024;
  let low = 0;
  let high = size;
  while (high - low > window) {
    const middle = Math.floor((low + high) / 2);
    const at = await lineAt(attempt, middle, signal);
    if (at === undefined || at >= line) high = middle;
    else low = middle;
  }
  return Math.max(0, low - window);
}

/** Where to begin reading: at the beginning, unless the log is longer than a page keeps. */
export async function startOffset(
  attempt: string,
  size: number,
  line: number | undefined,
  signal: AbortSignal,
): Promise<number> {
  if (size <= pageBytes / 2) return 0;
  if (line !== undefined) return offsetOfLine(attempt, line, size, signal);
  return size - tailBytes;
}
