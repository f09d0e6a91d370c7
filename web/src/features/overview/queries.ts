import { OverviewDocument, type OverviewQuery } from "@/gql/gen";
import { gql } from "@/lib/graphql";

/** Everything on the overview in one request, refetched on live changes and every half minute. */
export const overviewQuery = gql(OverviewDocument, {}, { refetchInterval: 30_000 });

export type OverviewJob = OverviewQuery["jobs"]["edges"][number]["node"];
