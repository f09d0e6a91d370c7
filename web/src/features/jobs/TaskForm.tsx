import { MultiSelect, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import { ComputeSelect } from "./ComputeSelect";
import { type Errors, Retries, Timeout } from "./fields";
import type { TaskModel } from "./model";
import { VariablesForm } from "./VariablesForm";

/** One task of a job as a form. */
export function TaskForm({
  task: t,
  index,
  tasks,
  onChange,
  errors,
}: {
  task: TaskModel;
  index: number;
  tasks: readonly TaskModel[];
  onChange: (t: TaskModel) => void;
  errors: Errors;
}) {
  const set = (p: Partial<TaskModel>) => onChange({ ...t, ...p });
  const error = (field: string) => errors.get(`tasks.${index}.${field}`);
  const others = tasks.filter((x, i) => i !== index && x.key).map((x) => x.key);
  const options = [...new Set([...others, ...t.dependsOn])];
  return (
    <Stack gap="sm">
      <TextInput
        className="code-input"
        label="Key"
        withAsterisk
        spellCheck={false}
        value={t.key}
        onChange={(e) => set({ key: e.currentTarget.value })}
        error={error("key")}
      />
      <Textarea
        className="code-input"
        label="Command"
        withAsterisk
        autosize
        minRows={3}
        maxRows={14}
        spellCheck={false}
        value={t.command}
        onChange={(e) => set({ command: e.currentTarget.value })}
        error={error("command")}
      />
      <MultiSelect
        label="Runs after"
        description="Starts when all of these have succeeded."
        data={options}
        value={t.dependsOn}
        onChange={(dependsOn) => set({ dependsOn })}
        searchable
        limit={100}
        nothingFoundMessage="No such task"
        error={error("dependsOn")}
      />
      <ComputeSelect
        label="Runs on"
        without="Where the job runs"
        value={t.compute}
        onChange={(compute) => set({ compute })}
        error={error("compute")}
      />
      <SimpleGrid cols={2} spacing="sm">
        <Retries
          value={t.maxRetries}
          onChange={(maxRetries) => set({ maxRetries })}
          error={error("maxRetries")}
        />
        <Timeout
          value={t.timeoutSeconds}
          onChange={(timeoutSeconds) => set({ timeoutSeconds })}
          error={error("timeoutSeconds")}
        />
      </SimpleGrid>
      <VariablesForm
        title="Environment of this task"
        description="Overrides the job's environment."
        add="Add a variable"
        path={`tasks.${index}.environment`}
        list={t.environment}
        onChange={(environment) => set({ environment })}
        errors={errors}
      />
    </Stack>
  );
}
