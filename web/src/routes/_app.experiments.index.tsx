import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { ExperimentsPage } from "@/features/experiments/ExperimentsPage";
import { flag, text } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/")({
  validateSearch: z.object({ q: text, deleted: flag }),
  component: () => <ExperimentsPage filter={Route.useSearch()} />,
});
