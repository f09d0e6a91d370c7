import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, it } from "vitest";
import { newTask, type TaskModel } from "./model";
import { TasksEditor } from "./TasksEditor";
import { byPath, validateTasks } from "./validate";

let now: TaskModel[] = [];
function Editor({ initial }: { initial: TaskModel[] }) {
  const [tasks, setTasks] = useState(initial);
  now = tasks;
  return <TasksEditor tasks={tasks} onChange={setTasks} errors={byPath(validateTasks(tasks))} />;
}
const task = (key: string, ...dependsOn: string[]) => ({ ...newTask(key, dependsOn), command: "true" });
const show = (...tasks: TaskModel[]) => {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  client.setQueryData(["JobCompute", {}], { computeInstances: { edges: [] } });
  render(
    <QueryClientProvider client={client}>
      <MantineProvider env="test">
        <Editor initial={tasks} />
      </MantineProvider>
    </QueryClientProvider>,
  );
};

it("renames a task in its dependents", async () => {
  show(task("a"), task("b", "a"));
  await userEvent.type(screen.getByRole("textbox", { name: "Key" }), "lpha");
  expect(now[1]?.dependsOn).toEqual(["alpha"]);
});

it("adds a task after the chosen one, with a key of its own", async () => {
  show(task("a"), task("task-3"));
  await userEvent.click(screen.getByRole("button", { name: "Add a task after a" }));
  expect(now[2]).toMatchObject({ key: "task-4", dependsOn: ["a"] });
});

it("removes a task from its dependents", async () => {
  show(task("a"), task("b", "a"));
  await userEvent.click(screen.getByRole("button", { name: "Remove this task" }));
  expect(now).toMatchObject([{ key: "b", dependsOn: [] }]);
});

it("lists errors, and leads to each", async () => {
  show(task("a", "b"), task("b", "a"));
  expect(screen.getByRole("list", { name: "To put right" })).toHaveTextContent("in a circle: ");
});
