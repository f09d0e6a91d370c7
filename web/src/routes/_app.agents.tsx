import { createFileRoute } from "@tanstack/react-router";
import { AgentsPage } from "@/features/agents/AgentsPage";
import { agentsQuery } from "@/features/agents/queries";

export const Route = createFileRoute("/_app/agents")({
  loader: ({ context }) => {
    void context.queryClient.prefetchInfiniteQuery(agentsQuery);
  },
  component: AgentsPage,
});
