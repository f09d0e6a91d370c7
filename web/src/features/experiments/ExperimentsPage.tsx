import "./experiments.css";
import { ActionIcon, Button, Menu, Modal, SegmentedControl, Table, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { modals } from "@mantine/modals";
import {
  IconArrowBackUp,
  IconDotsVertical,
  IconFlask,
  IconPencil,
  IconPlus,
  IconTrash,
} from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { useShortcuts } from "@/lib/hotkeys";
import { useRole } from "@/lib/session";
import { Allowed } from "@/ui/Allowed";
import { NameForm } from "@/ui/NameForm";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, NoMatch, TableSkeleton } from "@/ui/States";
import { StatusBadge } from "@/ui/Status";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { useExperimentActions } from "./actions";
import { HowToLog } from "./HowToLog";
import {
  defaultExperiment,
  type ExperimentRow,
  experimentsQuery,
  type ListedExperiment,
  type ListFilter,
} from "./queries";
import { filterError, Refused, SearchField } from "./SearchField";

const examples = ["name LIKE 'churn%'", "tags.team = 'growth' AND name ILIKE '%v2'"];

/** All experiments, newest first. */
export function ExperimentsPage({ filter }: { filter: ListFilter }) {
  useTab("Experiments");
  const navigate = useNavigate();
  const q = useInfiniteQuery(experimentsQuery(filter));
  const rows = q.error ? [] : (q.data?.pages.flatMap((p) => p.experiments.edges.map((e) => e.node)) ?? []);
  const set = (f: Partial<ListFilter>) =>
    void navigate({ to: "/experiments", search: { ...filter, ...f }, replace: true });
  const refused = filterError(q.error);
  const fresh = !filter.q && !filter.deleted && rows.every((r) => r.runs.edges.length === 0);
  return (
    <div className="page">
      <PageHeader
        title="Experiments"
        description="Runs of training with their parameters and metrics, as MLflow logs them."
        actions={<NewExperiment />}
      />
      <div className="experiment-tools">
        <SearchField
          label="Search experiments"
          value={filter.q}
          error={refused}
          examples={examples}
          onSearch={(text) => set({ q: text })}
        />
        <ViewSwitch deleted={filter.deleted} onChange={(deleted) => set({ deleted })} />
      </div>
      {q.error && !refused && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={6} columns={4} />}
        {rows.length > 0 && <ExperimentsTable rows={rows} deleted={filter.deleted === true} />}
        {refused && <Refused onClear={() => set({ q: undefined })} />}
        {q.isSuccess && rows.length === 0 && filter.q && (
          <NoMatch what="experiments" onClear={() => set({ q: undefined })} />
        )}
        {q.isSuccess && rows.length === 0 && !filter.q && filter.deleted && (
          <EmptyState icon={IconTrash} title="No deleted experiments">
            A deleted experiment can be restored for 30 days. Then it is erased with its runs.
          </EmptyState>
        )}
        <ShowMore of={q}>Show older experiments</ShowMore>
      </div>
      {q.isSuccess && fresh && (
        <section className="card card-pad" aria-label="How to log the first run">
          <h2 className="how-title">Log the first run</h2>
          <HowToLog experiment={rows.at(0)?.name ?? "first-steps"} />
        </section>
      )}
    </div>
  );
}

/** Chooses between active and deleted items. */
export function ViewSwitch({
  deleted,
  onChange,
}: {
  deleted: boolean | undefined;
  onChange: (deleted: true | undefined) => void;
}) {
  return (
    <SegmentedControl
      size="sm"
      aria-label="What is shown"
      data={[
        { value: "active", label: "Active" },
        { value: "deleted", label: "Deleted" },
      ]}
      value={deleted ? "deleted" : "active"}
      onChange={(v) => onChange(v === "deleted" || undefined)}
    />
  );
}

