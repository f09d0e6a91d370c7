import "./catalog.css";
import { Button, Group, Modal } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconDatabase, IconFolder, IconPlus, IconTerminal2, IconTool } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { type DatabaseNode, databasesQuery, schemasQuery } from "@/lib/catalog";
import { useTab } from "@/lib/favicon";
import { useRole } from "@/lib/session";
import { NameForm } from "@/ui/NameForm";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, PanelSkeleton } from "@/ui/States";
import { Ago } from "@/ui/Time";
import { useCatalogActions } from "./actions";

/** All databases, and the schemas in each. */
export function CatalogPage() {
  useTab("Catalog");
  const q = useQuery(databasesQuery);
  const editor = includes(useRole(), Role.Editor);
  const [making, dialog] = useDisclosure();
  const { createDatabase } = useCatalogActions();
  return (
    <div className="page">
      <PageHeader
        title="Catalog"
        description="Databases hold schemas, which hold tables and views. Iceberg clients, tasks and SQL see the same."
        actions={
          <>
            <Button
              variant="default"
              leftSection={<IconTool size={16} />}
              renderRoot={(p) => <Link to="/catalog/maintenance" {...p} />}
            >
              Maintenance
            </Button>
            <Button
              variant="default"
              leftSection={<IconTerminal2 size={16} />}
              renderRoot={(p) => <Link to="/sql" {...p} />}
            >
              Write SQL
            </Button>
            {editor && (
              <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
                New database
              </Button>
            )}
          </>
        }
      />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      {q.isPending && !q.error && <PanelSkeleton height={180} />}
      {q.data?.length === 0 && (
        <div className="card">
          <EmptyState icon={IconDatabase} title="There is no database">
            A database holds schemas, and these hold tables.
            {editor ? " Make one to begin." : " Somebody with the role editor can make one."}
          </EmptyState>
        </div>
      )}
      {q.data?.map((d) => (
        <DatabaseCard key={d.id} database={d} />
      ))}
      <Modal opened={making} onClose={dialog.close} title="New database">
        <NameForm
          label="Name"
          description="Unique in the workspace, in any case. It begins with the schema public."
          action="Create the database"
          create={(name) => createDatabase.mutateAsync(name)}
          onClose={dialog.close}
        />
      </Modal>
    </div>
  );
}

function DatabaseCard({ database: d }: { database: DatabaseNode }) {
  const q = useQuery(schemasQuery(d.id));
  return (
    <section className="card" aria-label={`Database ${d.name}`}>
      <div className="section-title">
        <h2>
          <Link to="/catalog/$databaseId" params={{ databaseId: d.id }} className="catalog-database">
            <IconDatabase size={16} stroke={1.7} aria-hidden />
            {d.name}
          </Link>
        </h2>
        <Group gap="md">
          <span className="dim catalog-small">
            by {d.createdBy}, <Ago at={d.createdAt} />
          </span>
          <Link to="/catalog/$databaseId" params={{ databaseId: d.id }}>
            All tables
          </Link>
        </Group>
      </div>
      {q.error && (
        <div className="card-pad">
          <ErrorPanel error={q.error} retry={() => q.refetch()} />
        </div>
      )}
      {q.isPending && !q.error && <PanelSkeleton height={48} />}
      <ul className="catalog-schemas">
        {q.data?.map((s) => (
          <li key={s.name}>
            <Link to="/catalog/$databaseId" params={{ databaseId: d.id }} search={{ schema: s.name }}>
              <IconFolder size={16} stroke={1.6} aria-hidden />
              {s.name}
            </Link>
          </li>
        ))}
        {q.data?.length === 0 && <li className="dim">No schemas</li>}
      </ul>
    </section>
  );
}
