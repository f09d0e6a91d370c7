import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { compute } from "@/features/machines/kinds";
import { MachinesPage } from "@/features/machines/MachinesPage";
import { flavorsQuery, machinesQuery } from "@/features/machines/queries";

export const Route = createFileRoute("/_app/compute/")({
  validateSearch: z.object({ create: z.stringbool().or(z.boolean()).optional().catch(undefined) }),
  loader: ({ context }) => {
    void context.queryClient.prefetchInfiniteQuery(machinesQuery(compute));
    void context.queryClient.prefetchQuery(flavorsQuery);
  },
  component: () => <MachinesPage kind={compute} create={Route.useSearch().create === true} />,
});
