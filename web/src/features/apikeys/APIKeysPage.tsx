import { Button, Modal, Table } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ApiKeyRowFragment, RevokeApiKeyDocument } from "@/gql/gen";
import { useNow } from "@/lib/clock";
import { useTab } from "@/lib/favicon";
import { request } from "@/lib/graphql";
import { useShortcuts } from "@/lib/hotkeys";
import { done, failed } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { confirm } from "@/ui/dialogs";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, TableSkeleton } from "@/ui/States";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { CreateKey } from "./CreateKey";
import { apiKeysQuery } from "./queries";

/** Long-lived credentials for CI and scripts. */
export function APIKeysPage({ create }: { create: boolean }) {
  useTab("API keys");
  const navigate = useNavigate();
  const q = useInfiniteQuery(apiKeysQuery);
  const keys = q.data?.pages.flatMap((p) => p.apiKeys.edges.map((e) => e.node)) ?? [];
  const show = (on: boolean) =>
    void navigate({ to: "/api-keys", search: on ? { create: true } : {}, replace: true });
  useShortcuts("API keys", [{ keys: ["c"], label: "New API key", run: () => show(true) }]);
  const button = (
    <Button leftSection={<IconPlus size={16} />} onClick={() => show(true)}>
      New API key
    </Button>
  );
  return (
    <div className="page">
      <PageHeader
        title="API keys"
        description="For CI and scripts, in REST and GraphQL. A key has the rights of its role. Creating keys, changing a password and renewing a session need a signed-in user."
        actions={button}
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={4} columns={6} />}
        {keys.length > 0 && <KeysTable keys={keys} />}
        {q.isSuccess && keys.length === 0 && (
          <EmptyState icon={IconKey} title="No API keys yet" action={button}>
            A key is a credential with a role and an expiry. Its secret is shown once, when the key is made.
          </EmptyState>
        )}
        <ShowMore of={q}>Show older keys</ShowMore>
      </div>
      <Modal opened={create} onClose={() => show(false)} title="New API key">
        <CreateKey onClose={() => show(false)} />
      </Modal>
    </div>
  );
}

function KeysTable({ keys }: { keys: readonly ApiKeyRowFragment[] }) {
  const qc = useQueryClient();
  const revoke = useMutation({
    mutationFn: (k: ApiKeyRowFragment) => request(RevokeApiKeyDocument, { input: { id: k.id } }),
    onSuccess: ({ revokeApiKey: { apiKey } }) => {
      patchEntity(qc, apiKey);
      done(`${apiKey.name} is refused from now on.`);
    },
    onError: (e) => failed("The key was not revoked", e),
  });
  const ask = (k: ApiKeyRowFragment) =>
    confirm({
      title: `Revoke ${k.name}?`,
      effect:
        "Requests with this key are refused from now on. This cannot be undone; you can make a new key.",
      action: "Revoke the key",
      run: () => revoke.mutate(k),
    });
  return (
    <Table.ScrollContainer minWidth={740}>
      <Table aria-label="API keys" className="rows">
        <TableHead columns={["Name", "Secret", "Role", "Made", "Last used", "Ends", { hidden: "Actions" }]} />
        <Table.Tbody>
          {keys.map((k) => (
            <Table.Tr key={k.id}>
              <Table.Td className="row-main wraps">{k.name}</Table.Td>
              <Table.Td className="mono">{k.hint}…</Table.Td>
              <Table.Td>{k.role.toLowerCase()}</Table.Td>
              <Table.Td>
                <Ago at={k.createdAt} />
                {k.createdBy && <div className="dim">{k.createdBy.name || k.createdBy.email}</div>}
              </Table.Td>
              <Table.Td>
                {k.lastUsedAt ? <Ago at={k.lastUsedAt} /> : <span className="dim">never</span>}
              </Table.Td>
              <Table.Td>
                <Ends apiKey={k} />
              </Table.Td>
              <Table.Td ta="right">
                {!k.revokedAt && (
                  <Button size="xs" variant="default" onClick={() => ask(k)} aria-label={`Revoke ${k.name}`}>
                    Revoke
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Ends({ apiKey: k }: { apiKey: ApiKeyRowFragment }) {
  const now = useNow();
  if (k.revokedAt)
    return (
      <>
        Revoked <Ago at={k.revokedAt} />
      </>
    );
  if (!k.expiresAt) return <span className="dim">never</span>;
  return (
    <>
      {Date.parse(k.expiresAt) < now ? "Ended " : ""}
      <Ago at={k.expiresAt} />
    </>
  );
}
