import "./catalog.css";
import { Button, Menu, Modal, Select, Switch, Table, VisuallyHidden } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconArrowBackUp,
  IconDotsVertical,
  IconEye,
  IconFolderPlus,
  IconTable,
  IconTableOff,
  IconTrash,
} from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { DatabaseTablesDocument, Role, TableKind } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { schemasQuery } from "@/lib/catalog";
import { useTab } from "@/lib/favicon";
import { formatBytes, formatCount } from "@/lib/format";
import { useRole } from "@/lib/session";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { LostPage } from "@/ui/Fallbacks";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, NoMatch, TableSkeleton } from "@/ui/States";
import { Ago } from "@/ui/Time";
import { useCatalogActions, useTableActions } from "./actions";
import { NameForm } from "./NameForm";
import { type DatabaseFull, type TableRow, type TablesFilter, tablesQuery } from "./queries";

/** The tables and views of a database: all, or those of one schema, or those that were dropped. */
export function DatabasePage({ id, filter }: { id: string; filter: TablesFilter }) {
  const q = useInfiniteQuery(tablesQuery(id, filter));
  const database = q.data?.pages[0]?.database;
  useTab(database?.name ?? "Catalog");
  const rows = q.data?.pages.flatMap((p) => p.database?.tables.edges.map((e) => e.node) ?? []) ?? [];
  const navigate = useNavigate();
  const set = (f: Partial<TablesFilter>) =>
    void navigate({
      to: "/catalog/$databaseId",
      params: { databaseId: id },
      search: { ...filter, ...f },
      replace: true,
    });
  if (database === null) return <LostPage what="database" />;
  const clear = () => set({ schema: undefined, kind: undefined, dropped: undefined });
  const narrowed = filter.schema !== undefined || filter.kind !== undefined;
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="catalog" to="/catalog">
            Catalog
          </Link>,
        ]}
        title={database?.name ?? "Database"}
        meta={database && <CopyId id={database.id} short />}
        description={
          filter.dropped
            ? "Dropped tables and views, which can still be restored."
            : "Tables and views, oldest first."
        }
        actions={
          <>
            <Filters id={id} filter={filter} set={set} />
            {database && (
              <Actions database={database} schema={filter.schema} onSchema={(schema) => set({ schema })} />
            )}
          </>
        }
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {q.isPending && !q.error && <TableSkeleton rows={8} columns={6} />}
        {rows.length > 0 && <TablesTable rows={rows} dropped={filter.dropped === true} />}
        {q.isSuccess && rows.length === 0 && narrowed && <NoMatch what="tables" onClear={clear} />}
        {q.isSuccess && rows.length === 0 && !narrowed && (
          <None dropped={filter.dropped === true} name={database?.name} />
        )}
        {q.hasNextPage && (
          <div className="table-foot">
            <Button
              variant="default"
              size="xs"
              loading={q.isFetchingNextPage}
              onClick={() => void q.fetchNextPage()}
            >
              Show more
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}

function None({ dropped, name }: { dropped: boolean; name: string | undefined }) {
  if (dropped)
    return (
      <EmptyState icon={IconTableOff} title="Nothing was dropped">
        Tables and views that are dropped are listed here for seven days, and can be restored.
      </EmptyState>
    );
  const q = `CREATE TABLE ${name ?? "lake"}.public.events AS\nSELECT range AS id, current_date AS day FROM range(10);`;
  return (
    <EmptyState
      icon={IconTable}
      title="No tables yet"
      action={<Button renderRoot={(p) => <Link to="/sql" search={{ q }} {...p} />}>Make one with SQL</Button>}
    >
      Tables come from SQL, from tasks, and from any Iceberg client.
    </EmptyState>
  );
}

function Filters({
  id,
  filter,
  set,
}: {
  id: string;
  filter: TablesFilter;
  set: (f: Partial<TablesFilter>) => void;
}) {
  const schemas = (useQuery(schemasQuery(id)).data ?? []).map((s) => s.name);
  if (filter.schema && !schemas.includes(filter.schema)) schemas.push(filter.schema);
  return (
    <>
      <Select
        aria-label="Filter by schema"
        placeholder="Any schema"
        data={schemas}
        value={filter.schema ?? null}
        onChange={(v) => set({ schema: v ?? undefined })}
        searchable
        clearable
        w={{ base: "100%", xs: 180 }}
      />
      <Select
        aria-label="Filter by kind"
        placeholder="Tables and views"
        data={[
          { value: TableKind.Table, label: "Tables" },
          { value: TableKind.View, label: "Views" },
        ]}
        value={filter.kind ?? null}
        onChange={(v) => set({ kind: (v as TableKind | null) ?? undefined })}
        clearable
        w={{ base: "100%", xs: 170 }}
      />
      <Switch
        label="Dropped"
        checked={filter.dropped === true}
        onChange={(e) => set({ dropped: e.currentTarget.checked || undefined })}
      />
    </>
  );
}

function Actions({
  database: d,
  schema,
  onSchema,
}: {
  database: DatabaseFull;
  schema: string | undefined;
  onSchema: (name: string | undefined) => void;
}) {
  const editor = includes(useRole(), Role.Editor);
  const [making, dialog] = useDisclosure();
  const { createSchema, askRemoveDatabase, askRemoveSchema } = useCatalogActions();
  const create = async (name: string) => {
    await createSchema.mutateAsync({ database: d.id, name });
    onSchema(name);
  };
  return (
    <>
      {editor && (
        <Button variant="default" leftSection={<IconFolderPlus size={16} />} onClick={dialog.open}>
          New schema
        </Button>
      )}
      <CopyMenu
        doc={DatabaseTablesDocument}
        variables={{ id: d.id, first: 50 }}
        rest={`/api/v1/databases/${d.id}/tables`}
      />
      {editor && (
        <Menu>
          <Menu.Target>
            <Button variant="default" px={8} aria-label="More">
              <IconDotsVertical size={16} />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {schema && (
              <Menu.Item
                color="red"
                leftSection={<IconTrash size={15} />}
                onClick={() => askRemoveSchema({ database: d.id, name: schema })}
              >
                Delete the schema {schema}
              </Menu.Item>
            )}
            <Menu.Item color="red" leftSection={<IconTrash size={15} />} onClick={() => askRemoveDatabase(d)}>
              Delete the database
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <Modal opened={making} onClose={dialog.close} title="New schema">
        <NameForm
          label="Name"
          description="A dot makes a level: all but the last must be there."
          action="Create the schema"
          create={create}
          onClose={dialog.close}
        />
      </Modal>
    </>
  );
}

function TablesTable({ rows, dropped }: { rows: readonly TableRow[]; dropped: boolean }) {
  const editor = includes(useRole(), Role.Editor);
  const { undrop } = useTableActions();
  return (
    <Table.ScrollContainer minWidth={680}>
      <Table aria-label="Tables" className="rows">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Schema</Table.Th>
            <Table.Th ta="right">Rows</Table.Th>
            <Table.Th ta="right">Size</Table.Th>
            <Table.Th>{dropped ? "Dropped" : "Changed"}</Table.Th>
            <Table.Th>{dropped ? "Restorable" : "By"}</Table.Th>
            {dropped && editor && (
              <Table.Th>
                <VisuallyHidden>Actions</VisuallyHidden>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((t) => (
            <Table.Tr key={t.id} className="row-link">
              <Table.Td className="wraps">
                <Link
                  to="/catalog/table/$tableId"
                  params={{ tableId: t.id }}
                  className="row-main catalog-name"
                >
                  {t.kind === "VIEW" ? (
                    <IconEye size={15} aria-label="View" />
                  ) : (
                    <IconTable size={15} aria-label="Table" />
                  )}
                  {t.name}
                </Link>
              </Table.Td>
              <Table.Td>{t.schema}</Table.Td>
              <Table.Td ta="right">
                {t.rowCount === null ? <Unknown /> : formatCount(Number(t.rowCount))}
              </Table.Td>
              <Table.Td ta="right" className="nowrap">
                {t.dataBytes === null ? <Unknown /> : formatBytes(Number(t.dataBytes))}
              </Table.Td>
              <Table.Td>
                <Ago at={(dropped && t.droppedAt) || t.updatedAt} />
              </Table.Td>
              <Table.Td>
                {dropped && t.restorableUntil ? (
                  <>
                    until <Ago at={t.restorableUntil} />
                  </>
                ) : (
                  t.updatedBy
                )}
              </Table.Td>
              {dropped && editor && (
                <Table.Td ta="right">
                  <Button
                    size="xs"
                    variant="default"
                    leftSection={<IconArrowBackUp size={14} />}
                    aria-label={`Restore ${t.name}`}
                    loading={undrop.isPending && undrop.variables.id === t.id}
                    onClick={() => undrop.mutate(t)}
                  >
                    Restore
                  </Button>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

const Unknown = () => <span className="dim">–</span>;
