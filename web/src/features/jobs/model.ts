import { z } from "zod";
import type { CreateJobInput, JobFullFragment, UpdateJobInput } from "@/gql/gen";

const whole = z.number().int().min(0);
const variable = z.strictObject({ name: z.string(), value: z.string() });
const task = z.strictObject({
  key: z.string(),
  command: z.string(),
  dependsOn: z.array(z.string()).default([]),
  maxRetries: whole.default(0),
  timeoutSeconds: whole.default(0),
  environment: z.array(variable).default([]),
  /** Id or name of the compute instance it runs on; null for the job's own. */
  compute: z.string().nullable().default(null),
});

const file = z.strictObject({
  path: z.string(),
  /** Base64; absent for a file that the server has already. */
  content: z.string().optional(),
  sha256: z.string().optional(),
  size: whole.optional(),
  executable: z.boolean().default(false),
});

/**
 * A job in the editor. It has the fields of createJob's input in GraphQL, so its JSON is that
 * input.
 */
export const jobModel = z.strictObject({
  name: z.string(),
  description: z.string().default(""),
  command: z.string().nullable().default(null),
  tasks: z.array(task).nullable().default(null),
  maxRetries: whole.default(0),
  timeoutSeconds: whole.default(0),
  environment: z.array(variable).default([]),
  parameters: z.array(variable).default([]),
  schedule: z
    .strictObject({
      cron: z.string(),
      timeZone: z.string().default("UTC"),
      paused: z.boolean().default(false),
    })
    .nullable()
    .default(null),
  maxConcurrentRuns: whole.default(0),
  /** Id or name of the compute instance that the tasks run on; null for the workspace's agent. */
  compute: z.string().nullable().default(null),
  computeFallback: z.boolean().default(false),
  files: z.array(file).default([]),
});

export type JobModel = z.infer<typeof jobModel>;
export type TaskModel = z.infer<typeof task>;
export type FileModel = z.infer<typeof file>;
export type VariableModel = z.infer<typeof variable>;

export const newTask = (key: string, dependsOn: string[] = []): TaskModel => ({
  key,
  command: "",
  dependsOn,
  maxRetries: 0,
  timeoutSeconds: 0,
  environment: [],
  compute: null,
});

export const emptyJob: JobModel = {
  name: "",
  description: "",
  command: "",
  tasks: null,
  maxRetries: 0,
  timeoutSeconds: 0,
  environment: [],
  parameters: [],
  schedule: null,
  maxConcurrentRuns: 0,
  compute: null,
  computeFallback: false,
  files: [],
};

/** The model of an existing job. */
export function modelOf(j: JobFullFragment): JobModel {
  const copy = (v: readonly VariableModel[]) => v.map(({ name, value }) => ({ name, value }));
  return {
    name: j.name,
    description: j.description,
    command: j.command,
    tasks:
      j.tasks?.length || !j.command
        ? (j.tasks ?? []).map((t) => ({
            key: t.key,
            command: t.command,
            dependsOn: [...t.dependsOn],
            maxRetries: t.maxRetries,
            timeoutSeconds: t.timeoutSeconds,
            environment: copy(t.environment),
            compute: t.computeId,
          }))
        : null,
    maxRetries: j.maxRetries,
    timeoutSeconds: j.timeoutSeconds,
    environment: copy(j.environment),
    parameters: copy(j.parameters),
    schedule: j.schedule && {
      cron: j.schedule.cron,
      timeZone: j.schedule.timeZone,
      paused: j.schedule.paused,
    },
    maxConcurrentRuns: j.maxConcurrentRuns,
    compute: j.computeId,
    computeFallback: j.computeFallback,
    files: j.files.map(({ path, sha256, size, executable }) => ({ path, sha256, size, executable })),
  };
}

/** Input that creates the job. */
export function toCreate(m: JobModel): CreateJobInput {
  const { command, tasks, ...rest } = m;
  return tasks ? { ...rest, tasks } : { ...rest, command };
}

/**
 * Input that updates an existing job to the model. It clears the command or the tasks; without a
 * compute instance the job returns to the workspace's agent.
 */
export function toUpdate(id: string, m: JobModel): UpdateJobInput {
  const { command, tasks, ...same } = m;
  const rest = { ...same, compute: m.compute ?? "" };
  return tasks ? { id, ...rest, tasks, command: "" } : { id, ...rest, command, tasks: [] };
}

export type Parsed = { model: JobModel; error: null } | { model: null; error: string };

const isObject = (v: unknown): v is Record<string, unknown> =>
  typeof v === "object" && v !== null && !Array.isArray(v);
/** REST names of fields that differ from GraphQL's. */
const names: Readonly<Record<string, string>> = {
  depends_on: "dependsOn",
  max_retries: "maxRetries",
  timeout_seconds: "timeoutSeconds",
  max_concurrent_runs: "maxConcurrentRuns",
  compute_fallback: "computeFallback",
  time_zone: "timeZone",
};

/** Converts REST's variables (an object) to GraphQL's (a list of names and values). */
const listed = (v: unknown) =>
  isObject(v) ? Object.entries(v).map(([name, value]) => ({ name, value })) : v;

/**
 * Renames a REST object's fields as in GraphQL; null counts as omitted. A field with both names
 * keeps both.
 */
function renamed(v: unknown): unknown {
  if (Array.isArray(v)) return v.map(renamed);
  if (!isObject(v)) return v;
  const entries = Object.entries(v).filter(([, value]) => value !== null);
  return Object.fromEntries(
    entries.map(([key, value]) => {
      const name = names[key] ?? key;
      const to = name in v ? key : name;
      return [to, to === "environment" || to === "parameters" ? listed(value) : renamed(value)];
    }),
  );
}

/** The model in a JSON text, in the form of GraphQL or REST, or its error. */
export function parseModel(text: string): Parsed {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (e) {
    return { model: null, error: `This is not JSON yet: ${(e as Error).message}.` };
  }
  const r = jobModel.safeParse(renamed(value));
  if (r.success) return { model: r.data, error: null };
  const issue = r.error.issues[0];
  return { model: null, error: `${issue?.path.join(".") || "The job"}: ${issue?.message}.` };
}
