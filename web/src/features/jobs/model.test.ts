import { expect, it } from "vitest";
import type { JobFullFragment } from "@/gql/gen";
import { emptyJob, modelOf, newTask, parseModel, toCreate, toUpdate } from "./model";

it("keeps where a job and its tasks run, also where that was deleted", () => {
  const task = { ...newTask("a"), command: "true", compute: null, computeId: "cmp_2" };
  const job = { ...emptyJob, id: "job_1", command: null, tasks: [task], compute: null, computeId: "cmp_1" };
  const model = modelOf(job as unknown as JobFullFragment);
  expect(model.compute).toBe("cmp_1");
  expect(model.tasks).toEqual([{ ...newTask("a"), command: "true", compute: "cmp_2" }]);
});

it("goes back to the workspace's agent when no compute instance is chosen", () => {
  expect(toUpdate("job_1", { ...emptyJob, name: "a", command: "true" })).toMatchObject({ compute: "" });
  expect(toUpdate("job_1", { ...emptyJob, compute: "cmp_1" })).toMatchObject({ compute: "cmp_1" });
  expect(toCreate({ ...emptyJob, compute: "gpu", computeFallback: true })).toMatchObject({
    compute: "gpu",
    computeFallback: true,
  });
});

it("understands compute in the form of REST", () => {
  const rest = {
    name: "a",
    compute: "gpu",
    compute_fallback: true,
    tasks: [{ key: "b", command: "true", compute: "big" }],
  };
  const { model } = parseModel(JSON.stringify(rest));
  expect(model).toMatchObject({ compute: "gpu", computeFallback: true, tasks: [{ compute: "big" }] });
});
