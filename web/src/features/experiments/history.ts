import { queryOptions } from "@tanstack/react-query";
import { TrackingChartDocument, type TrackingRunPointsSubscription } from "@/gql/gen";
import { request } from "@/lib/graphql";
import type { Point } from "./series";

/** The maximum number of points of a metric that are drawn: those that a chart reads, and news. */
export const historyAtMost = 10_000;

/** A metric's points, or enough of them for its chart. */
export interface History {
  points: readonly Point[];
  /** How many the metric has up to the cursor. */
  total: number;
  /** Null before the first point, and if the points must be read again. */
  cursor: string | null;
}

type News = TrackingRunPointsSubscription["trackingRunPoints"][number];

const pointOf = (p: News["points"][number]): Point => ({
  step: Number(p.step),
  at: Number(p.timestamp),
  value: p.value,
});

/** Reads a metric's points for a chart. */
export async function readHistory(run: string, key: string, signal?: AbortSignal): Promise<History> {
  const { trackingRun } = await request(TrackingChartDocument, { run, key }, signal);
  if (!trackingRun) return { points: [], total: 0, cursor: null };
  const { points, total, cursor } = trackingRun.chart;
  return { points: points.map(pointOf), total: Number(total), cursor: cursor ?? null };
}

/** A metric's points for its chart. A chart that nobody sees soon gives them up. */
export const historyQuery = (run: string, key: string) =>
  queryOptions({
    queryKey: ["TrackingHistory", run, key],
    queryFn: ({ signal }) => readHistory(run, key, signal),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  });

/** The history with new points; without a cursor after a reset, and if it has grown too long. */
export function withNews(h: History, news: Pick<News, "points" | "total" | "cursor" | "reset">): History {
  if (news.reset || h.points.length + news.points.length > historyAtMost) return { ...h, cursor: null };
  return {
    points: [...h.points, ...news.points.map(pointOf)],
    total: Number(news.total),
    cursor: news.cursor,
  };
}

/** Where the subscription continues; null if the points must be read first. */
export const positionOf = (key: string, h: History) =>
  h.cursor === null ? null : { key, total: String(h.total), cursor: h.cursor };
