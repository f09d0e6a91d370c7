import { createFileRoute } from "@tanstack/react-router";
import { EditJobPage } from "@/features/jobs/EditJobPage";
import { jobQuery } from "@/features/jobs/queries";

export const Route = createFileRoute("/_app/jobs/$jobId/edit")({
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(jobQuery(params.jobId));
  },
  component: () => <EditJobPage id={Route.useParams().jobId} />,
});
