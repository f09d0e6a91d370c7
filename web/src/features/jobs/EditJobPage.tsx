import { useQuery } from "@tanstack/react-query";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { sessionQuery } from "@/lib/session";
import { ForbiddenPage, LostPage } from "@/ui/Fallbacks";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { JobEditor } from "./JobEditor";
import { emptyJob, modelOf } from "./model";
import { jobQuery } from "./queries";

/** Creates or edits a job, for editors. */
export function EditJobPage({ id }: { id: string | undefined }) {
  const title = id ? "Edit job" : "New job";
  useTab(title);
  const session = useQuery(sessionQuery);
  const viewer = session.data?.viewer;
  if (session.isPending)
    return (
      <div className="page page-narrow">
        <PanelSkeleton height={480} />
      </div>
    );
  if (viewer && !includes(viewer.role, Role.Editor))
    return <ForbiddenPage title={title} role={Role.Editor} mine={viewer.role} />;
  return <Editor id={id} />;
}

function Editor({ id }: { id: string | undefined }) {
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
