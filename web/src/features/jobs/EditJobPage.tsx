import { useQuery } from "@tanstack/react-query";
import { useTab } from "@/lib/favicon";
import { LostPage } from "@/ui/Fallbacks";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { JobEditor } from "./JobEditor";
import { emptyJob, modelOf } from "./model";
import { jobQuery } from "./queries";

/** Makes a job, or changes one. */
export function EditJobPage({ id }: { id: string | undefined }) {
  useTab(id ? "Edit job" : "New job");
  const q = useQuery({
    ...jobQuery(id ?? ""),
    enabled: id !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!id) return <JobEditor id={undefined} name="" initial={emptyJob} />;
  if (q.data?.job === null) return <LostPage what="job" />;
  if (q.data?.job) return <JobEditor key={id} id={id} name={q.data.job.name} initial={modelOf(q.data.job)} />;
  return (
    <div className="page page-narrow">
      {q.error ? <ErrorPanel error={q.error} retry={() => q.refetch()} /> : <PanelSkeleton height={480} />}
    </div>
  );
}
