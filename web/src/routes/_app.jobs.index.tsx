import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { JobsPage } from "@/features/jobs/JobsPage";
import { jobsQuery } from "@/features/jobs/queries";
import { text } from "@/lib/search";

export const Route = createFileRoute("/_app/jobs/")({
  validateSearch: z.object({ q: text }),
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => {
    void context.queryClient.prefetchInfiniteQuery(jobsQuery(deps.q));
  },
  component: () => <JobsPage q={Route.useSearch().q} />,
});
