import { createFileRoute } from "@tanstack/react-router";
import { placesQuery, settingsQuery } from "@/features/settings/queries";
import { SettingsPage } from "@/features/settings/SettingsPage";

export const Route = createFileRoute("/_app/settings")({
  loader: ({ context }) => {
    void context.queryClient.prefetchQuery(settingsQuery);
    void context.queryClient.prefetchQuery(placesQuery);
  },
  component: SettingsPage,
});
