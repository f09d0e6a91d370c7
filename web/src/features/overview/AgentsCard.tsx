import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { AgentRowFragment } from "@/gql/gen";
import { StatusBadge } from "@/ui/Status";

/** The agents that do the work. */
export function AgentsCard({ agents }: { agents: readonly AgentRowFragment[] }) {
  return (
    <section className="card" aria-label="Agents">
      <div className="section-title">
        <h2>Agents</h2>
        <Link to="/agents">All agents</Link>
      </div>
      <ul className="side-list">
        {agents.map((a) => (
          <li key={a.id}>
            <span className="row-main">{a.name}</span>
            <span className="trigger">
              {a.status === "CONNECTED" && (
                <Text size="xs" c="dimmed" component="span">
                  {a.busy} of {a.slots} slots
                </Text>
              )}
              <StatusBadge status={a.status} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
