import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { SqlPage } from "@/features/sql/SqlPage";
import { text } from "@/lib/search";

export const Route = createFileRoute("/_app/sql/")({
  validateSearch: z.object({ statement: text, q: text, warehouse: text }),
  component: () => <SqlPage {...Route.useSearch()} />,
});
