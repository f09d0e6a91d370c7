import {
  Checkbox,
  NumberInput,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { ComputeSelect } from "./ComputeSelect";
import { FilesForm } from "./FilesForm";
import { type Errors, number, Retries, Timeout } from "./fields";
import { type JobModel, newTask } from "./model";
import { ScheduleForm } from "./ScheduleForm";
import { TasksEditor } from "./TasksEditor";
import { VariablesForm } from "./VariablesForm";

/** A job as a form. */
export function JobForm({
  model: m,
  onChange,
  errors,
}: {
  model: JobModel;
  onChange: (m: JobModel) => void;
  errors: Errors;
}) {
  const set = (p: Partial<JobModel>) => onChange({ ...m, ...p });
  return (
    <>
      <section className="card card-pad" aria-label="General">
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <TextInput
            label="Name"
            withAsterisk
            value={m.name}
            onChange={(e) => set({ name: e.currentTarget.value })}
            error={errors.get("name")}
            data-autofocus
          />
          <TextInput
            label="Description"
            value={m.description}
            onChange={(e) => set({ description: e.currentTarget.value })}
            error={errors.get("description")}
          />
        </SimpleGrid>
      </section>
      <section className="card" aria-label="What to run">
        <div className="section-title" style={{ alignItems: "center" }}>
          <h2>What to run</h2>
          <SegmentedControl
            size="xs"
            aria-label="Kind of job"
            value={m.tasks ? "tasks" : "command"}
            onChange={(v) =>
              set(
                v === "tasks"
                  ? { tasks: [{ ...newTask("first"), command: m.command ?? "" }], command: null }
                  : { tasks: null, command: m.tasks?.[0]?.command ?? "" },
              )
            }
            data={[
              { value: "command", label: "One command" },
              { value: "tasks", label: "Tasks" },
            ]}
          />
        </div>
        {m.tasks ? (
          <TasksEditor tasks={m.tasks} onChange={(tasks) => set({ tasks })} errors={errors} />
        ) : (
          <Stack gap="sm" px="md" pb="md">
            <Textarea
              className="code-input"
              label="Command"
              description="Run by sh -c on an agent."
              withAsterisk
              autosize
              minRows={4}
              maxRows={18}
              spellCheck={false}
              value={m.command ?? ""}
              onChange={(e) => set({ command: e.currentTarget.value })}
              error={errors.get("command")}
            />
            <SimpleGrid cols={{ base: 1, sm: 2 }}>
              <Retries
                value={m.maxRetries}
                onChange={(maxRetries) => set({ maxRetries })}
                error={errors.get("maxRetries")}
              />
              <Timeout
                value={m.timeoutSeconds}
                onChange={(timeoutSeconds) => set({ timeoutSeconds })}
                error={errors.get("timeoutSeconds")}
              />
            </SimpleGrid>
          </Stack>
        )}
      </section>
      <section className="card card-pad" aria-label="Where it runs">
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <ComputeSelect
            label="Runs on"
            description={
              m.tasks ? "Its tasks run there, except those that name another compute instance." : undefined
            }
            without="The workspace's agent"
            value={m.compute}
            onChange={(compute) => set({ compute, ...(compute ? {} : { computeFallback: false }) })}
            error={errors.get("compute")}
          />
          {(m.compute || m.computeFallback || m.tasks?.some((t) => t.compute)) && (
            <Checkbox
              className="fallback"
              label="Run on the workspace's agent if it is not available"
              description="If the instance cannot start, was deleted, or was stopped and the task has retries left. Else its tasks wait for it, or fail with the reason."
              checked={m.computeFallback}
              onChange={(e) => set({ computeFallback: e.currentTarget.checked })}
              error={errors.get("computeFallback")}
            />
          )}
        </SimpleGrid>
      </section>
      <ScheduleForm
        schedule={m.schedule}
        onChange={(schedule) => set({ schedule })}
        error={errors.get("schedule.cron") ?? errors.get("cron") ?? errors.get("schedule")}
      />
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <section className="card card-pad" aria-label="Parameters">
          <VariablesForm
            title="Parameters"
            description="Names and defaults. Whoever starts a run may change the values."
            add="Add a parameter"
            path="parameters"
            list={m.parameters}
            onChange={(parameters) => set({ parameters })}
            errors={errors}
          />
        </section>
        <section className="card card-pad" aria-label="Environment">
          <VariablesForm
            title="Environment"
            description="Variables that every task sees. Not for secrets: whoever sees the job sees them."
            add="Add a variable"
            path="environment"
            list={m.environment}
            onChange={(environment) => set({ environment })}
            errors={errors}
          />
        </section>
      </SimpleGrid>
      <FilesForm files={m.files} onChange={(files) => set({ files })} errors={errors} />
      <section className="card card-pad" aria-label="Limits">
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <NumberInput
            label="Runs of this job at once"
            description="Further runs wait as pending. 0 means no limit."
            min={0}
            allowDecimal={false}
            value={m.maxConcurrentRuns}
            onChange={(v) => set({ maxConcurrentRuns: number(v) })}
            error={errors.get("maxConcurrentRuns")}
          />
          <Text size="xs" c="dimmed" style={{ alignSelf: "end" }}>
            The workspace has its own limit, under Settings.
          </Text>
        </SimpleGrid>
      </section>
    </>
  );
}
