import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { JobPage } from "@/features/jobs/JobPage";
import { jobQuery } from "@/features/jobs/queries";
import { choices } from "@/lib/search";

export const Route = createFileRoute("/_app/jobs/$jobId/")({
  validateSearch: z.object({ status: choices }),
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(jobQuery(params.jobId));
  },
  component: Page,
});

function Page() {
  const { jobId } = Route.useParams();
  return <JobPage key={jobId} id={jobId} status={Route.useSearch().status} />;
}
