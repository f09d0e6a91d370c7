import { createFileRoute } from "@tanstack/react-router";
import { MaintenancePage } from "@/features/catalog/MaintenancePage";

export const Route = createFileRoute("/_app/catalog/maintenance")({ component: MaintenancePage });
