import {
  IconAlertTriangle,
  IconBan,
  IconCircleCheck,
  IconCircleDashed,
  IconCircleX,
  IconClock,
  IconLoader2,
  IconPlayerSkipForward,
  IconPlugConnected,
  IconPlugConnectedX,
  IconStack2,
  type TablerIcon,
} from "@tabler/icons-react";
import type {
  AgentStatus,
  AttemptStatus,
  RunStatus,
  StatementState,
  TaskStatus,
  TrackingRunState,
} from "@/gql/gen";

export type AnyStatus =
  | RunStatus
  | TaskStatus
  | AttemptStatus
  | AgentStatus
  | StatementState
  | TrackingRunState;

const looks: Record<AnyStatus, { word: string; icon: TablerIcon }> = {
  PENDING: { word: "Pending", icon: IconClock },
  SCHEDULED: { word: "Scheduled", icon: IconClock },
  QUEUED: { word: "Queued", icon: IconStack2 },
  STARTING: { word: "Starting", icon: IconLoader2 },
  RUNNING: { word: "Running", icon: IconLoader2 },
  SUCCESS: { word: "Succeeded", icon: IconCircleCheck },
  SUCCEEDED: { word: "Succeeded", icon: IconCircleCheck },
  FINISHED: { word: "Finished", icon: IconCircleCheck },
  FAILED: { word: "Failed", icon: IconCircleX },
  CANCELLED: { word: "Cancelled", icon: IconBan },
  KILLED: { word: "Killed", icon: IconBan },
  SKIPPED: { word: "Skipped", icon: IconPlayerSkipForward },
  LOST: { word: "Lost", icon: IconAlertTriangle },
  NEW: { word: "Never connected", icon: IconCircleDashed },
  CONNECTED: { word: "Connected", icon: IconPlugConnected },
  DISCONNECTED: { word: "Disconnected", icon: IconPlugConnectedX },
};

export const statusWord = (s: AnyStatus) => looks[s].word;

const turns = (s: AnyStatus) => s === "RUNNING" || s === "STARTING";

export function StatusIcon({ status, size = 14 }: { status: AnyStatus; size?: number }) {
  const Icon = looks[status].icon;
  return (
    <Icon
      size={size}
      stroke={2}
      aria-hidden
      className="status-icon"
      data-status={status}
      data-turns={turns(status) || undefined}
    />
  );
}

/** A status by icon, word and colour. `word` says it more exactly, such as "Cancelling". */
export function StatusBadge({ status, word }: { status: AnyStatus; word?: string | undefined }) {
  return (
    <span className="status" data-status={status}>
      <StatusIcon status={status} />
      {word ?? looks[status].word}
    </span>
  );
}

/** Says "Cancelling" from the request to the run's end. */
export const runWord = (r: { status: RunStatus; cancelRequestedAt: string | null }) =>
  r.cancelRequestedAt && (r.status === "RUNNING" || r.status === "PENDING") ? "Cancelling" : undefined;

/** Whether a run can still change by itself. */
export const isActive = (s: RunStatus) => s === "PENDING" || s === "RUNNING";
