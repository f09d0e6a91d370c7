import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { hourlySum, type MachineRow, machinePath, perHour } from "@/lib/machine";
import { AutoStop, MachineBadge } from "@/ui/Machine";

/** Machines that are not at rest, including failed ones, and their cost. */
export function MachinesCard({ machines }: { machines: readonly MachineRow[] }) {
  const shown = machines.filter((m) => m.state !== "STOPPED");
  const up = shown.filter((m) => m.state !== "FAILED");
  return (
    <section className="card" aria-label="Machines">
      <div className="section-title">
        <h2>Machines</h2>
        {up.length > 0 ? (
          <b className="machines-sum">{hourlySum(up)}</b>
        ) : (
          <Link to="/compute">All compute</Link>
        )}
      </div>
      {shown.length === 0 ? (
        <Text size="sm" c="dimmed" px={16} pb={14}>
          No machine runs, so no machine costs anything.
        </Text>
      ) : (
        <ul className="side-list">
          {shown.map((m) => (
            <li key={m.id}>
              <div style={{ minWidth: 0 }}>
                <Link to={machinePath(m)} params={{ machineId: m.id }} className="row-main">
                  {m.name}
                </Link>
                <Text size="xs" c="dimmed">
                  {m.__typename === "Compute" ? "compute" : "warehouse"} · {perHour(m)}
                  {m.state === "RUNNING" && (
                    <>
                      {" "}
                      · <AutoStop machine={m} />
                    </>
                  )}
                </Text>
              </div>
              <MachineBadge state={m.state} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
