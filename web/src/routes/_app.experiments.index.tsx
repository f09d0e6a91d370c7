import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { ExperimentsPage } from "@/features/experiments/ExperimentsPage";
import { experimentsQuery } from "@/features/experiments/queries";
import { flag, text } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/")({
  // The loader is part of the page, so that the first load has neither.
  codeSplitGroupings: [["loader", "component"]],
  validateSearch: z.object({ q: text, deleted: flag }),
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => {
    void context.queryClient.prefetchInfiniteQuery(experimentsQuery(deps));
  },
  component: () => <ExperimentsPage filter={Route.useSearch()} />,
});
