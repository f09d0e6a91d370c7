import { describe, expect, it } from "vitest";
import { emptyJob, newTask, parseModel, toCreate, toUpdate } from "./model";
import { findCycle, pathOf, validateJob, validateTasks } from "./validate";

const task = (key: string, ...dependsOn: string[]) => ({ ...newTask(key, dependsOn), command: "true" });
const problems = (...tasks: ReturnType<typeof task>[]) =>
  validateTasks(tasks).map((i) => `${i.path}: ${i.message}`);

describe("tasks", () => {
  it("accepts a fan-out and a fan-in", () => {
    expect(problems(task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))).toEqual([]);
  });
  it("names the key that two tasks have", () => {
    expect(problems(task("a"), task("b"), task("a"))).toEqual([
      "tasks.2.key: Another task has the key a already.",
    ]);
  });
  it("names a dependency that nobody declares", () => {
    expect(problems(task("a"), task("b", "x"))).toEqual(["tasks.1.dependsOn: There is no task x."]);
  });
  it("refuses a task that waits for itself", () => {
    expect(problems(task("a", "a"))).toEqual(["tasks.0.dependsOn: A task cannot wait for itself."]);
  });
  it("shows the circle", () => {
    const [issue] = problems(task("start"), task("a", "start", "c"), task("b", "a"), task("c", "b"));
    expect(issue).toContain("in a circle: ");
    for (const key of ["a", "b", "c"]) expect(issue).toContain(key);
    expect(issue).not.toContain("start");
  });
  it("asks for keys that can stand in an address, and for commands", () => {
    expect(
      problems(task("a b"), task(".x"), { ...task("c"), command: " " }).map((p) => p.split(":")[0]),
    ).toEqual(["tasks.0.key", "tasks.1.key", "tasks.2.command"]);
  });
  it("refuses more than a thousand", () => {
    const many = Array.from({ length: 1001 }, (_, i) => task(`t${i}`));
    expect(problems(...many)).toEqual(["tasks: A job has at most 1000 tasks; here are 1001."]);
  });
});

describe("findCycle", () => {
  it("finds one in a long chain without running out of stack", () => {
    const n = 1000;
    const chain = Array.from({ length: n }, (_, i) => ({
      key: `t${i}`,
      dependsOn: i ? [`t${i - 1}`] : [`t${n - 1}`],
    }));
    expect(findCycle(chain)).toHaveLength(n);
  });
  it("is null for random graphs whose tasks only wait for earlier ones, and not for their reversal with a link back", () => {
    for (let seed = 1; seed < 50; seed++) {
      const tasks = Array.from({ length: 30 }, (_, i) => ({
        key: `t${i}`,
        dependsOn: Array.from(
          { length: i ? (seed * 7 + i) % 4 : 0 },
          (_, k) => `t${(seed * 13 + i * 5 + k * 3) % i}`,
        ),
      }));
      expect(findCycle(tasks)).toBeNull();
      const last = tasks.findLast((t) => t.dependsOn.length > 0);
      if (!last) continue;
      const back = tasks.map((t) =>
        t.key === last.dependsOn[0] ? { ...t, dependsOn: [...t.dependsOn, last.key] } : t,
      );
      const cycle = findCycle(back);
      expect(cycle).not.toBeNull();
      const byKey = new Map(back.map((t) => [t.key, t]));
      cycle?.forEach((key, i) => {
        expect(byKey.get(cycle[(i + 1) % cycle.length] as string)?.dependsOn).toContain(key);
      });
    }
  });
});

