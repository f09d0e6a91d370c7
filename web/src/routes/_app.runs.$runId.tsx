import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { runQuery } from "@/features/runs/queries";
import { RunPage } from "@/features/runs/RunPage";
import { count, text } from "@/lib/search";

export const Route = createFileRoute("/_app/runs/$runId")({
  validateSearch: z.object({
    task: text,
    attempt: count,
    line: count,
    view: z.enum(["graph", "gantt"]).optional().catch(undefined),
  }),
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(runQuery(params.runId));
  },
  component: Page,
});

function Page() {
  const { runId } = Route.useParams();
  return <RunPage key={runId} id={runId} place={Route.useSearch()} />;
}
