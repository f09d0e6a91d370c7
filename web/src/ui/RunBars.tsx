import { Tooltip } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { RunBarFragment } from "@/gql/gen";
import { useNow } from "@/lib/clock";
import { formatDuration, formatTime } from "@/lib/format";
import { isActive, statusWord } from "./Status";

const length = (r: RunBarFragment, now: number) =>
  r.startedAt ? (r.finishedAt ? Date.parse(r.finishedAt) : now) - Date.parse(r.startedAt) : 0;

function summary(runs: readonly RunBarFragment[]): string {
  if (runs.length === 0) return "No runs yet";
  const counts = new Map<string, number>();
  for (const r of runs) {
    const word = statusWord(r.status).toLowerCase();
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return `Last ${runs.length} runs: ${[...counts].map(([word, n]) => `${n} ${word}`).join(", ")}`;
}

/**
 * The last runs as bars, oldest first: colour is the status, height the duration. A click opens the
 * run. Bars are too narrow as the only targets, so each run is also a link on the job's page.
 */
export function RunBars({ runs, size }: { runs: readonly RunBarFragment[]; size: number }) {
  const navigate = useNavigate();
  const now = useNow(runs.some((r) => isActive(r.status)));
  const longest = Math.max(1, ...runs.map((r) => length(r, now)));
  return (
    <span className="run-bars" role="img" aria-label={summary(runs)}>
      {Array.from({ length: Math.max(0, size - runs.length) }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have no identity
        <span key={i} className="run-bar run-bar-gap" />
      ))}
      {runs.toReversed().map((r) => {
        const ms = length(r, now);
        return (
          <Tooltip
            key={r.id}
            label={
              <>
                {statusWord(r.status)}
                {r.startedAt ? `, ${formatDuration(ms)}` : ""}
                <br />
                {formatTime(r.createdAt)}
              </>
            }
          >
            {/* biome-ignore lint/a11y/noStaticElementInteractions: a shortcut for the mouse, see above */}
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: a shortcut for the mouse, see above */}
            <span
              className="run-bar"
              data-status={r.status}
              onClick={() => navigate({ to: "/runs/$runId", params: { runId: r.id } })}
            >
              <i style={{ height: `${28 + (72 * ms) / longest}%` }} />
            </span>
          </Tooltip>
        );
      })}
    </span>
  );
}
