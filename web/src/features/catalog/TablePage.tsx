import "./catalog.css";
import { Alert, Button, Menu, Modal } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconArrowBackUp,
  IconDotsVertical,
  IconPencil,
  IconTableOff,
  IconTerminal2,
  IconTrash,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Role, TableDetailDocument } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { formatBytes, formatCount, plural } from "@/lib/format";
import { useRole } from "@/lib/session";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { LostPage } from "@/ui/Fallbacks";
import { NameForm } from "@/ui/NameForm";
import { PageHeader } from "@/ui/PageHeader";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { Ago } from "@/ui/Time";
import { useTableActions } from "./actions";
import { LineageTab } from "./LineageTab";
import { MaintenancePanel } from "./MaintenancePanel";
import { type TableFull, tableQuery } from "./queries";
import {
  FilesTab,
  HistoryTab,
  PartitionsTab,
  SampleTab,
  SchemaTab,
  SnapshotsTab,
  SqlTab,
  sqlName,
} from "./TableTabs";
import { type TableTab, tabsOf } from "./tabs";

/** A table or a view: its columns, rows, snapshots, files and lineage. */
export function TablePage({
  id,
  tab,
  snapshot,
}: {
  id: string;
  tab: TableTab | undefined;
  snapshot: string | undefined;
}) {
  const q = useQuery(tableQuery(id));
  const table = q.data?.table;
  useTab(table?.name ?? "Table");
  if (table === null) return <LostPage what="table" />;
  if (table) return <Loaded table={table} tab={tab} snapshot={snapshot} />;
  return (
    <div className="page">
      {q.error ? (
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      ) : (
        <>
          <PanelSkeleton height={52} />
          <PanelSkeleton height={360} />
        </>
      )}
    </div>
  );
}

function Loaded({
  table: t,
  tab,
  snapshot,
}: {
  table: TableFull;
  tab: TableTab | undefined;
  snapshot: string | undefined;
}) {
  const tabs = tabsOf(t.kind);
  const present = tabs.find((x) => x.value === tab) ?? tabs[0];
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="catalog" to="/catalog">
            Catalog
          </Link>,
          <Link key="database" to="/catalog/$databaseId" params={{ databaseId: t.databaseId }}>
            {t.database}
          </Link>,
          <Link
            key="schema"
            to="/catalog/$databaseId"
            params={{ databaseId: t.databaseId }}
            search={{ schema: t.schema }}
          >
            {t.schema}
          </Link>,
        ]}
        title={t.name}
        meta={<CopyId id={t.fullName} />}
        description={<Figures table={t} />}
        actions={<Actions table={t} />}
      />
      {t.droppedAt && <Dropped table={t} />}
      <section className="card" aria-label={present?.label}>
        <nav className="catalog-tabs" aria-label="About the table">
          {tabs.map((x) => (
            <Link
              key={x.value}
              to="/catalog/table/$tableId"
              params={{ tableId: t.id }}
              search={{ tab: x.value }}
              replace
              resetScroll={false}
              aria-current={x === present ? "page" : undefined}
              activeProps={{}}
              activeOptions={{ exact: true }}
            >
              {x.label}
            </Link>
          ))}
        </nav>
        {present?.value === "schema" && <SchemaTab table={t} />}
        {present?.value === "sample" && <SampleTab table={t} />}
        {present?.value === "snapshots" && <SnapshotsTab table={t} />}
        {present?.value === "files" && <FilesTab table={t} snapshot={snapshot} />}
        {present?.value === "partitions" && <PartitionsTab table={t} />}
        {present?.value === "history" && <HistoryTab table={t} />}
        {present?.value === "lineage" && <LineageTab key={t.id} table={t} />}
        {present?.value === "maintenance" && (
          <MaintenancePanel subject={{ level: "table", id: t.id, name: t.fullName }} />
        )}
        {present?.value === "sql" && <SqlTab table={t} />}
      </section>
    </div>
  );
}

