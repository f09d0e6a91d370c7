import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { modals } from "@mantine/modals";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { StartRunDocument } from "@/gql/gen";
import { RequestError, request } from "@/lib/graphql";
import { failed } from "@/lib/notify";

export interface Startable {
  id: string;
  name: string;
  parameters: readonly { name: string; value: string }[];
}

/** The job of a run with its current parameters, and the values that the run had. */
export function startAgain(run: {
  jobId: string;
  jobName: string;
  parameters: Values;
  job: { parameters: Values } | null;
}): Startable {
  const had = new Map(run.parameters.map((p) => [p.name, p.value]));
  const parameters = run.job?.parameters.map((p) => ({ ...p, value: had.get(p.name) ?? p.value })) ?? [];
  return { id: run.jobId, name: run.jobName, parameters };
}

type Values = readonly { name: string; value: string }[];

const modalId = "start-run";

/** Starts a run of a job and opens it: at once, or after asking for its parameters. */
export function useStartRun() {
  const navigate = useNavigate();
  const qc = useQueryClient();
  const start = useMutation({
    mutationFn: (v: { job: Startable; parameters?: Values }) =>
      request(StartRunDocument, {
        input: { jobId: v.job.id, ...(v.parameters ? { parameters: v.parameters } : {}) },
      }),
    onSuccess: ({ startRun: { run } }) => {
      for (const key of ["JobsList", "JobRuns", "RunsList", "Overview"])
        void qc.invalidateQueries({ queryKey: [key] });
      void navigate({ to: "/runs/$runId", params: { runId: run.id } });
    },
    onError: (e, v) => failed(startFailed(e, v.job.name), e),
  });
  const ask = (job: Startable) => {
    if (job.parameters.length === 0) return start.mutate({ job });
    modals.open({
      modalId,
      title: `Run ${job.name}`,
      children: (
        <Parameters
          job={job}
          onStart={(parameters) => {
            modals.close(modalId);
            start.mutate({ job, parameters });
          }}
        />
      ),
    });
  };
  return { ask, startWith: start.mutate, pending: start.isPending };
}

function startFailed(e: unknown, name: string): string {
  if (e instanceof RequestError && e.code === "QUOTA_EXCEEDED")
    return "The workspace's limit of running runs is reached";
  return `${name} could not be started`;
}

function Parameters({ job, onStart }: { job: Startable; onStart: (p: Values) => void }) {
  const [values, setValues] = useState(() => job.parameters.map((p) => p.value));
  const submit = (e: FormEvent) => {
    e.preventDefault();
    onStart(job.parameters.map((p, i) => ({ name: p.name, value: values[i] ?? "" })));
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Text size="sm" c="dimmed">
          Each value reaches the tasks as an environment variable of the same name.
        </Text>
        {job.parameters.map((p, i) => (
          <TextInput
            key={p.name}
            label={p.name}
            labelProps={{ className: "mono" }}
            description={p.value ? `Default: ${p.value}` : undefined}
            value={values[i] ?? ""}
            onChange={(e) => setValues(values.with(i, e.currentTarget.value))}
            data-autofocus={i === 0 || undefined}
          />
        ))}
        <Group justify="flex-end">
          <Button variant="default" onClick={() => modals.close(modalId)}>
            Not now
          </Button>
          <Button type="submit" leftSection={<IconPlayerPlay size={16} />}>
            Run
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
