import { infiniteQueryOptions } from "@tanstack/react-query";
import { ApiKeysDocument } from "@/gql/gen";
import { request } from "@/lib/graphql";

export const apiKeysQuery = infiniteQueryOptions({
  queryKey: ["APIKeys"],
  initialPageParam: null as string | null,
  queryFn: ({ pageParam, signal }) => request(ApiKeysDocument, { first: 50, after: pageParam }, signal),
  getNextPageParam: (p) => (p.apiKeys.pageInfo.hasNextPage ? p.apiKeys.pageInfo.endCursor : undefined),
});
