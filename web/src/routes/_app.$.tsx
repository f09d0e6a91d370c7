import { createFileRoute } from "@tanstack/react-router";
import { LostPage } from "@/ui/Fallbacks";

export const Route = createFileRoute("/_app/$")({ component: () => <LostPage /> });
