import { queryOptions } from "@tanstack/react-query";
import { TrackingPointsPageDocument, type TrackingRunPointsSubscription } from "@/gql/gen";
import { request } from "@/lib/graphql";
import type { Point } from "./series";

/** The maximum number of points that a chart reads of a metric. */
export const historyAtMost = 10_000;

/** What is known of a metric's points: those up to the cursor. */
export interface History {
  points: readonly Point[];
  /** Null before the first point. */
  cursor: string | null;
  /** Whether there are more points, which are not read. */
  more: boolean;
}

type News = TrackingRunPointsSubscription["trackingRunPoints"][number];

const pointOf = (p: News["points"][number]): Point => ({
  step: Number(p.step),
  at: Number(p.timestamp),
  value: p.value,
});

const nothing: History = { points: [], cursor: null, more: false };

/** Reads a metric's points, from where `known` ends. */
export async function readHistory(
  run: string,
  key: string,
  known: History = nothing,
  signal?: AbortSignal,
): Promise<History> {
  const points = known.cursor === null ? [] : [...known.points];
  let { cursor, more } = known;
  do {
    const answer = await request(TrackingPointsPageDocument, { run, key, after: cursor }, signal);
    const page = answer.trackingRun?.points;
    if (!page) return nothing;
    points.push(...page.points.slice(0, historyAtMost - points.length).map(pointOf));
    cursor = page.pageInfo.endCursor ?? cursor;
    more = page.pageInfo.hasNextPage;
  } while (more && points.length < historyAtMost);
  return { points, cursor, more };
}

/** A metric's points for its chart. A chart that nobody sees soon gives them up. */
export const historyQuery = (run: string, key: string) =>
  queryOptions({
    queryKey: ["TrackingHistory", run, key],
    queryFn: ({ signal, client }) => {
      const known = client.getQueryData<History>(["TrackingHistory", run, key]);
      return known?.more ? known : readHistory(run, key, known, signal);
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  });

/** The history with new points. A reset discards the position, so that it is read from its start. */
export function withNews(h: History, news: Pick<News, "points" | "cursor" | "reset">): History {
  if (news.reset) return { ...h, cursor: null, more: false };
  const room = historyAtMost - h.points.length;
  const came = news.points.slice(0, room).map(pointOf);
  return {
    points: [...h.points, ...came],
    cursor: news.cursor,
    more: h.more || news.points.length > room,
  };
}

/** Where the subscription continues; null if nothing more is to be read. */
export const positionOf = (key: string, h: History) =>
  h.cursor === null ? null : { key, total: String(h.points.length), cursor: h.cursor };
