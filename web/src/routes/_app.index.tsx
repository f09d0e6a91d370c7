import { createFileRoute } from "@tanstack/react-router";
import { OverviewPage } from "@/features/overview/OverviewPage";
import { overviewQuery } from "@/features/overview/queries";

export const Route = createFileRoute("/_app/")({
  loader: ({ context }) => {
    void context.queryClient.prefetchQuery(overviewQuery);
  },
  component: OverviewPage,
});
