import { createFileRoute } from "@tanstack/react-router";
import { EditJobPage } from "@/features/jobs/EditJobPage";

export const Route = createFileRoute("/_app/jobs/new")({ component: () => <EditJobPage id={undefined} /> });
