import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { ComparePage } from "@/features/experiments/ComparePage";
import { lookSearch } from "@/features/experiments/look";
import { flag, text, texts } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/$experimentId/compare")({
  validateSearch: z.object({ ...lookSearch, runs: text, same: flag, across: text, up: text, axes: texts }),
  component: () => <ComparePage experiment={Route.useParams().experimentId} place={Route.useSearch()} />,
});
