import { Text } from "@mantine/core";
import { IconEye, IconTable } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { LineageEntryFragment } from "@/gql/gen";
import "./lineage.css";

interface Lineage {
  readonly read: readonly LineageEntryFragment[];
  readonly written: readonly LineageEntryFragment[];
}

/** The tables that something read and wrote. */
export function LineageList({ lineage }: { lineage: Lineage }) {
  return (
    <div className="lineage-lists">
      <Side title="Read" entries={lineage.read} />
      <Side title="Written" entries={lineage.written} />
    </div>
  );
}

/** One line for each table, however often it was used. */
function once(entries: readonly LineageEntryFragment[]) {
  const seen = new Map<string, LineageEntryFragment>();
  for (const e of entries) seen.set(e.tableId, e);
  return [...seen.values()];
}

function Side({ title, entries }: { title: string; entries: readonly LineageEntryFragment[] }) {
  return (
    <section aria-label={title}>
      <div className="lineage-title">{title}</div>
      {entries.length === 0 && (
        <Text size="sm" c="dimmed">
          No tables
        </Text>
      )}
      <ul>
        {once(entries).map((e) => (
          <li key={e.tableId}>
            {e.table?.kind === "VIEW" ? (
              <IconEye size={15} aria-hidden />
            ) : (
              <IconTable size={15} aria-hidden />
            )}
            <div>
              {e.table ? (
                <Link to="/catalog/table/$tableId" params={{ tableId: e.table.id }} className="mono">
                  {e.fullName}
                </Link>
              ) : (
                <span className="mono">{e.fullName}</span>
              )}
              {(!e.table || e.table.droppedAt) && (
                <small className="dim"> {e.table ? "dropped" : "gone"}</small>
              )}
              {e.columns && e.columns.length > 0 && (
                <small className="dim mono">{e.columns.join(", ")}</small>
              )}
              {e.snapshotId && <small className="dim">snapshot {e.snapshotId}</small>}
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
