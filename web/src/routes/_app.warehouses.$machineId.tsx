import { createFileRoute } from "@tanstack/react-router";
import { warehouse } from "@/features/machines/kinds";
import { MachinePage } from "@/features/machines/MachinePage";
import { machineQuery } from "@/features/machines/queries";

export const Route = createFileRoute("/_app/warehouses/$machineId")({
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(machineQuery(warehouse, params.machineId));
  },
  component: Page,
});

function Page() {
  const { machineId } = Route.useParams();
  return <MachinePage key={machineId} kind={warehouse} id={machineId} />;
}
