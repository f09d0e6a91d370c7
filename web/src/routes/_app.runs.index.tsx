import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { runsQuery } from "@/features/runs/queries";
import { RunsPage } from "@/features/runs/RunsPage";
import { RunStatus } from "@/gql/gen";
import { list, text } from "@/lib/search";

export const Route = createFileRoute("/_app/runs/")({
  validateSearch: z.object({ status: list(z.enum(RunStatus)), job: text }),
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => {
    void context.queryClient.prefetchInfiniteQuery(runsQuery(deps));
  },
  component: () => <RunsPage filter={Route.useSearch()} />,
});
