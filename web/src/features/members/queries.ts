import { infiniteQueryOptions } from "@tanstack/react-query";
import { MembersDocument } from "@/gql/gen";
import { request } from "@/lib/graphql";

export const membersQuery = infiniteQueryOptions({
  queryKey: ["Members"],
  initialPageParam: null as string | null,
  queryFn: ({ pageParam, signal }) => request(MembersDocument, { first: 50, after: pageParam }, signal),
  getNextPageParam: (p) => (p.members.pageInfo.hasNextPage ? p.members.pageInfo.endCursor : undefined),
});
