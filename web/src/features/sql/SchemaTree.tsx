import { ActionIcon, Loader, Text, Tooltip } from "@mantine/core";
import {
  IconChevronRight,
  IconDatabase,
  IconEye,
  IconFolder,
  IconLink,
  IconRefresh,
  IconTable,
  type TablerIcon,
} from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, type ReactNode, useState } from "react";
import { columnsQuery, databasesQuery, refreshCatalog, schemasQuery, tableNamesQuery } from "@/lib/catalog";
import { qualified, quoteName } from "@/lib/sqlText";

interface Insert {
  onInsert: (text: string) => void;
}

/**
 * Databases, schemas, tables and columns. Each level loads when it is opened; a click on a name
 * inserts it.
 */
export function SchemaTree({ onInsert }: Insert) {
  const qc = useQueryClient();
  const q = useQuery(databasesQuery);
  return (
    <section className="card sql-tree" aria-label="Catalog">
      <div className="section-title">
        <h2>Catalog</h2>
        <Tooltip label="Read the catalog again">
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label="Read the catalog again"
            onClick={() => void refreshCatalog(qc)}
          >
            <IconRefresh size={14} />
          </ActionIcon>
        </Tooltip>
      </div>
      {q.error && <Failed error={q.error} />}
      <ul className="tree" onKeyDown={moveFocus}>
        {q.data?.map((d, i) => (
          <Branch
            key={d.id}
            icon={IconDatabase}
            name={d.name}
            insert={quoteName(d.name)}
            onInsert={onInsert}
            open={i === 0}
          >
            {() => <Schemas database={d.name} onInsert={onInsert} first={i === 0} />}
          </Branch>
        ))}
      </ul>
    </section>
  );
}

/** Up and down go from name to name, right opens, left closes. */
function moveFocus(e: KeyboardEvent<HTMLUListElement>) {
  const all = [...e.currentTarget.querySelectorAll<HTMLElement>(".tree-open, .tree-column")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  const present = all[at];
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  const turn = { ArrowRight: "false", ArrowLeft: "true" }[e.key];
  if (step) all[at + step]?.focus();
  else if (turn && present?.getAttribute("aria-expanded") === turn) present.click();
  else return;
  e.preventDefault();
}

function Branch({
  icon: Icon,
  name,
  hint,
  insert,
  onInsert,
  open = false,
  link,
  children,
}: Insert & {
  icon: TablerIcon;
  name: string;
  hint?: string | undefined;
  insert: string;
  open?: boolean;
  link?: ReactNode;
  children: () => ReactNode;
}) {
  const [opened, setOpened] = useState(open);
  return (
    <li>
      <div className="tree-row">
        <button
          type="button"
          className="tree-open"
          aria-expanded={opened}
          aria-label={`${name}${hint ? `, ${hint}` : ""}`}
          onClick={() => setOpened(!opened)}
        >
          <IconChevronRight size={13} aria-hidden />
          <Icon size={14} stroke={1.6} aria-hidden />
        </button>
        <button
          type="button"
          className="tree-name"
          tabIndex={-1}
          title={`Write ${insert}`}
          onClick={() => onInsert(insert)}
        >
          {name}
        </button>
        {link}
      </div>
      {opened && children()}
    </li>
  );
}

function Failed({ error }: { error: Error }) {
  return (
    <Text size="xs" c="red" px={12} py={4}>
      {error.message}
    </Text>
  );
}

function Level<N>({
  q,
  none,
  children,
}: {
  q: { data: readonly N[] | undefined; error: Error | null };
  none: string;
  children: (n: N, i: number) => ReactNode;
}) {
  if (q.error) return <Failed error={q.error} />;
  if (!q.data) return <Loader size={12} ml={30} my={4} />;
  if (q.data.length === 0) return <p className="tree-none">{none}</p>;
  return <ul>{q.data.map(children)}</ul>;
}

function Schemas({ database, onInsert, first }: Insert & { database: string; first: boolean }) {
  const q = useQuery(schemasQuery(database));
  return (
    <Level q={q} none="No schemas">
      {(s) => (
        <Branch
          key={s.name}
          icon={IconFolder}
          name={s.name}
          insert={`${quoteName(database)}.${quoteName(s.name)}`}
          onInsert={onInsert}
          open={first && (q.data?.length ?? 0) <= 3}
        >
          {() => <TableNames database={database} schema={s.name} onInsert={onInsert} />}
        </Branch>
      )}
    </Level>
  );
}

function TableNames({ database, schema, onInsert }: Insert & { database: string; schema: string }) {
  const q = useQuery(tableNamesQuery(database, schema));
  return (
    <Level q={q} none="No tables">
      {(t) => (
        <Branch
          key={t.id}
          icon={t.kind === "VIEW" ? IconEye : IconTable}
          name={t.name}
          hint={t.kind.toLowerCase()}
          insert={qualified(database, schema, t.name)}
          onInsert={onInsert}
          link={
            <Link
              to="/catalog/table/$tableId"
              params={{ tableId: t.id }}
              className="tree-link"
              aria-label={`Open ${t.name} in the catalog`}
            >
              <IconLink size={13} aria-hidden />
            </Link>
          }
        >
          {() => <Columns database={database} schema={schema} name={t.name} onInsert={onInsert} />}
        </Branch>
      )}
    </Level>
  );
}

function Columns({
  database,
  schema,
  name,
  onInsert,
}: Insert & { database: string; schema: string; name: string }) {
  const q = useQuery(columnsQuery(database, schema, name));
  return (
    <Level q={q} none="No columns">
      {(c) => (
        <li key={c.name}>
          <button
            type="button"
            className="tree-column"
            title={c.doc ?? c.type}
            onClick={() => onInsert(quoteName(c.name))}
          >
            <span>{c.name}</span>
            <small>{c.type}</small>
          </button>
        </li>
      )}
    </Level>
  );
}
