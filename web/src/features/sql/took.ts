import { formatDuration } from "@/lib/format";

/** 12 ms, 0.42 s, 1m 05s. */
export const took = (ms: number) => (ms < 100 ? `${Math.max(0, Math.round(ms))} ms` : formatDuration(ms));
