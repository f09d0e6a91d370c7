import { Badge, Button, Table, Text } from "@mantine/core";
import { IconTerminal2 } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { formatBytes, formatCount } from "@/lib/format";
import { quoteName } from "@/lib/sqlText";
import { CopyId } from "@/ui/Copy";
import { ResultGrid } from "@/ui/ResultGrid";
import { ErrorPanel, TableSkeleton } from "@/ui/States";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import {
  filesQuery,
  historyQuery,
  partitionsQuery,
  sampleQuery,
  snapshotsQuery,
  type TableFull,
} from "./queries";

/** The name of a table in SQL text. */
export const sqlName = (t: TableFull) => [t.database, t.schema, t.name].map(quoteName).join(".");
/** A query of a table at a snapshot. */
export const timeTravel = (t: TableFull, snapshot: string) =>
  `SELECT *\nFROM ${sqlName(t)} AT (VERSION => ${snapshot})\nLIMIT 1000`;

const Note = ({ children }: { children: ReactNode }) => (
  <Text size="sm" c="dimmed" className="card-pad">
    {children}
  </Text>
);

interface Paged {
  error: Error | null;
  isPending: boolean;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
  refetch: () => unknown;
}

/** A list that loads page by page: its states, and the button for more. */
function List({ q, empty, none, children }: { q: Paged; empty: boolean; none: string; children: ReactNode }) {
  if (q.error)
    return (
      <div className="card-pad">
        <ErrorPanel error={q.error} retry={() => void q.refetch()} />
      </div>
    );
  if (q.isPending) return <TableSkeleton rows={5} columns={5} />;
  if (empty) return <Note>{none}</Note>;
  return (
    <>
      {children}
      <ShowMore of={q}>Show more</ShowMore>
    </>
  );
}

