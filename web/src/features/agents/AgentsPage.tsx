import { Button, Progress, Table, Text } from "@mantine/core";
import { IconRefresh, IconServer2 } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { type AgentRowFragment, Role, RotateAgentTokenDocument } from "@/gql/gen";
import { useTab } from "@/lib/favicon";
import { request } from "@/lib/graphql";
import { failed } from "@/lib/notify";
import { Allowed } from "@/ui/Allowed";
import { CopyId } from "@/ui/Copy";
import { confirm, showSecret } from "@/ui/dialogs";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, TableSkeleton } from "@/ui/States";
import { StatusBadge } from "@/ui/Status";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { agentsQuery } from "./queries";
import { agentCommand, StartByHand } from "./StartByHand";

/** The agents of the workspace and their load. */
export function AgentsPage() {
  useTab("Agents");
  const q = useInfiniteQuery(agentsQuery);
  const agents = q.data?.pages.flatMap((p) => p.agents.edges.map((e) => e.node)) ?? [];
  return (
    <div className="page">
      <PageHeader
        title="Agents"
        description="Agents run tasks in your own cloud. Each keeps one outbound connection to this server; nothing connects to them."
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={3} columns={6} />}
        {agents.length > 0 && <AgentsTable agents={agents} />}
        {q.isSuccess && agents.length === 0 && (
          <EmptyState icon={IconServer2} title="No agents">
            Without an agent nothing runs. At its start the server creates one for each workspace.
          </EmptyState>
        )}
        <ShowMore of={q}>Show more agents</ShowMore>
      </div>
      <StartByHand />
    </div>
  );
}

function AgentsTable({ agents }: { agents: readonly AgentRowFragment[] }) {
  const rotate = useMutation({
    mutationFn: (a: AgentRowFragment) => request(RotateAgentTokenDocument, { input: { id: a.id } }),
    onSuccess: ({ rotateAgentToken: { agent, token } }) =>
      showSecret({
        title: `New token of ${agent.name}`,
        secret: token,
        note: "The old token is invalid, and its connection is closed. Start the agent again with this one.",
        use: <pre className="code-block">{agentCommand(token)}</pre>,
      }),
    onError: (e) => failed("The token was not rotated", e),
  });
  const ask = (a: AgentRowFragment) =>
    confirm({
      title: `Rotate the token of ${a.name}?`,
      effect: `The agent is disconnected at once. Start it again with the new token. ${
        a.busy ? `Its running tasks (${a.busy}) go on until its lease ends.` : ""
      }`,
      action: "Rotate the token",
      cancel: "Not now",
      run: () => rotate.mutate(a),
    });
  return (
    <Table.ScrollContainer minWidth={700}>
      <Table aria-label="Agents" className="rows">
        <TableHead
          columns={["Agent", "Status", "Slots in use", "Machine", "Last seen", { hidden: "Actions" }]}
        />
        <Table.Tbody>
          {agents.map((a) => (
            <Table.Tr key={a.id}>
              <Table.Td>
                <span className="row-main">{a.name}</span>
                <div>
                  <CopyId id={a.id} short />
                </div>
              </Table.Td>
              <Table.Td>
                <StatusBadge status={a.status} />
              </Table.Td>
              <Table.Td miw={130}>
                <Text size="sm">
                  {a.busy} of {a.slots}
                </Text>
                <Progress
                  value={a.slots ? (a.busy / a.slots) * 100 : 0}
                  size={4}
                  mt={3}
                  aria-label={`${a.busy} of ${a.slots} slots in use`}
                />
              </Table.Td>
              <Table.Td className="wraps">
                {a.hostname ?? <span className="dim">–</span>}
                <Text size="xs" c="dimmed">
                  {[a.os && `${a.os}/${a.arch}`, a.version && `Millpond ${a.version}`]
                    .filter(Boolean)
                    .join(", ")}
                </Text>
              </Table.Td>
              <Table.Td>
                {a.lastSeenAt ? <Ago at={a.lastSeenAt} /> : <span className="dim">never</span>}
              </Table.Td>
              <Table.Td ta="right">
                <Allowed role={Role.Admin}>
                  {(disabled) => (
                    <Button
                      size="xs"
                      variant="default"
                      leftSection={<IconRefresh size={14} />}
                      disabled={disabled}
                      onClick={() => ask(a)}
                    >
                      Rotate token
                    </Button>
                  )}
                </Allowed>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
