import { Alert } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { MachineState } from "@/gql/gen";
import { plural } from "@/lib/format";
import type { MachineRow } from "@/lib/machine";
import { MachineIcon, machineWord } from "@/ui/Machine";
import { Ago } from "@/ui/Time";

/** The meaning of each state, shown under its name. */
const meanings: Record<MachineState, string> = {
  STOPPED: "costs nothing",
  STARTING: "until its agent is ready",
  RUNNING: "its agent is ready",
  STOPPING: "until nothing is left",
  FAILED: "can be started again",
};

const circle = [MachineState.Stopped, MachineState.Starting, MachineState.Running, MachineState.Stopping];

/** The states of a machine, with the current one marked and its reason. */
export function LifeCycle({ machine: m }: { machine: MachineRow }) {
  return (
    <section className="card" aria-label="Life cycle">
      <div className="section-title">
        <h2>Life cycle</h2>
        <span className="dim since">
          {machineWord(m.state)} since <Ago at={m.stateSince} />
          {m.restarts > 0 && `, made again ${plural(m.restarts, "time")} since its start`}
        </span>
      </div>
      <ol className="cycle" aria-label="States in their order">
        {circle.map((s) => (
          <State key={s} state={s} now={m.state} />
        ))}
        <State state={MachineState.Failed} now={m.state} />
      </ol>
      {m.message && m.state === "FAILED" && (
        <Alert
          m="md"
          mt={0}
          color="red"
          variant="light"
          icon={<IconAlertTriangle size={18} aria-hidden />}
          title="Why it failed"
        >
          {m.message}
        </Alert>
      )}
      {m.message && m.state !== "FAILED" && <p className="cycle-message">{m.message}</p>}
    </section>
  );
}

function State({ state, now }: { state: MachineState; now: MachineState }) {
  const present = state === now;
  return (
    <li
      className="cycle-state machine-state"
      data-status={present ? state : undefined}
      data-state={state}
      aria-current={present ? "step" : undefined}
    >
      <span className="cycle-box">
        <b>
          {present && <MachineIcon state={state} />}
          {machineWord(state)}
        </b>
        <small>{meanings[state]}</small>
      </span>
    </li>
  );
}
