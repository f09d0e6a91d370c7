import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { ComparePage } from "@/features/experiments/ComparePage";
import { lookSearch } from "@/features/experiments/look";
import { comparedIds, comparedQuery } from "@/features/experiments/queries";
import { flag, text, texts } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/$experimentId/compare")({
  // The loader is part of the page, so that the first load has neither.
  codeSplitGroupings: [["loader", "component"]],
  validateSearch: z.object({ ...lookSearch, runs: text, same: flag, across: text, up: text, axes: texts }),
  loaderDeps: ({ search }) => ({ runs: search.runs }),
  loader: ({ context, params, deps }) => {
    const ids = comparedIds(deps.runs);
    if (ids.length > 0) void context.queryClient.prefetchQuery(comparedQuery(params.experimentId, ids));
  },
  component: () => <ComparePage experiment={Route.useParams().experimentId} place={Route.useSearch()} />,
});
