import { Text } from "@mantine/core";
import { CopyIcon } from "@/ui/Copy";

/** The command that starts an agent of this server. */
export const agentCommand = (token: string) =>
  `MILLPOND_AGENT_TOKEN=${token} millpond agent --server ${location.origin}`;

/** How to start an agent on another machine. */
export function StartByHand() {
  const command = agentCommand("…");
  return (
    <section className="card" aria-label="Start an agent by hand">
      <div className="section-title">
        <h2>Start an agent by hand</h2>
        <CopyIcon value={command} label="Copy the command" />
      </div>
      <div className="card-pad" style={{ paddingTop: 0 }}>
        <Text size="sm" mb={8}>
          The server runs an agent beside itself. To run work elsewhere, put the same binary on a machine that
          can reach this address, rotate the agent's token to see a new one, and start it:
        </Text>
        <pre className="code-block">{command}</pre>
        <Text size="xs" c="dimmed" mt={8}>
          It needs no open port. After a restart of either side it reconnects by itself, and its tasks go on.
        </Text>
      </div>
    </section>
  );
}
