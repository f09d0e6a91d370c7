import { Link } from "@tanstack/react-router";
import { type OverviewQuery, RunStatus } from "@/gql/gen";
import { formatCount } from "@/lib/format";
import { type AnyStatus, StatusIcon } from "@/ui/Status";

/** The workspace in numbers; each leads to what it counts. */
export function Figures({ counts: c }: { counts: OverviewQuery["overview"] }) {
  return (
    <section className="card figures" aria-label="In numbers">
      <RunFigure status={RunStatus.Running} label="Running" n={c.runningRuns} />
      <RunFigure status={RunStatus.Pending} label="Pending" n={c.pendingRuns} />
      <RunFigure status={RunStatus.Success} label="Succeeded, 24 h" n={c.succeededRuns} />
      <RunFigure status={RunStatus.Failed} label="Failed, 24 h" n={c.failedRuns} />
      <Link to="/agents" className="figure">
        <Label status={c.connectedAgents > 0 ? "CONNECTED" : "LOST"} text="Agents connected" />
        <span className="figure-value">
          {formatCount(c.connectedAgents)} <small>of {formatCount(c.agents)}</small>
        </span>
      </Link>
    </section>
  );
}

function RunFigure({ status, label, n }: { status: RunStatus; label: string; n: number }) {
  return (
    <Link to="/runs" search={{ status: [status] }} className="figure">
      <Label status={status} text={label} />
      <span className="figure-value">{formatCount(n)}</span>
    </Link>
  );
}

function Label({ status, text }: { status: AnyStatus; text: string }) {
  return (
    <span className="figure-label" data-status={status}>
      <StatusIcon status={status} />
      {text}
    </span>
  );
}
