import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import {
  RunDetailDocument,
  type RunDetailQuery,
  type RunStateFragment,
  RunStatus,
  RunsJobsDocument,
  RunsListDocument,
} from "@/gql/gen";
import { gql, request } from "@/lib/graphql";
import { split } from "@/lib/search";

/** Filters of the runs page, from the address. */
export interface RunsFilter {
  status?: RunStatus[] | undefined;
  job?: string | undefined;
}

/** The filters in an address, and its unknown statuses. */
export function runsFilter(a: { status?: string[] | undefined; job?: string | undefined }) {
  const { known, unknown } = split(a.status, Object.values(RunStatus));
  const filter: RunsFilter = { status: known, job: a.job };
  return { filter, unknown };
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

/** The last pushed state of a run and its time. */
export interface LiveState {
  state: RunStateFragment;
  at: number;
}
export const liveKey = (id: string) => ["RunLive", id] as const;

/** A run with its new state. Fields that were frozen at its start are not sent again and stay. */
export function withState(run: RunDetail, state: RunStateFragment): RunDetail {
  const tasks = new Map(state.tasks.map((t) => [t.key, t]));
  return { ...run, ...state, tasks: run.tasks.map((t) => ({ ...t, ...tasks.get(t.key) })) };
}

/** One run. A state that was pushed during the request overrides the answer, which may be older. */
export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ["RunDetail", { id }],
    queryFn: async ({ signal, client }) => {
      const asked = performance.now();
      const answer = await request(RunDetailDocument, { id }, signal);
      const live = client.getQueryData<LiveState>(liveKey(id));
      return answer.run && live && live.at >= asked ? { run: withState(answer.run, live.state) } : answer;
    },
  });

export type RunDetail = NonNullable<RunDetailQuery["run"]>;
export type TaskDetail = RunDetail["tasks"][number];
export type Attempt = RunDetail["attempts"][number];
