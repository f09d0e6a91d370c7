import { createFileRoute, redirect } from "@tanstack/react-router";
import { Shell } from "@/features/shell/Shell";
import { sessionQuery } from "@/lib/session";

export const Route = createFileRoute("/_app")({
  beforeLoad: async ({ context, location }) => {
    const { viewer } = await context.queryClient.ensureQueryData(sessionQuery);
    if (!viewer) throw redirect({ to: "/login", search: { to: location.href } });
  },
  component: Shell,
});
