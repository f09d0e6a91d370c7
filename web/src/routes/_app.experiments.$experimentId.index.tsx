import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { ExperimentPage } from "@/features/experiments/ExperimentPage";
import { experimentQuery, experimentRunsQuery } from "@/features/experiments/queries";
import { flag, text, texts } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/$experimentId/")({
  // The loader is part of the page, so that the first load has neither.
  codeSplitGroupings: [["loader", "component"]],
  validateSearch: z.object({ q: text, deleted: flag, sort: text, col: texts, group: text }),
  loaderDeps: ({ search: { q, deleted, sort } }) => ({ q, deleted, sort }),
  loader: ({ context, params, deps }) => {
    void context.queryClient.prefetchQuery(experimentQuery(params.experimentId));
    void context.queryClient.prefetchInfiniteQuery(experimentRunsQuery(params.experimentId, deps));
  },
  component: Page,
});

function Page() {
  const { experimentId } = Route.useParams();
  return <ExperimentPage key={experimentId} id={experimentId} place={Route.useSearch()} />;
}