function Figures({ table: t }: { table: TableFull }) {
  const figures = [
    t.kind === "VIEW" ? "view" : null,
    t.rowCount !== null ? plural(Number(t.rowCount), "row") : null,
    t.dataBytes !== null ? formatBytes(Number(t.dataBytes)) : null,
    t.dataFiles !== null
      ? `${formatCount(Number(t.dataFiles))} data ${t.dataFiles === "1" ? "file" : "files"}`
      : null,
    t.kind === "TABLE" ? `Iceberg ${t.formatVersion}` : null,
  ].filter(Boolean);
  return (
    <>
      {figures.join(" · ")}
      {" · changed "}
      <Ago at={t.updatedAt} /> by {t.updatedBy}
    </>
  );
}

function Dropped({ table: t }: { table: TableFull }) {
  const editor = includes(useRole(), Role.Editor);
  const { askPurge, undrop } = useTableActions();
  return (
    <Alert color="yellow" icon={<IconTableOff size={18} aria-hidden />} title="It is dropped">
      Statements cannot use it.
      {t.restorableUntil && (
        <>
          {" "}
          It can be restored until <Ago at={t.restorableUntil} />.
        </>
      )}
      {t.detached && (
        <>
          {" "}
          It was dropped without purge: its files stay until it is purged, or registered again as{" "}
          {t.metadataLocation}.
        </>
      )}
      {editor && (
        <div>
          <Button
            mt="xs"
            size="xs"
            variant="default"
            leftSection={<IconArrowBackUp size={14} />}
            loading={undrop.isPending}
            onClick={() => undrop.mutate(t)}
          >
            Restore
          </Button>
          {t.detached && (
            <Button
              mt="xs"
              ml="xs"
              size="xs"
              variant="default"
              color="red"
              leftSection={<IconTrash size={14} />}
              onClick={() => askPurge(t)}
            >
              Purge
            </Button>
          )}
        </div>
      )}
    </Alert>
  );
}

function Actions({ table: t }: { table: TableFull }) {
  const editor = includes(useRole(), Role.Editor);
  const [naming, dialog] = useDisclosure();
  const { askDrop, rename } = useTableActions();
  const noun = t.kind === "VIEW" ? "view" : "table";
  const q = `SELECT *\nFROM ${sqlName(t)}\nLIMIT 1000`;
  return (
    <>
      {!t.droppedAt && (
        <Button
          leftSection={<IconTerminal2 size={16} />}
          renderRoot={(p) => <Link to="/sql" search={{ q }} {...p} />}
        >
          Query
        </Button>
      )}
      <CopyMenu
        doc={TableDetailDocument}
        variables={{ id: t.id }}
        rest={`/api/v1/databases/${t.databaseId}/tables/${encodeURIComponent(`${t.schema}.${t.name}`)}/schema`}
      />
      {editor && !t.droppedAt && (
        <Menu>
          <Menu.Target>
            <Button variant="default" px={8} aria-label="More">
              <IconDotsVertical size={16} />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item leftSection={<IconPencil size={15} />} onClick={dialog.open}>
              Rename or move the {noun}
            </Menu.Item>
            <Menu.Item color="red" leftSection={<IconTrash size={15} />} onClick={() => askDrop(t)}>
              Drop the {noun}
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <Modal opened={naming} onClose={dialog.close} title={`Rename ${t.name}`}>
        <NameForm
          label="Schema and name"
          description="Joined by a dot. Another schema of the same database moves it there. Statements that use the old name fail."
          action="Rename"
          initial={`${t.schema}.${t.name}`}
          create={(full) => {
            const dot = full.lastIndexOf(".");
            const schema = dot < 0 ? t.schema : full.slice(0, dot);
            return rename.mutateAsync({ id: t.id, schema, name: full.slice(dot + 1) });
          }}
          onClose={dialog.close}
        />
      </Modal>
    </>
  );
}
