import { createFileRoute } from "@tanstack/react-router";
import { compute } from "@/features/machines/kinds";
import { MachinePage } from "@/features/machines/MachinePage";
import { machineQuery } from "@/features/machines/queries";

export const Route = createFileRoute("/_app/compute/$machineId")({
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(machineQuery(compute, params.machineId));
  },
  component: Page,
});

function Page() {
  const { machineId } = Route.useParams();
  return <MachinePage key={machineId} kind={compute} id={machineId} />;
}
