import { render, screen, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, it, vi } from "vitest";
import type { TaskDetail } from "./queries";
import { Waiting } from "./Waiting";

vi.mock("@tanstack/react-router", () => ({
  Link: (p: { params: { machineId: string }; children: ReactNode }) => (
    <a href={`/compute/${p.params.machineId}`}>{p.children}</a>
  ),
}));

const gpu = { __typename: "Compute", id: "cmp_1", name: "gpu", state: "STARTING" } as const;
const starting = "Waits for the compute instance gpu, which is being started.";
const task = (key: string, t: Partial<TaskDetail> = {}) =>
  ({ key, status: "QUEUED", message: starting, compute: gpu, computeId: gpu.id, ...t }) as TaskDetail;

it("says once why tasks wait, for whom, and leads to the compute instance", () => {
  render(
    <Waiting
      tasks={[
        task("a"),
        task("b"),
        task("c"),
        task("d"),
        task("e", { message: "No slot is free.", compute: null }),
      ]}
    />,
  );
  const [first, second] = screen.getAllByRole("listitem") as [HTMLElement, HTMLElement];
  expect(first).toHaveTextContent(`a, b, c and 1 more: ${starting}`);
  expect(within(first).getByRole("link", { name: "gpu" })).toHaveAttribute("href", "/compute/cmp_1");
  expect(second).toHaveTextContent("e: No slot is free.");
  expect(within(second).queryByRole("link")).toBeNull();
});

it("is absent when no ready task waits", () => {
  const { container } = render(
    <Waiting tasks={[task("a", { status: "PENDING" }), task("b", { message: null })]} />,
  );
  expect(container).toBeEmptyDOMElement();
});
