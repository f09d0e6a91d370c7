import { createFileRoute, redirect } from "@tanstack/react-router";
import { z } from "zod";
import { ExperimentsPage } from "@/features/experiments/ExperimentsPage";
import { flag, text } from "@/lib/search";

export const Route = createFileRoute("/_app/experiments/")({
  validateSearch: z.object({ q: text, deleted: flag }),
  // MLflow's clients print links with the place after a #.
  beforeLoad: ({ location }) => {
    if (location.hash.startsWith("/experiments/")) throw redirect({ href: location.hash, replace: true });
  },
  component: () => <ExperimentsPage filter={Route.useSearch()} />,
});
