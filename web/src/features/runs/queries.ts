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

/** What the address of the runs page filters by. */
export interface RunsFilter {
  status?: RunStatus[] | undefined;
  job?: string | undefined;
}

/** What an address filters by, and the statuses in it that there are not. */
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

/** The last state of a run that was pushed, and when it came. */
export interface LiveState {
  state: RunStateFragment;
  at: number;
}
export const liveKey = (id: string) => ["RunLive", id] as const;

/** A run with its new state. What was frozen when it started is not sent again, and stays. */
export function withState(run: RunDetail, state: RunStateFragment): RunDetail {
  const tasks = new Map(state.tasks.map((t) => [t.key, t]));
  return { ...run, ...state, tasks: run.tasks.map((t) => ({ ...t, ...tasks.get(t.key) })) };
}

/**
 * One run. An answer may be older than a state that was pushed while it was on its way, and there may
 * be no further push to put it right: the pushed one holds.
 */
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