describe("job", () => {
  const job = { ...emptyJob, name: "x", command: "true" };
  it("needs a name and something to run", () => {
    expect(validateJob(emptyJob).map((i) => i.path)).toEqual(["name", "command"]);
    expect(validateJob(job)).toEqual([]);
  });
  it("refuses names of variables that a shell could not have, twice, or that are the platform's", () => {
    const v = (name: string) => ({ name, value: "" });
    const parameters = [v("OK"), v("1X"), v("OK"), v("MILLPOND_TOKEN")];
    expect(validateJob({ ...job, parameters }).map((i) => i.path)).toEqual([
      "parameters.1.name",
      "parameters.2.name",
      "parameters.3.name",
    ]);
  });
  it("sends a command or tasks, and clears the other in an update", () => {
    expect(toCreate(job)).not.toHaveProperty("tasks");
    expect(toUpdate("job_1", job)).toMatchObject({ command: "true", tasks: [] });
    const dag = { ...job, command: null, tasks: [task("a")] };
    expect(toCreate(dag)).not.toHaveProperty("command");
    expect(toUpdate("job_1", dag)).toMatchObject({ command: "", tasks: [{ key: "a" }] });
  });
  it("refuses paths out of the working directory, twice, and too many bytes", () => {
    const file = (path: string, size = 1) => ({ path, size, sha256: "", executable: false });
    const files = ["a.sh", "/etc/passwd", "../x", "a//b", "a.sh", "", "lib/b.sh"].map((p) => file(p));
    expect(validateJob({ ...job, files }).map((i) => i.path)).toEqual(
      [1, 2, 3, 4, 5].map((i) => `files.${i}.path`),
    );
    expect(validateJob({ ...job, files: [file("a", 3 << 20), file("b", 2 << 20)] })[0]?.path).toBe("files");
    expect(validateJob({ ...job, files: [file("a", 4 << 20)] })).toEqual([]);
  });
  it("reads its own JSON back", () => {
    const dag = { ...job, command: null, tasks: [task("a"), task("b", "a")] };
    expect(parseModel(JSON.stringify(dag))).toEqual({ model: dag, error: null });
  });
  it("reads the API's JSON: REST's names, variables as an object, null for what is left out", () => {
    const rest = {
      name: "hello",
      command: null,
      parameters: { WHO: "pond", SNAKE_CASE: "stays" },
      max_concurrent_runs: 2,
      tasks: [
        { key: "some_key", command: "true", environment: { A: "1" } },
        { key: "b", command: "true", depends_on: ["some_key"], max_retries: 1, timeout_seconds: 9 },
      ],
      schedule: { cron: "@daily", time_zone: "Europe/Rome" },
      files: null,
    };
    const { model, error } = parseModel(JSON.stringify(rest));
    expect(error).toBeNull();
    expect(model).toEqual({
      ...emptyJob,
      name: "hello",
      command: null,
      parameters: [
        { name: "WHO", value: "pond" },
        { name: "SNAKE_CASE", value: "stays" },
      ],
      maxConcurrentRuns: 2,
      tasks: [
        { ...task("some_key"), environment: [{ name: "A", value: "1" }] },
        { ...task("b", "some_key"), maxRetries: 1, timeoutSeconds: 9 },
      ],
      schedule: { cron: "@daily", timeZone: "Europe/Rome", paused: false },
    });
  });
  it("refuses a field that is there by both names, and a command beside tasks", () => {
    expect(parseModel('{"name": "x", "maxRetries": 1, "max_retries": 2}').error).toMatch(/"max_retries"/);
    const both = parseModel('{"name": "x", "command": "a", "tasks": [{"key": "a", "command": "b"}]}').model;
    expect(both && validateJob(both).map((i) => i.path)).toEqual(["command"]);
  });
  it("says what is wrong with JSON that is no job", () => {
    expect(parseModel('{"name": "x", "parameters": {"A": 1}}').error).toMatch(/^parameters\.0\.value: /);
    expect(parseModel('{"name": "x", "max_retry": 1}').error).toMatch(/"max_retry"/);
    expect(parseModel("{").error).toMatch(/not JSON yet/);
    expect(parseModel('{"name": 1}').error).toMatch(/^name: /);
    expect(parseModel('{"name": "x", "task": []}').error).toMatch(/task/);
    expect(
      parseModel('{"name": "x", "tasks": [{"key": "a", "command": "b", "maxRetries": -1}]}').error,
    ).toMatch(/^tasks\.0\.maxRetries: /);
  });
});

it("pathOf reads the server's names of fields", () => {
  expect(pathOf("tasks[2].depends_on")).toBe("tasks.2.dependsOn");
  expect(pathOf("max_concurrent_runs")).toBe("maxConcurrentRuns");
});
