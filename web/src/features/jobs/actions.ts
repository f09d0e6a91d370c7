import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  CreateJobDocument,
  DeleteJobDocument,
  type JobDetailQuery,
  type JobFullFragment,
  UpdateJobDocument,
} from "@/gql/gen";
import { request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { type JobModel, toCreate, toUpdate } from "./model";
import { jobQuery } from "./queries";

function useTakeJob() {
  const qc = useQueryClient();
  return (job: JobFullFragment) => {
    qc.setQueryData<JobDetailQuery>(jobQuery(job.id).queryKey, { job });
    for (const key of ["JobsList", "Overview", "RunsJobs"]) void qc.invalidateQueries({ queryKey: [key] });
  };
}

/** Saves a job: creates it if it has no id. */
export function useSaveJob(id: string | undefined) {
  const take = useTakeJob();
  return useMutation({
    mutationFn: async (m: JobModel) =>
      id
        ? (await request(UpdateJobDocument, { input: toUpdate(id, m) })).updateJob.job
        : (await request(CreateJobDocument, { input: toCreate(m) })).createJob.job,
    onSuccess: (job) => {
      take(job);
      done(id ? "Saved. Later runs use it." : `Made the job ${job.name}.`);
    },
  });
}

/** Pauses or resumes a schedule, shown at once. */
export function usePauseSchedule(job: JobFullFragment) {
  const take = useTakeJob();
  const qc = useQueryClient();
  return useMutation({
    mutationFn: async (paused: boolean) => {
      if (!job.schedule) throw new Error("This job has no schedule.");
      const { cron, timeZone } = job.schedule;
      const input = { id: job.id, schedule: { cron, timeZone, paused } };
      return (await request(UpdateJobDocument, { input })).updateJob.job;
    },
    onMutate: (paused) => {
      if (!job.schedule) return;
      const schedule = { ...job.schedule, paused, next: paused ? [] : job.schedule.next };
      qc.setQueryData<JobDetailQuery>(jobQuery(job.id).queryKey, { job: { ...job, schedule } });
    },
    onSuccess: (j) => take(j),
    onError: (e) => {
      failed("The schedule was not changed", e);
      void qc.invalidateQueries({ queryKey: jobQuery(job.id).queryKey });
    },
  });
}

export function useDeleteJob() {
  const qc = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (job: { id: string; name: string }) => request(DeleteJobDocument, { input: { id: job.id } }),
    onSuccess: async (_, job) => {
      await navigate({ to: "/jobs" });
      qc.removeQueries({ queryKey: jobQuery(job.id).queryKey });
      for (const key of ["JobsList", "Overview", "RunsJobs"]) void qc.invalidateQueries({ queryKey: [key] });
      done(`Deleted the job ${job.name}. Its runs stay.`);
    },
    onError: (e) => failed("The job was not deleted", e),
  });
}