function NewExperiment() {
  const [opened, dialog] = useDisclosure();
  const { create } = useExperimentActions();
  const editor = includes(useRole(), Role.Editor);
  useShortcuts("Experiments", editor ? [{ keys: ["c"], label: "New experiment", run: dialog.open }] : []);
  return (
    <>
      <Allowed role={Role.Editor}>
        {(disabled) => (
          <Button leftSection={<IconPlus size={16} />} disabled={disabled} onClick={dialog.open}>
            New experiment
          </Button>
        )}
      </Allowed>
      <Modal opened={opened} onClose={dialog.close} title="New experiment">
        <NameForm
          label="Name"
          description="Programs name it when they log. It is unique in the workspace."
          action="Create the experiment"
          create={(name) => create.mutateAsync(name)}
          onClose={dialog.close}
        />
      </Modal>
    </>
  );
}

function ExperimentsTable({ rows, deleted }: { rows: readonly ListedExperiment[]; deleted: boolean }) {
  const editor = includes(useRole(), Role.Editor);
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table aria-label="Experiments" className="rows">
        <TableHead
          columns={["Name", "Latest run", deleted ? "Deleted" : "Created", editor && { hidden: "Actions" }]}
        />
        <Table.Tbody>
          {rows.map((x) => {
            const latest = x.runs.edges[0]?.node;
            return (
              <Table.Tr key={x.id} className="row-link">
                <Table.Td className="wraps">
                  <Link
                    to="/experiments/$experimentId"
                    params={{ experimentId: x.id }}
                    search={deleted ? { deleted } : {}}
                    className="row-main"
                  >
                    {x.name}
                  </Link>
                  <Text size="xs" c="dimmed">
                    {x.id === defaultExperiment ? "for runs without an experiment" : `by ${x.createdBy}`}
                  </Text>
                </Table.Td>
                <Table.Td>
                  {latest ? (
                    <>
                      <StatusBadge status={latest.state} />
                      <Text size="xs" c="dimmed">
                        <Ago at={latest.startedAt} />
                      </Text>
                    </>
                  ) : (
                    <span className="dim">No runs</span>
                  )}
                </Table.Td>
                <Table.Td>
                  <Ago at={(deleted && x.deletedAt) || x.createdAt} />
                </Table.Td>
                {editor && (
                  <Table.Td ta="right">
                    <ExperimentMenu experiment={x} />
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

const renameId = "rename-experiment";

/** Rename, delete and restore. */
export function ExperimentMenu({ experiment: x }: { experiment: ExperimentRow }) {
  const { rename, restore, askRemove } = useExperimentActions();
  const askRename = () =>
    modals.open({
      modalId: renameId,
      title: `Rename ${x.name}`,
      children: (
        <NameForm
          label="Name"
          action="Rename it"
          initial={x.name}
          create={(name) => rename.mutateAsync({ id: x.id, name })}
          onClose={() => modals.close(renameId)}
        />
      ),
    });
  if (x.deletedAt)
    return (
      <Button
        size="xs"
        variant="default"
        leftSection={<IconArrowBackUp size={14} />}
        loading={restore.isPending}
        aria-label={`Restore ${x.name}`}
        onClick={() => restore.mutate(x)}
      >
        Restore
      </Button>
    );
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon variant="default" size={30} aria-label={`More about ${x.name}`}>
          <IconDotsVertical size={15} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconPencil size={15} />} onClick={askRename}>
          Rename
        </Menu.Item>
        {x.id !== defaultExperiment && (
          <Menu.Item color="red" leftSection={<IconTrash size={15} />} onClick={() => askRemove(x)}>
            Delete the experiment
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

/** No run was logged yet: how to log one. */
export function NoRuns({ experiment }: { experiment: string }) {
  return (
    <>
      <EmptyState icon={IconFlask} title="No runs yet">
        A run is one training or evaluation: its parameters, and its metrics over time.
      </EmptyState>
      <HowToLog experiment={experiment} />
    </>
  );
}
