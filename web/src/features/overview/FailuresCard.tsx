import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { RunRowFragment } from "@/gql/gen";
import { StatusIcon } from "@/ui/Status";
import { Ago } from "@/ui/Time";

/** The latest failed runs with their reasons. */
export function FailuresCard({ runs }: { runs: readonly RunRowFragment[] }) {
  return (
    <section className="card" aria-label="Latest failures">
      <div className="section-title">
        <h2>Latest failures</h2>
        {runs.length > 0 && (
          <Link to="/runs" search={{ status: ["FAILED"] }}>
            All failures
          </Link>
        )}
      </div>
      {runs.length === 0 ? (
        <Text size="sm" c="dimmed" px={16} pb={14}>
          No run has failed.
        </Text>
      ) : (
        <ul className="side-list">
          {runs.map((r) => (
            <li key={r.id}>
              <div style={{ minWidth: 0 }}>
                <span className="trigger">
                  <StatusIcon status={r.status} />
                  <Link to="/runs/$runId" params={{ runId: r.id }} className="row-main">
                    {r.jobName}
                  </Link>
                </span>
                <Text size="xs" c="dimmed" truncate>
                  {r.message}
                </Text>
              </div>
              <Text size="xs" c="dimmed" component="span">
                <Ago at={r.finishedAt ?? r.createdAt} />
              </Text>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
