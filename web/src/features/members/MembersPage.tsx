import { ActionIcon, Avatar, Badge, Button, Group, Modal, Select, Table, Text, Tooltip } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconLink, IconPlus, IconUserMinus } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import {
  AddMemberDocument,
  type MemberRowFragment,
  RemoveMemberDocument,
  Role,
  UpdateMemberDocument,
} from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { useViewer } from "@/lib/session";
import { Allowed } from "@/ui/Allowed";
import { confirm } from "@/ui/dialogs";
import { PageHeader } from "@/ui/PageHeader";
import { ErrorPanel, TableSkeleton } from "@/ui/States";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { AddMember } from "./AddMember";
import { showInvitation } from "./invite";
import { membersQuery } from "./queries";
import { roleOptions } from "./roles";

/** The members of the workspace and their roles. */
export function MembersPage() {
  useTab("Members");
  const q = useInfiniteQuery(membersQuery);
  const [adding, dialog] = useDisclosure();
  const members = q.data?.pages.flatMap((p) => p.members.edges.map((e) => e.node)) ?? [];
  return (
    <div className="page page-narrow">
      <PageHeader
        title="Members"
        description="A viewer reads; an editor creates, runs and changes; an admin also manages members, keys and quotas. Invited people join by opening their link."
        actions={
          <Allowed role={Role.Admin}>
            {(disabled) => (
              <Button leftSection={<IconPlus size={16} />} disabled={disabled} onClick={dialog.open}>
                Add a member
              </Button>
            )}
          </Allowed>
        }
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={4} columns={4} />}
        {members.length > 0 && <MembersTable members={members} />}
        <ShowMore of={q}>Show more members</ShowMore>
      </div>
      <Modal opened={adding} onClose={dialog.close} title="Add a member">
        <AddMember onClose={dialog.close} />
      </Modal>
    </div>
  );
}

function MembersTable({ members }: { members: readonly MemberRowFragment[] }) {
  const qc = useQueryClient();
  const viewer = useViewer();
  const admin = includes(viewer?.role, Role.Admin);
  const update = useMutation({
    mutationFn: (v: { id: string; role: Role }) => request(UpdateMemberDocument, { input: v }),
    onMutate: (v) => patchEntity(qc, { __typename: "Member", ...v }),
    onSuccess: ({ updateMember: { member } }) => {
      patchEntity(qc, member);
      done(`${member.user.name || member.user.email} is ${member.role.toLowerCase()} now.`);
    },
    onError: (e) => {
      failed("The role was not changed", e);
      void qc.invalidateQueries({ queryKey: membersQuery.queryKey });
    },
  });
  const remove = useMutation({
    mutationFn: (m: MemberRowFragment) => request(RemoveMemberDocument, { input: { id: m.id } }),
    onSuccess: (_, m) => {
      void qc.invalidateQueries({ queryKey: membersQuery.queryKey });
      done(`${m.user.name || m.user.email} is no longer ${m.acceptedAt ? "a member" : "invited"}.`);
    },
    onError: (e) => failed("The member was not removed", e),
  });
  const link = useMutation({
    mutationFn: (m: MemberRowFragment) =>
      request(AddMemberDocument, { input: { email: m.user.email, role: m.role } }),
    onSuccess: ({ addMember: { setUpUrl } }, m) => {
      if (setUpUrl) showInvitation(m.user.name || m.user.email, setUpUrl);
    },
    onError: (e) => {
      failed("The new link was not made", e);
      void qc.invalidateQueries({ queryKey: membersQuery.queryKey });
    },
  });
  const ask = (m: MemberRowFragment) =>
    confirm({
      title: `Remove ${m.user.name || m.user.email}?`,
      effect: m.acceptedAt
        ? "They lose access to this workspace at once. Everything they created stays."
        : "The link that they were sent no longer works.",
      action: "Remove the member",
      run: () => remove.mutate(m),
    });
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table aria-label="Members" className="rows">
        <TableHead columns={["Member", "Role", "Since", { hidden: "Actions" }]} />
        <Table.Tbody>
          {members.map((m) => {
            const name = m.user.name || m.user.email;
            const self = m.user.id === viewer?.user?.id;
            return (
              <Table.Tr key={m.id}>
                <Table.Td>
                  <Group gap="sm" wrap="nowrap">
                    <Avatar name={name} size={30} radius="xl" color="pond" variant="filled" alt="" />
                    <div>
                      <span className="row-main">{name}</span>{" "}
                      {self && (
                        <Badge size="xs" variant="light" tt="none">
                          you
                        </Badge>
                      )}
                      {!m.acceptedAt && (
                        <Badge size="xs" variant="light" tt="none">
                          invited
                        </Badge>
                      )}
                      <Text size="xs" c="dimmed">
                        {m.user.email}
                      </Text>
                    </div>
                  </Group>
                </Table.Td>
                <Table.Td>
                  {admin ? (
                    <Select
                      size="xs"
                      w={120}
                      aria-label={`Role of ${name}`}
                      data={roleOptions}
                      value={m.role}
                      allowDeselect={false}
                      onChange={(v) => v && v !== m.role && update.mutate({ id: m.id, role: v as Role })}
                    />
                  ) : (
                    m.role.toLowerCase()
                  )}
                </Table.Td>
                <Table.Td>
                  <Ago at={m.acceptedAt ?? m.createdAt} />
                </Table.Td>
                <Table.Td ta="right">
                  {admin && !m.acceptedAt && (
                    <Tooltip label="Make another link; the previous one no longer works">
                      <ActionIcon
                        variant="subtle"
                        color="gray"
                        aria-label={`Make another link for ${name}`}
                        onClick={() => link.mutate(m)}
                      >
                        <IconLink size={17} />
                      </ActionIcon>
                    </Tooltip>
                  )}
                  {admin && !self && (
                    <Tooltip label={`Remove ${name}`}>
                      <ActionIcon
                        variant="subtle"
                        color="gray"
                        aria-label={`Remove ${name}`}
                        onClick={() => ask(m)}
                      >
                        <IconUserMinus size={17} />
                      </ActionIcon>
                    </Tooltip>
                  )}
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
