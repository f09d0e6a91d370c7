import { createFileRoute } from "@tanstack/react-router";
import { MembersPage } from "@/features/members/MembersPage";
import { membersQuery } from "@/features/members/queries";

export const Route = createFileRoute("/_app/members")({
  loader: ({ context }) => {
    void context.queryClient.prefetchInfiniteQuery(membersQuery);
  },
  component: MembersPage,
});
