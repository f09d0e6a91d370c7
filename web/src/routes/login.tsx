import { createFileRoute } from "@tanstack/react-router";
import { z } from "zod";
import { LoginPage } from "@/features/auth/LoginPage";
import { text } from "@/lib/search";

export const Route = createFileRoute("/login")({
  validateSearch: z.object({ to: text }),
  component: () => <LoginPage to={Route.useSearch().to} />,
});
