import "./machines.css";
import { Button, Menu, Modal } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconDotsVertical, IconPencil, IconTrash } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { type FaviconState, useTab } from "@/lib/favicon";
import { flavorOf, perHour } from "@/lib/machine";
import { useRole } from "@/lib/session";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { LostPage } from "@/ui/Fallbacks";
import { AutoStop, MachineBadge, machineWord } from "@/ui/Machine";
import { PageHeader } from "@/ui/PageHeader";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { possible, useMachineActions } from "./actions";
import { EnginesCard } from "./EnginesCard";
import type { Kind, MachineFull } from "./kinds";
import { LifeCycle } from "./LifeCycle";
import { MachineFacts } from "./MachineFacts";
import { EditMachine } from "./MachineForm";
import { MachineLog } from "./MachineLog";
import { MachineMetrics } from "./MachineMetrics";
import { StartStop } from "./MachinesPage";
import { machineQuery } from "./queries";

const icons: Record<MachineFull["state"], FaviconState> = {
  STOPPED: "",
  STARTING: "-running",
  RUNNING: "-success",
  STOPPING: "-running",
  FAILED: "-failed",
};

/** One machine: its state and the reason, its use, and its agent's log. */
export function MachinePage({ kind, id }: { kind: Kind; id: string }) {
  const q = useQuery(machineQuery(kind, id));
  const machine = q.data?.machine;
  useTab(
    machine ? `${machineWord(machine.state)}: ${machine.name}` : kind.title,
    machine ? icons[machine.state] : "",
  );
  useRefetchOn(kind, id, machine?.state);
  if (machine === null) return <LostPage what={kind.noun} />;
  if (machine) return <Loaded kind={kind} machine={machine} />;
  return (
    <div className="page">
      {q.error ? (
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      ) : (
        <>
          <PanelSkeleton height={52} />
          <PanelSkeleton height={120} />
          <PanelSkeleton height={320} />
        </>
      )}
    </div>
  );
}

/**
 * Pushed events have the state and the engines. The agent and the pinned image change with them and
 * are refetched.
 */
function useRefetchOn(kind: Kind, id: string, state: string | undefined) {
  const qc = useQueryClient();
  useEffect(() => {
    if (state) void qc.invalidateQueries({ queryKey: machineQuery(kind, id).queryKey });
  }, [qc, kind, id, state]);
}

function Loaded({ kind, machine: m }: { kind: Kind; machine: MachineFull }) {
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="list" to={kind.list}>
            {kind.title}
          </Link>,
        ]}
        title={m.name}
        meta={
          <>
            <MachineBadge state={m.state} />
            <CopyId id={m.id} short />
          </>
        }
        description={
          <>
            {flavorOf(m)} · {perHour(m)} while it runs · <AutoStop machine={m} />
          </>
        }
        actions={<Actions kind={kind} machine={m} />}
      />
      <LifeCycle machine={m} />
      {m.__typename === "Warehouse" && <EnginesCard warehouse={m} />}
      <div className="two">
        <div className="stack">
          <MachineMetrics id={m.id} state={m.state} />
          <MachineLog kind={kind} machine={m} />
        </div>
        <MachineFacts machine={m} />
      </div>
    </div>
  );
}

function Actions({ kind, machine: m }: { kind: Kind; machine: MachineFull }) {
  const [editing, dialog] = useDisclosure();
  const actions = useMachineActions();
  const editor = includes(useRole(), Role.Editor);
  return (
    <>
      {editor && (
        <>
          <StartStop machine={m} actions={actions} size="sm" />
          <Button variant="default" leftSection={<IconPencil size={16} />} onClick={dialog.open}>
            Edit
          </Button>
        </>
      )}
      <CopyMenu doc={kind.documents.detail} variables={{ id: m.id }} rest={`${kind.rest}/${m.id}`} />
      {editor && (
        <Menu>
          <Menu.Target>
            <Button variant="default" px={8} aria-label="More">
              <IconDotsVertical size={16} />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item
              color="red"
              leftSection={<IconTrash size={15} />}
              disabled={!possible(m).delete}
              onClick={() => actions.askDelete(m)}
            >
              {possible(m).delete ? `Delete the ${kind.noun}` : "Stop it before it can be deleted"}
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <Modal opened={editing} onClose={dialog.close} title={`Edit ${m.name}`}>
        <EditMachine kind={kind} machine={m} onClose={dialog.close} />
      </Modal>
    </>
  );
}
