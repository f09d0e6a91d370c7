import "./catalog.css";
import { Button, Menu, Modal, Select, Switch } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconDotsVertical, IconFolderPlus, IconTable, IconTableOff, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { DatabaseTablesDocument, Role, TableKind } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { schemasQuery } from "@/lib/catalog";
import { useTab } from "@/lib/favicon";
import { useRole } from "@/lib/session";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { LostPage } from "@/ui/Fallbacks";
import { NameForm } from "@/ui/NameForm";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, NoMatch, TableSkeleton } from "@/ui/States";
import { ShowMore } from "@/ui/Table";
import { useCatalogActions } from "./actions";
import { MaintenancePanel } from "./MaintenancePanel";
import { type DatabaseFull, type TablesFilter, tablesQuery } from "./queries";
import { TablesTable } from "./TablesTable";

/**
 * The tables and views of a database: all, those of one schema, or the dropped ones; or their
 * maintenance.
 */
export function DatabasePage({
  id,
  filter,
  tab,
}: {
  id: string;
  filter: TablesFilter;
  tab: "maintenance" | undefined;
}) {
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
          tab
            ? "Maintenance of its tables, unless a table has its own policy."
            : filter.dropped
              ? "Dropped tables and views: those that can still be restored, and those that keep their files."
              : "Tables and views, oldest first."
        }
        actions={
          <>
            {!tab && <Filters id={id} filter={filter} set={set} />}
            {database && (
              <Actions database={database} schema={filter.schema} onSchema={(schema) => set({ schema })} />
            )}
          </>
        }
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <section className="card" aria-label={tab ? "Maintenance" : "Tables and views"}>
        <Tabs id={id} tab={tab} />
        {tab && database && (
          <MaintenancePanel subject={{ level: "database", id: database.id, name: database.name }} />
        )}
        {!tab && (
          <>
            {q.isPending && !q.error && <TableSkeleton rows={8} columns={6} />}
            {rows.length > 0 && <TablesTable rows={rows} dropped={filter.dropped === true} />}
            {q.isSuccess && rows.length === 0 && narrowed && <NoMatch what="tables" onClear={clear} />}
            {q.isSuccess && rows.length === 0 && !narrowed && (
              <None dropped={filter.dropped === true} name={database?.name} />
            )}
            <ShowMore of={q}>Show more</ShowMore>
          </>
        )}
      </section>
    </div>
  );
}

function Tabs({ id, tab }: { id: string; tab: "maintenance" | undefined }) {
  return (
    <nav className="catalog-tabs" aria-label="About the database">
      {([undefined, "maintenance"] as const).map((x) => (
        <Link
          key={x ?? "tables"}
          to="/catalog/$databaseId"
          params={{ databaseId: id }}
          search={{ tab: x }}
          replace
          resetScroll={false}
          aria-current={x === tab ? "page" : undefined}
          activeProps={{}}
          activeOptions={{ exact: true }}
        >
          {x ? "Maintenance" : "Tables"}
        </Link>
      ))}
    </nav>
  );
}

function None({ dropped, name }: { dropped: boolean; name: string | undefined }) {
  if (dropped)
    return (
      <EmptyState icon={IconTableOff} title="Nothing was dropped">
        Dropped tables and views are listed here for seven days and can be restored.
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
          description="Dots separate levels; all levels but the last must exist."
          action="Create the schema"
          create={create}
          onClose={dialog.close}
        />
      </Modal>
    </>
  );
}
