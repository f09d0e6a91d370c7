import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import {
  RunDetailDocument,
  type RunDetailQuery,
  type RunStatus,
  RunsJobsDocument,
  RunsListDocument,
} from "@/gql/gen";
import { gql, request } from "@/lib/graphql";

/** What the address of the runs page filters by. */
export interface RunsFilter {
  status?: RunStatus[] | undefined;
  job?: string | undefined;
}

export const runsQuery = (f: RunsFilter) =>
  infiniteQueryOptions({
    queryKey: ["RunsList", f],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      request(
        RunsListDocument,
        { first: 50, after: pageParam, filter: { status: f.status ?? null, jobId: f.job ?? null } },
        signal,
      ),
    getNextPageParam: (p) => (p.runs.pageInfo.hasNextPage ? p.runs.pageInfo.endCursor : undefined),
    placeholderData: keepPreviousData,
  });

/** Names for the filter by job. */
export const runsJobsQuery = gql(RunsJobsDocument, {}, { staleTime: 60_000 });

export const runQuery = (id: string) => gql(RunDetailDocument, { id });

export type RunDetail = NonNullable<RunDetailQuery["run"]>;
export type TaskDetail = RunDetail["tasks"][number];
export type Attempt = RunDetail["attempts"][number];
