import "./machine.css";
import {
  IconCircleCheck,
  IconCircleX,
  IconCpu,
  IconLoader2,
  IconPlayerStop,
  type TablerIcon,
} from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ComputeLinkFragment, MachineState } from "@/gql/gen";
import { useNow } from "@/lib/clock";
import { autoStopText, type MachineRow } from "@/lib/machine";

const looks: Record<MachineState, { word: string; icon: TablerIcon }> = {
  STOPPED: { word: "Stopped", icon: IconPlayerStop },
  STARTING: { word: "Starting", icon: IconLoader2 },
  RUNNING: { word: "Running", icon: IconCircleCheck },
  STOPPING: { word: "Stopping", icon: IconLoader2 },
  FAILED: { word: "Failed", icon: IconCircleX },
};

export const machineWord = (s: MachineState) => looks[s].word;

/** Whether a machine is changing its state. */
export const isMoving = (s: MachineState) => s === "STARTING" || s === "STOPPING";

export function MachineIcon({ state, size = 14 }: { state: MachineState; size?: number }) {
  const Icon = looks[state].icon;
  return (
    <Icon
      size={size}
      stroke={2}
      aria-hidden
      className="status-icon"
      data-turns={isMoving(state) || undefined}
    />
  );
}

/** A machine's state by icon, word and colour. */
export function MachineBadge({ state }: { state: MachineState }) {
  return (
    <span className="status machine-state" data-status={state}>
      <MachineIcon state={state} />
      {looks[state].word}
    </span>
  );
}

/** When the machine stops by itself: ticks while it is idle. */
export function AutoStop({ machine }: { machine: Pick<MachineRow, "state" | "autoStop" | "autoStopAt"> }) {
  const now = useNow(machine.state === "RUNNING" && machine.autoStopAt !== null);
  const { text, counting } = autoStopText(machine, now);
  return (
    <span className="countdown dim" data-counting={counting || undefined}>
      {text}
    </span>
  );
}

/**
 * A compute instance by its name, as a link, with its state on hover. A deleted one is labelled so.
 */
export function ComputeLink({ compute, id }: { compute: ComputeLinkFragment | null; id: string | null }) {
  if (!compute) return id ? <span className="dim">a compute instance that was deleted</span> : null;
  return (
    <Link
      to="/compute/$machineId"
      params={{ machineId: compute.id }}
      className="compute-link"
      title={`Compute instance, ${looks[compute.state].word.toLowerCase()}`}
    >
      <IconCpu size={14} stroke={1.6} aria-hidden />
      {compute.name}
    </Link>
  );
}
