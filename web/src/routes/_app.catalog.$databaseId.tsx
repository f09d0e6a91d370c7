import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { DatabasePage } from "@/features/catalog/DatabasePage";
import { TableKind } from "@/gql/gen";
import { text } from "@/lib/search";

export const Route = createFileRoute("/_app/catalog/$databaseId")({
  validateSearch: z.object({
    schema: text,
    kind: z.enum(TableKind).optional().catch(undefined),
    tab: z.literal("maintenance").optional().catch(undefined),
    dropped: z.stringbool().or(z.boolean()).optional().catch(undefined),
  }),
  component: Page,
});

function Page() {
  const { databaseId } = Route.useParams();
  const { tab, ...filter } = Route.useSearch();
  return <DatabasePage key={databaseId} id={databaseId} filter={filter} tab={tab} />;
}
