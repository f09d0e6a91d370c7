import "./machines.css";
import { Button, Modal, Table, Text, VisuallyHidden } from "@mantine/core";
import { IconCpu, IconDatabase, IconPlayerPlay, IconPlayerStop, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { writesWith } from "@/lib/engine";
import { useTab } from "@/lib/favicon";
import { formatPrice } from "@/lib/format";
import { useShortcuts } from "@/lib/hotkeys";
import { flavorOf, flavorSize, type MachineRow, perHour } from "@/lib/machine";
import { useRole } from "@/lib/session";
import { AutoStop, MachineBadge } from "@/ui/Machine";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, TableSkeleton } from "@/ui/States";
import { ShowMore } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { possible, useMachineActions } from "./actions";
import type { Kind } from "./kinds";
import { CreateMachine } from "./MachineForm";
import { flavorsQuery, machinesQuery } from "./queries";

/** All machines of one kind: state, cost and auto-stop. */
export function MachinesPage({ kind, create }: { kind: Kind; create: boolean }) {
  useTab(kind.title);
  const navigate = useNavigate();
  const q = useInfiniteQuery(machinesQuery(kind));
  const editor = includes(useRole(), Role.Editor);
  const machines = q.data?.pages.flatMap((p) => p.edges.map((e) => e.node)) ?? [];
  const show = (on: boolean) =>
    void navigate({ to: kind.list, search: on ? { create: true } : {}, replace: true });
  useShortcuts(kind.title, editor ? [{ keys: ["c"], label: `New ${kind.noun}`, run: () => show(true) }] : []);
  const button = editor && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => show(true)}>
      New {kind.noun}
    </Button>
  );
  return (
    <div className="page">
      <PageHeader title={kind.title} description={kind.description} actions={button} />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={4} columns={7} />}
        {machines.length > 0 && <MachinesTable kind={kind} machines={machines} />}
        {q.isSuccess && machines.length === 0 && <None kind={kind} editor={editor} button={button} />}
        <ShowMore of={q}>Show more</ShowMore>
      </div>
      <Modal opened={create && editor} onClose={() => show(false)} title={`New ${kind.noun}`}>
        <CreateMachine kind={kind} onClose={() => show(false)} />
      </Modal>
    </div>
  );
}

function None({ kind, editor, button }: { kind: Kind; editor: boolean; button: React.ReactNode }) {
  const how = editor ? "" : " Somebody with the role editor can make one.";
  if (kind.typename === "Compute")
    return (
      <EmptyState icon={IconCpu} title="No compute instances yet" action={button}>
        A compute instance is a machine of your own size that runs tasks of jobs. A job names it; it starts
        when a task waits for it, stops when it has nothing to do, and costs nothing while it is stopped.
        {how}
      </EmptyState>
    );
  return (
    <EmptyState icon={IconDatabase} title="No warehouses yet" action={button}>
      A warehouse is a machine that runs SQL over the tables of the workspace. It stops when it has nothing to
      do, and costs nothing while it is stopped.{how}
    </EmptyState>
  );
}

function MachinesTable({ kind, machines }: { kind: Kind; machines: readonly MachineRow[] }) {
  const editor = includes(useRole(), Role.Editor);
  const flavors = useQuery(flavorsQuery).data?.flavors;
  const actions = useMachineActions();
  return (
    <Table.ScrollContainer minWidth={720} className="machines-scroll">
      <Table aria-label={kind.title} className="rows">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th visibleFrom="sm">{kind.flavorWord}</Table.Th>
            <Table.Th visibleFrom="md">Cost</Table.Th>
            <Table.Th>Auto-stop</Table.Th>
            <Table.Th visibleFrom="md">Last used</Table.Th>
            {editor && (
              <Table.Th>
                <VisuallyHidden>Actions</VisuallyHidden>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {machines.map((m) => {
            const flavor = flavors?.find((f) => f.name === flavorOf(m));
            return (
              <Table.Tr key={m.id} className="row-link">
                <Table.Td className="wraps">
                  <Link to={kind.page} params={{ machineId: m.id }} className="row-main">
                    {m.name}
                  </Link>
                  {m.__typename === "Warehouse" && (
                    <Text size="xs" c="dimmed">
                      {writesWith(m)}
                    </Text>
                  )}
                  {m.state === "FAILED" && m.message && (
                    <Text size="xs" c="dimmed" lineClamp={2} maw={320}>
                      {m.message}
                    </Text>
                  )}
                </Table.Td>
                <Table.Td>
                  <MachineBadge state={m.state} />
                </Table.Td>
                <Table.Td visibleFrom="sm">
                  {flavorOf(m)}
                  {flavor && (
                    <Text size="xs" c="dimmed" className="nowrap">
                      {flavorSize(flavor)}
                    </Text>
                  )}
                </Table.Td>
                <Table.Td className="nowrap" visibleFrom="md">
                  <Cost machine={m} />
                </Table.Td>
                <Table.Td>
                  <AutoStop machine={m} />
                </Table.Td>
                <Table.Td visibleFrom="md">
                  {m.lastUsedAt ? <Ago at={m.lastUsedAt} /> : <span className="dim">never</span>}
                </Table.Td>
                {editor && (
                  <Table.Td ta="right">
                    <StartStop machine={m} actions={actions} size="xs" />
                  </Table.Td>
                )}
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Cost({ machine: m }: { machine: MachineRow }) {
  if (m.pricePerHour === null) return <span className="dim">{perHour(m)}</span>;
  return (
    <>
      {formatPrice(m.pricePerHour, m.currency)}{" "}
      <Text size="xs" c="dimmed">
        per hour
      </Text>
    </>
  );
}

/**
 * The one of Start and Stop that is possible now. A starting machine can be stopped; a stopping
 * machine can only be awaited.
 */
export function StartStop({
  machine: m,
  actions,
  size,
}: {
  machine: MachineRow;
  actions: ReturnType<typeof useMachineActions>;
  size: "xs" | "sm";
}) {
  const can = possible(m);
  const icon = size === "xs" ? 14 : 16;
  const word = can.start
    ? m.state === "FAILED"
      ? "Start again"
      : "Start"
    : m.state === "STOPPING"
      ? "Stopping"
      : "Stop";
  // In a list the name tells the buttons apart.
  const label = size === "xs" ? `${word} ${m.name}` : undefined;
  if (can.start)
    return (
      <Button
        size={size}
        variant={size === "xs" ? "default" : "filled"}
        leftSection={<IconPlayerPlay size={icon} />}
        loading={actions.busy(m)}
        title={`${perHour(m)} while it runs`}
        aria-label={label}
        onClick={() => actions.start(m)}
      >
        {word}
      </Button>
    );
  return (
    <Button
      size={size}
      variant="default"
      leftSection={<IconPlayerStop size={icon} />}
      loading={actions.busy(m)}
      disabled={!can.stop}
      aria-label={label}
      onClick={() => actions.askStop(m)}
    >
      {word}
    </Button>
  );
}
