import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import {
  CronPreviewDocument,
  JobDetailDocument,
  JobRunsDocument,
  JobsListDocument,
  type RunStatus,
} from "@/gql/gen";
import { gql, request } from "@/lib/graphql";

/** Jobs whose name contains q, newest first, each with its last runs. */
export const jobsQuery = (q: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["JobsList", { q }],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      request(JobsListDocument, { first: 25, after: pageParam, filter: { search: q ?? null } }, signal),
    getNextPageParam: (p) => (p.jobs.pageInfo.hasNextPage ? p.jobs.pageInfo.endCursor : undefined),
    placeholderData: keepPreviousData,
  });

export const jobQuery = (id: string) => gql(JobDetailDocument, { id });

/** Runs of one job, newest first. */
export const jobRunsQuery = (id: string, status?: RunStatus[]) =>
  infiniteQueryOptions({
    queryKey: ["JobRuns", { id, status }],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      request(JobRunsDocument, { id, first: 25, after: pageParam, status: status ?? null }, signal),
    getNextPageParam: (p) => (p.job?.runs.pageInfo.hasNextPage ? p.job.runs.pageInfo.endCursor : undefined),
    placeholderData: keepPreviousData,
  });

/** The next times of a cron line, before it is saved. */
export const cronQuery = (cron: string, timeZone: string) =>
  gql(
    CronPreviewDocument,
    { cron, timeZone, count: 5 },
    { staleTime: 60_000, retry: false, placeholderData: keepPreviousData },
  );
