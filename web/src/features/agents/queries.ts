import { infiniteQueryOptions } from "@tanstack/react-query";
import { AgentsListDocument } from "@/gql/gen";
import { request } from "@/lib/graphql";

/** All agents. The subscription pushes changes; every minute the list is refetched. */
export const agentsQuery = infiniteQueryOptions({
  queryKey: ["AgentsList"],
  initialPageParam: null as string | null,
  queryFn: ({ pageParam, signal }) => request(AgentsListDocument, { first: 50, after: pageParam }, signal),
  getNextPageParam: (p) => (p.agents.pageInfo.hasNextPage ? p.agents.pageInfo.endCursor : undefined),
  refetchInterval: 60_000,
});
