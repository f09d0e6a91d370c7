import { Tooltip } from "@mantine/core";
import { useNow } from "@/lib/clock";
import { formatAgo, formatDuration, formatTime, formatUtc } from "@/lib/format";

/** How long ago, or until; the exact instant here and in UTC on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <Tooltip
      label={
        <>
          {formatTime(at)}
          <br />
          {formatUtc(at)}
        </>
      }
    >
      <time dateTime={at} className="nowrap">
        {formatAgo(at, now)}
      </time>
    </Tooltip>
  );
}

/** An instant in the reader's time zone; UTC on hover. */
export function When({ at }: { at: string }) {
  return (
    <Tooltip label={formatUtc(at)}>
      <time dateTime={at} className="nowrap">
        {formatTime(at)}
      </time>
    </Tooltip>
  );
}

/** A duration; it ticks until it ends. */
export function Duration({ from, to }: { from: string | null; to: string | null }) {
  const now = useNow(from !== null && to === null);
  if (!from) return <span className="dim">–</span>;
  return <span className="nowrap">{formatDuration((to ? Date.parse(to) : now) - Date.parse(from))}</span>;
}
