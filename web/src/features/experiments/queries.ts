import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import {
  ExperimentDetailDocument,
  type ExperimentDetailQuery,
  type ExperimentRowFragment,
  ExperimentRunsDocument,
  type ExperimentRunsQuery,
  ExperimentsListDocument,
  type ExperimentsListQuery,
  TrackingRunDetailDocument,
  type TrackingRunDetailQuery,
  type TrackingRunState,
  TrackingView,
} from "@/gql/gen";
import { gql, request } from "@/lib/graphql";
import { filterOf, orderOf } from "./search";

export type ExperimentRow = ExperimentRowFragment;
export type ListedExperiment = ExperimentsListQuery["experiments"]["edges"][number]["node"];
export type Experiment = NonNullable<ExperimentDetailQuery["experiment"]>;
export type TrackingRun = NonNullable<TrackingRunDetailQuery["trackingRun"]>;

/** The experiment that nobody can delete. */
export const defaultExperiment = "0";

/** More runs do not fit side by side. */
export const compareAtMost = 20;

/** Whether a run still logs. */
export const logs = (s: TrackingRunState) => s === "RUNNING" || s === "SCHEDULED";

/** What a list shows, from the address. */
export interface ListFilter {
  q?: string | undefined;
  deleted?: boolean | undefined;
}

const viewOf = (f: ListFilter) => (f.deleted ? TrackingView.Deleted : TrackingView.Active);

/** Experiments, newest first, each with its latest run. */
export const experimentsQuery = (f: ListFilter) =>
  infiniteQueryOptions({
    queryKey: ["ExperimentsList", f],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      request(
        ExperimentsListDocument,
        { filter: filterOf(f.q, "name"), view: viewOf(f), first: 50, after: pageParam },
        signal,
      ),
    getNextPageParam: (p) =>
      p.experiments.pageInfo.hasNextPage ? p.experiments.pageInfo.endCursor : undefined,
    placeholderData: keepPreviousData,
  });

export const experimentQuery = (id: string) => gql(ExperimentDetailDocument, { id });

/** Which runs of an experiment the server lists, and in which order. */
export interface RunsFilter extends ListFilter {
  sort?: string | undefined;
}

const somePages = 4;

/** Values of runs that still log are read every five seconds, while few pages are loaded. */
function pollOf(pages: readonly ExperimentRunsQuery[] | undefined): number | false {
  if (!pages || pages.length > somePages) return false;
  return pages.some((p) => p.trackingRuns.edges.some((e) => logs(e.node.state))) && 5_000;
}

/** Runs of an experiment with what they logged. */
export const experimentRunsQuery = (id: string, f: RunsFilter) =>
  infiniteQueryOptions({
    queryKey: ["ExperimentRuns", id, f],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      request(
        ExperimentRunsDocument,
        {
          id,
          filter: filterOf(f.q, "attributes.run_name"),
          orderBy: orderOf(f.sort),
          view: viewOf(f),
          first: 50,
          after: pageParam,
        },
        signal,
      ),
    getNextPageParam: (p) =>
      p.trackingRuns.pageInfo.hasNextPage ? p.trackingRuns.pageInfo.endCursor : undefined,
    refetchInterval: (q) => pollOf(q.state.data?.pages),
    placeholderData: keepPreviousData,
  });

/** One tracking run; null if there is none. Its latest values are read again while it logs. */
export const trackingRunQuery = (id: string) => ({
  ...gql(TrackingRunDetailDocument, { id }),
  refetchInterval: (q: { state: { data?: TrackingRunDetailQuery | undefined } }) => {
    const run = q.state.data?.trackingRun;
    return run && logs(run.state) ? 5_000 : (false as const);
  },
});

/** The ids of an address, each once, at most as many as can be compared. */
export const comparedIds = (runs: string | undefined) =>
  [...new Set(runs?.split(",").filter((id) => /^[0-9a-f]{32}$/.test(id)))].slice(0, compareAtMost);

/** Runs to compare, also deleted ones. */
export const comparedQuery = (id: string, ids: readonly string[]) => ({
  ...gql(ExperimentRunsDocument, {
    id,
    filter: `attributes.run_id IN (${ids.map((x) => `'${x}'`).join(", ")})`,
    orderBy: [],
    view: TrackingView.All,
    first: compareAtMost,
    after: null,
  }),
  enabled: ids.length > 0,
  refetchInterval: (q: { state: { data?: ExperimentRunsQuery | undefined } }) =>
    pollOf(q.state.data && [q.state.data]),
});
