import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { TablePage } from "@/features/catalog/TablePage";
import { tableTabs } from "@/features/catalog/tabs";
import { text } from "@/lib/search";

export const Route = createFileRoute("/_app/catalog/table/$tableId")({
  validateSearch: z.object({
    tab: z
      .enum(tableTabs.map((t) => t.value))
      .optional()
      .catch(undefined),
    snapshot: text,
  }),
  component: Page,
});

function Page() {
  const { tableId } = Route.useParams();
  const search = Route.useSearch();
  return <TablePage key={tableId} id={tableId} tab={search.tab} snapshot={search.snapshot} />;
}
