import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { lookSearch } from "@/features/experiments/look";
import { TrackingRunPage } from "@/features/experiments/TrackingRunPage";

export const Route = createFileRoute("/_app/experiments/$experimentId/runs/$runId")({
  validateSearch: z.object(lookSearch),
  component: Page,
});

function Page() {
  const { experimentId, runId } = Route.useParams();
  return <TrackingRunPage key={runId} experiment={experimentId} id={runId} place={Route.useSearch()} />;
}
