import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import {
  SqlWarehousesDocument,
  StatementDetailDocument,
  type StatementFilter,
  type StatementFullFragment,
  type StatementPurpose,
  type StatementRowFragment,
  StatementState,
  StatementsListDocument,
} from "@/gql/gen";
import { gql, request } from "@/lib/graphql";
import { split } from "@/lib/search";

export type Statement = StatementFullFragment;
export type StatementRow = StatementRowFragment;

/** Whether a statement can still change by itself. */
export const isOver = (s: { state: StatementState }) => s.state !== "QUEUED" && s.state !== "RUNNING";

/** One statement; null if it does not exist. */
export const statementQuery = (id: string) => gql(StatementDetailDocument, { id });

/** Warehouses to choose from. */
export const warehousesQuery = gql(SqlWarehousesDocument, {}, { staleTime: 5_000 });

/** Filters of the history, from the address. */
export interface HistoryFilter {
  state?: StatementState[] | undefined;
  purpose?: StatementPurpose | undefined;
  warehouse?: string | undefined;
  run?: string | undefined;
  mine?: boolean | undefined;
  q?: string | undefined;
}

/** The filters in an address, and its unknown states. */
export function historyFilter(a: Omit<HistoryFilter, "state"> & { state?: string[] | undefined }) {
  const { known, unknown } = split(a.state, Object.values(StatementState));
  const filter: HistoryFilter = { ...a, state: known };
  return { filter, unknown };
}

export const toFilter = (f: HistoryFilter): StatementFilter => ({
  states: f.state ?? null,
  purpose: f.purpose ?? null,
  warehouseId: f.warehouse ?? null,
  runId: f.run ?? null,
  mine: f.mine ?? null,
  search: f.q ?? null,
});

/** Statements, newest first. */
export const historyQuery = (f: HistoryFilter) =>
  infiniteQueryOptions({
    queryKey: ["StatementsList", f],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      request(StatementsListDocument, { first: 50, after: pageParam, filter: toFilter(f) }, signal),
    getNextPageParam: (p) =>
      p.statements.pageInfo.hasNextPage ? p.statements.pageInfo.endCursor : undefined,
    placeholderData: keepPreviousData,
  });
