import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { runsFilter, runsQuery } from "@/features/runs/queries";
import { RunsPage } from "@/features/runs/RunsPage";
import { choices, text } from "@/lib/search";

export const Route = createFileRoute("/_app/runs/")({
  validateSearch: z.object({ status: choices, job: text }),
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => {
    const { filter, unknown } = runsFilter(deps);
    if (unknown.length === 0) void context.queryClient.prefetchInfiniteQuery(runsQuery(filter));
  },
  component: () => <RunsPage {...runsFilter(Route.useSearch())} />,
});
