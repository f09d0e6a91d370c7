import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { APIKeysPage } from "@/features/apikeys/APIKeysPage";
import { apiKeysQuery } from "@/features/apikeys/queries";

export const Route = createFileRoute("/_app/api-keys")({
  validateSearch: z.object({ create: z.stringbool().or(z.boolean()).optional().catch(undefined) }),
  loader: ({ context }) => {
    void context.queryClient.prefetchInfiniteQuery(apiKeysQuery);
  },
  component: () => <APIKeysPage create={Route.useSearch().create === true} />,
});
