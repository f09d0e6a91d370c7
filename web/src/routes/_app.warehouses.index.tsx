import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { warehouse } from "@/features/machines/kinds";
import { MachinesPage } from "@/features/machines/MachinesPage";
import { flavorsQuery, machinesQuery } from "@/features/machines/queries";

export const Route = createFileRoute("/_app/warehouses/")({
  validateSearch: z.object({ create: z.stringbool().or(z.boolean()).optional().catch(undefined) }),
  loader: ({ context }) => {
    void context.queryClient.prefetchInfiniteQuery(machinesQuery(warehouse));
    void context.queryClient.prefetchQuery(flavorsQuery);
  },
  component: () => <MachinesPage kind={warehouse} create={Route.useSearch().create === true} />,
});
