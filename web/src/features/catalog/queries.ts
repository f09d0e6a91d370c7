import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import {
  DatabaseTablesDocument,
  type DatabaseTablesQuery,
  type LakeTableRowFragment,
  type LineageWay,
  TableDetailDocument,
  type TableDetailQuery,
  TableFilesDocument,
  TableHistoryDocument,
  type TableKind,
  TableLineageDocument,
  type TableLineageQuery,
  TablePartitionsDocument,
  TableSampleDocument,
  TableSnapshotsDocument,
} from "@/gql/gen";
import { gql, request } from "@/lib/graphql";
import { ResultSource } from "@/lib/result";
import { requestRows } from "@/lib/rows";

export type TableRow = LakeTableRowFragment;
export type TableFull = NonNullable<TableDetailQuery["table"]>;
export type Graph = NonNullable<TableLineageQuery["table"]>["lineage"];
export type GraphNode = Graph["nodes"][number];
export type GraphEdge = Graph["edges"][number];
export type DatabaseFull = NonNullable<DatabaseTablesQuery["database"]>;

/** Filters of a database's tables, from the address. */
export interface TablesFilter {
  schema?: string | undefined;
  kind?: TableKind | undefined;
  dropped?: boolean | undefined;
}

const page = 50;
const nextOf = (p: { pageInfo: { hasNextPage: boolean; endCursor: string | null } } | undefined) =>
  p?.pageInfo.hasNextPage ? p.pageInfo.endCursor : undefined;

/** A database, and its tables and views page by page; null if it does not exist. */
export const tablesQuery = (database: string, f: TablesFilter) =>
  infiniteQueryOptions({
    queryKey: ["DatabaseTables", database, f],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: after, signal }) =>
      request(
        DatabaseTablesDocument,
        {
          id: database,
          schema: f.schema ?? null,
          kind: f.kind ?? null,
          dropped: f.dropped ?? false,
          first: page,
          after,
        },
        signal,
      ),
    getNextPageParam: (p) => nextOf(p.database?.tables),
    placeholderData: keepPreviousData,
  });

/** One table or view, live or dropped; null if it does not exist. */
export const tableQuery = (id: string) => gql(TableDetailDocument, { id });

export const snapshotsQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ["TableSnapshots", id],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: after, signal }) =>
      request(TableSnapshotsDocument, { id, first: page, after }, signal),
    getNextPageParam: (p) => nextOf(p.table?.snapshots),
  });

/** Files of the current snapshot, or of the one given. */
export const filesQuery = (id: string, snapshot: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["TableFiles", id, snapshot],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: after, signal }) =>
      request(TableFilesDocument, { id, snapshot: snapshot ?? null, first: page, after }, signal),
    getNextPageParam: (p) => nextOf(p.table?.files),
  });

export const historyQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ["TableHistory", id],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: after, signal }) =>
      request(TableHistoryDocument, { id, first: page, after }, signal),
    getNextPageParam: (p) => nextOf(p.table?.history),
  });

export const partitionsQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ["TablePartitions", id],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: after, signal }) =>
      request(TablePartitionsDocument, { id, first: page, after }, signal),
    getNextPageParam: (p) => nextOf(p.table?.partitions),
  });

/** Some rows of a table, with all their digits. */
export const sampleQuery = (id: string) =>
  queryOptions({
    queryKey: ["TableSample", id],
    queryFn: async ({ signal }) => {
      const { data, rows } = await requestRows(TableSampleDocument, { id, limit: 100 }, signal);
      if (!data.table || !rows) return null;
      const source = new ResultSource(
        data.table.sample.columns,
        async () => rows,
        rows.count ? [rows.count] : [],
      );
      await source.need(0, rows.count);
      return { source, truncated: data.table.sample.truncated };
    },
    structuralSharing: false,
    staleTime: 30_000,
  });

/** The lineage of a table, now or as of a time. */
export const lineageQuery = (id: string, way: LineageWay, depth: number, at: string | null) =>
  queryOptions({
    queryKey: ["TableLineage", id, way, depth, at],
    queryFn: async ({ signal }) =>
      (await request(TableLineageDocument, { id, way, depth, at }, signal)).table?.lineage ?? null,
    staleTime: 15_000,
    placeholderData: keepPreviousData,
  });
