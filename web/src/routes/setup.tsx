import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { SetUpPage } from "@/features/auth/SetUpPage";
import { text } from "@/lib/search";

export const Route = createFileRoute("/setup")({
  validateSearch: z.object({ token: text, email: text }),
  component: () => <SetUpPage {...Route.useSearch()} />,
});
