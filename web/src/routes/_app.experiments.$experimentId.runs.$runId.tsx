import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { lookSearch } from "@/features/experiments/look";
import { trackingRunQuery } from "@/features/experiments/queries";
import { TrackingRunPage } from "@/features/experiments/TrackingRunPage";

export const Route = createFileRoute("/_app/experiments/$experimentId/runs/$runId")({
  // The loader is part of the page, so that the first load has neither.
  codeSplitGroupings: [["loader", "component"]],
  validateSearch: z.object(lookSearch),
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(trackingRunQuery(params.runId));
  },
  component: Page,
});

function Page() {
  const { experimentId, runId } = Route.useParams();
  return <TrackingRunPage key={runId} experiment={experimentId} id={runId} place={Route.useSearch()} />;
}
