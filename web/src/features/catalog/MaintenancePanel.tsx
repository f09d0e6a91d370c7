import "./maintenance.css";
import { Button, Modal } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconCircleCheck, IconPencil, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { Role } from "@/gql/gen";
import { Allowed } from "@/ui/Allowed";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { Ago, When } from "@/ui/Time";
import { EditMaintenance } from "./EditMaintenance";
import { MaintenancePolicy } from "./MaintenancePolicy";
import { MaintenanceRuns } from "./MaintenanceRuns";
import type { Subject } from "./maintenance";
import { type Maintenance, ownFields, toPolicy, valuesOf } from "./policy";
import { useMaintenance, useRunNow, useSetPolicy } from "./useMaintenance";

/** The maintenance of a subject's tables: policy, next time and runs. */
export function MaintenancePanel({ subject }: { subject: Subject }) {
  const q = useMaintenance(subject);
  if (q.error)
    return (
      <div className="card-pad">
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      </div>
    );
  if (q.isPending) return <PanelSkeleton height={320} />;
  return (
    <>
      {q.data ? (
        <>
          <Head subject={subject} maintenance={q.data} />
          <MaintenancePolicy maintenance={q.data} />
        </>
      ) : (
        <p className="card-pad dim maintenance-none">Dropped tables are not maintained.</p>
      )}
      <div className="section-title maintenance-title">
        <h2>What was done</h2>
        <span className="dim maintenance-small">Kept for 90 days</span>
      </div>
      <MaintenanceRuns subject={subject} />
    </>
  );
}

function Head({ subject: s, maintenance: m }: { subject: Subject; maintenance: Maintenance }) {
  const [editing, dialog] = useDisclosure();
  const set = useSetPolicy(s);
  const run = useRunNow(s);
  const on = m.effective.enabled;
  const role = s.level === "workspace" ? Role.Admin : Role.Editor;
  const turn = () =>
    set.mutate(toPolicy({ ...valuesOf(m), enabled: !on }, new Set([...ownFields(m), "enabled" as const])));
  return (
    <div className="maintenance-head">
      <div className="maintenance-now">
        <span className="status" data-status={on ? "SUCCESS" : "CANCELLED"}>
          {on ? <IconCircleCheck size={15} aria-hidden /> : <IconPlayerPause size={15} aria-hidden />}
          {on ? "On" : "Off"}
        </span>
        <span>
          {on && m.nextAt ? (
            <>
              Looked at next <Ago at={m.nextAt} />, <When at={m.nextAt} />.
            </>
          ) : (
            "Nothing is done by itself until it is turned on."
          )}
        </span>
      </div>
      <div className="maintenance-buttons">
        {s.level !== "workspace" && (
          <Allowed role={Role.Editor}>
            {(disabled) => (
              <Button
                size="xs"
                leftSection={<IconPlayerPlay size={15} />}
                disabled={disabled}
                loading={run.isPending}
                onClick={() => run.mutate()}
              >
                Run now
              </Button>
            )}
          </Allowed>
        )}
        <Allowed role={role}>
          {(disabled) => (
            <Button size="xs" variant="default" disabled={disabled} loading={set.isPending} onClick={turn}>
              {on ? "Turn off" : "Turn on"}
            </Button>
          )}
        </Allowed>
        <Allowed role={role}>
          {(disabled) => (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconPencil size={15} />}
              disabled={disabled}
              onClick={dialog.open}
            >
              Edit the policy
            </Button>
          )}
        </Allowed>
      </div>
      {set.error && !editing && <ErrorPanel error={set.error} />}
      <Modal opened={editing} onClose={dialog.close} title={`Maintenance of ${s.name}`} size="lg">
        <EditMaintenance subject={s} maintenance={m} onClose={dialog.close} />
      </Modal>
    </div>
  );
}
