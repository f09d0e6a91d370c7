import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { HistoryPage } from "@/features/sql/HistoryPage";
import { historyFilter } from "@/features/sql/queries";
import { StatementPurpose } from "@/gql/gen";
import { choices, text } from "@/lib/search";

export const Route = createFileRoute("/_app/sql/history")({
  validateSearch: z.object({
    state: choices,
    purpose: z.enum(StatementPurpose).optional().catch(undefined),
    warehouse: text,
    run: text,
    mine: z.stringbool().or(z.boolean()).optional().catch(undefined),
    q: text,
  }),
  component: () => <HistoryPage {...historyFilter(Route.useSearch())} />,
});