export function SchemaTab({ table: t }: { table: TableFull }) {
  return (
    <Table.ScrollContainer minWidth={480}>
      <Table aria-label="Columns" className="rows">
        <TableHead columns={["Column", "Type", "May be NULL", "Description"]} />
        <Table.Tbody>
          {t.columns.map((c) => (
            <Table.Tr key={c.name}>
              <Table.Td className="mono">{c.name}</Table.Td>
              <Table.Td className="mono wraps">{c.type}</Table.Td>
              <Table.Td>{c.required ? "no" : "yes"}</Table.Td>
              <Table.Td className="wraps">{c.doc ?? <span className="dim">–</span>}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

export function SampleTab({ table: t }: { table: TableFull }) {
  const q = useQuery(sampleQuery(t.id));
  if (q.error)
    return (
      <div className="card-pad">
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      </div>
    );
  if (q.isPending) return <TableSkeleton rows={8} columns={6} />;
  if (!q.data || q.data.source.rowCount === 0) return <Note>The table has no rows.</Note>;
  return (
    <>
      {q.data.truncated && (
        <Note>
          The sample is cut: a cell shows 1,000 characters at most, and all rows together have 1 MiB. Read the
          table in SQL to see everything.
        </Note>
      )}
      <div className="catalog-sample">
        <ResultGrid key={t.id} source={q.data.source} label={`Sample of ${t.fullName}`} />
      </div>
    </>
  );
}

const told: Readonly<Record<string, string>> = {
  "added-records": "added",
  "deleted-records": "deleted",
  "total-records": "in all",
};

export function SnapshotsTab({ table: t }: { table: TableFull }) {
  const q = useInfiniteQuery(snapshotsQuery(t.id));
  const rows = q.data?.pages.flatMap((p) => p.table?.snapshots.edges.map((e) => e.node) ?? []) ?? [];
  return (
    <List q={q} empty={rows.length === 0} none="It was never written, so there is no snapshot yet.">
      <Table.ScrollContainer minWidth={680}>
        <Table aria-label="Snapshots" className="rows">
          <TableHead columns={["Snapshot", "Operation", "Written", "Rows", { hidden: "Actions" }]} />
          <Table.Tbody>
            {rows.map((s) => (
              <Table.Tr key={s.id}>
                <Table.Td>
                  <CopyId id={s.id} />{" "}
                  {s.id === t.snapshot?.id && (
                    <Badge size="xs" variant="light">
                      current
                    </Badge>
                  )}
                </Table.Td>
                <Table.Td>{s.operation}</Table.Td>
                <Table.Td>
                  <Ago at={s.at} />
                </Table.Td>
                <Table.Td className="catalog-small">
                  {s.summary
                    .filter((p) => told[p.name])
                    .map((p) => `${formatCount(Number(p.value))} ${told[p.name]}`)
                    .join(", ")}
                </Table.Td>
                <Table.Td ta="right" className="nowrap">
                  <Button
                    size="compact-xs"
                    variant="default"
                    mr={6}
                    aria-label={`Files of ${s.id}`}
                    renderRoot={(p) => (
                      <Link
                        to="/catalog/table/$tableId"
                        params={{ tableId: t.id }}
                        search={{ tab: "files", snapshot: s.id }}
                        {...p}
                      />
                    )}
                  >
                    Files
                  </Button>
                  <Button
                    size="compact-xs"
                    variant="default"
                    leftSection={<IconTerminal2 size={13} />}
                    aria-label={`Query as of then, snapshot ${s.id}`}
                    renderRoot={(p) => <Link to="/sql" search={{ q: timeTravel(t, s.id) }} {...p} />}
                  >
                    Query as of then
                  </Button>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </List>
  );
}

export function FilesTab({ table: t, snapshot }: { table: TableFull; snapshot: string | undefined }) {
  const q = useInfiniteQuery(filesQuery(t.id, snapshot));
  const rows = q.data?.pages.flatMap((p) => p.table?.files.edges.map((e) => e.node) ?? []) ?? [];
  return (
    <>
      {snapshot && (
        <Note>
          Of the snapshot <span className="mono">{snapshot}</span>.{" "}
          <Link to="/catalog/table/$tableId" params={{ tableId: t.id }} search={{ tab: "files" }}>
            Show those of the current one
          </Link>
        </Note>
      )}
      <List q={q} empty={rows.length === 0} none="There are no files: the table has no rows.">
        <Table.ScrollContainer minWidth={680}>
          <Table aria-label="Files" className="rows">
            <TableHead columns={["File", "Holds", "Partition", { right: "Records" }, { right: "Size" }]} />
            <Table.Tbody>
              {rows.map((f) => (
                <Table.Tr key={f.path}>
                  <Table.Td className="wraps">
                    <CopyId
                      id={f.path.startsWith(t.location) ? f.path.slice(t.location.length + 1) : f.path}
                    />
                  </Table.Td>
                  <Table.Td>
                    {f.content.replace("_", " ")} <span className="dim">{f.format}</span>
                  </Table.Td>
                  <Table.Td className="mono">{f.partition ?? <span className="dim">–</span>}</Table.Td>
                  <Table.Td ta="right">{formatCount(Number(f.records))}</Table.Td>
                  <Table.Td ta="right" className="nowrap">
                    {formatBytes(Number(f.bytes))}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </List>
    </>
  );
}

export function PartitionsTab({ table: t }: { table: TableFull }) {
  const q = useInfiniteQuery(partitionsQuery(t.id));
  const all = q.data?.pages.flatMap((p) => p.table?.partitions.edges.map((e) => e.node) ?? []) ?? [];
  const rows = all.filter((p) => p.partition !== null);
  const most = Math.max(1, ...rows.map((p) => Number(p.bytes)));
  return (
    <List q={q} empty={rows.length === 0} none="The table is not partitioned, or has no rows.">
      <Table.ScrollContainer minWidth={480}>
        <Table aria-label="Partitions" className="rows">
          <TableHead
            columns={[
              "Partition",
              { right: "Records" },
              { right: "Files" },
              { right: "Size" },
              { hidden: "Share" },
            ]}
          />
          <Table.Tbody>
            {rows.map((p) => (
              <Table.Tr key={p.partition}>
                <Table.Td className="mono wraps">{p.partition}</Table.Td>
                <Table.Td ta="right">{formatCount(Number(p.records))}</Table.Td>
                <Table.Td ta="right">
                  {formatCount(Number(p.dataFiles))}
                  {Number(p.deleteFiles) > 0 && (
                    <span className="dim"> and {formatCount(Number(p.deleteFiles))} of deletes</span>
                  )}
                </Table.Td>
                <Table.Td ta="right" className="nowrap">
                  {formatBytes(Number(p.bytes))}
                </Table.Td>
                <Table.Td w={140}>
                  <span className="catalog-share" style={{ width: `${(Number(p.bytes) / most) * 100}%` }} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </List>
  );
}

export function HistoryTab({ table: t }: { table: TableFull }) {
  const q = useInfiniteQuery(historyQuery(t.id));
  const rows = q.data?.pages.flatMap((p) => p.table?.history.edges.map((e) => e.node) ?? []) ?? [];
  return (
    <List q={q} empty={rows.length === 0} none="It was never written.">
      <Table.ScrollContainer minWidth={480}>
        <Table aria-label="History" className="rows">
          <TableHead columns={["Current from", "Snapshot", "Made from", "Now"]} />
          <Table.Tbody>
            {rows.map((h) => (
              <Table.Tr key={`${h.at} ${h.snapshotId}`}>
                <Table.Td>
                  <Ago at={h.at} />
                </Table.Td>
                <Table.Td>
                  <CopyId id={h.snapshotId} />
                </Table.Td>
                <Table.Td>
                  {h.parentId ? <CopyId id={h.parentId} /> : <span className="dim">nothing</span>}
                </Table.Td>
                <Table.Td>{h.isCurrentAncestor ? "part of the table" : "rolled back"}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </List>
  );
}

export function SqlTab({ table: t }: { table: TableFull }) {
  return (
    <div className="card-pad">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <pre className="code-block" tabIndex={0}>
        {t.sql}
      </pre>
      {t.dialect && (
        <Text size="xs" c="dimmed" mt={6}>
          Written in the dialect of {t.dialect}.
        </Text>
      )}
    </div>
  );
}
