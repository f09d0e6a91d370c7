import { useEffect, useState } from "react";
import { LogStore } from "@/ui/logStore";
import { type LogState, readLog, startOffset, tailBytes } from "./logSource";

export interface AttemptLog {
  store: LogStore;
  state: LogState;
  error: unknown;
}

/** Where a reader chose to begin, in a log too long to be shown whole. */
type Begin = "beginning" | "end";

/** The log of one attempt, live. Use it in a component whose key is the attempt. */
export function useAttemptLog(attempt: string, size: number, line: number | undefined) {
  const [begin, setBegin] = useState<{ from?: Begin }>({});
  const [log, setLog] = useState<AttemptLog>(() => ({
    store: new LogStore(),
    state: "reading",
    error: null,
  }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: size and line only say where to begin
  useEffect(() => {
    const abort = new AbortController();
    let stop = () => {};
    const open = (offset: number) => {
      if (abort.signal.aborted) return;
      const store = new LogStore(offset);
      stop = readLog(attempt, store, (state, error) => setLog({ store, state, error }));
    };
    const fail = (error: unknown) => {
      if (!abort.signal.aborted) setLog((l) => ({ ...l, state: "failed", error }));
    };
    if (begin.from === "beginning") open(0);
    else if (begin.from === "end") open(Math.max(0, size - tailBytes));
    else startOffset(attempt, size, line, abort.signal).then(open, fail);
    return () => {
      abort.abort();
      stop();
    };
  }, [attempt, begin]);
  return { ...log, begin: (from?: Begin) => setBegin(from ? { from } : {}) };
}
