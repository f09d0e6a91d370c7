import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { ExperimentPage } from "@/features/experiments/ExperimentPage";
import { flag, text, texts } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/$experimentId/")({
  validateSearch: z.object({ q: text, deleted: flag, sort: text, col: texts, group: text }),
  component: Page,
});

function Page() {
  const { experimentId } = Route.useParams();
  return <ExperimentPage key={experimentId} id={experimentId} place={Route.useSearch()} />;
}
