import { MantineProvider } from "@mantine/core";
import { render, screen, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { MachineState } from "@/gql/gen";
import type { MachineRow } from "@/lib/machine";
import { LifeCycle } from "./LifeCycle";

const machine = (m: Partial<MachineRow>) =>
  ({ state: "STOPPED", message: null, stateSince: "2026-01-01T00:00:00Z", restarts: 0, ...m }) as MachineRow;
const show = (m: Partial<MachineRow>) =>
  render(
    <MantineProvider env="test">
      <LifeCycle machine={machine(m)} />
    </MantineProvider>,
  );
const states = () => within(screen.getByRole("list")).getAllByRole("listitem");

it.each(Object.values(MachineState))("marks the present state, %s, and no other", (state) => {
  show({ state });
  expect(states()).toHaveLength(5);
  const marked = states().filter((s) => s.getAttribute("aria-current") === "step");
  expect(marked.map((s) => s.getAttribute("data-state"))).toEqual([state]);
});

it("shows the reason of a failure and the number of restarts", () => {
  show({ state: "FAILED", message: "Its agent did not connect within 5m.", restarts: 2 });
  expect(screen.getByRole("alert")).toHaveTextContent("Its agent did not connect within 5m.");
  expect(screen.getByText(/made again 2 times/)).toBeInTheDocument();
});

it("shows the message of a state that is no failure as text", () => {
  show({ state: "STARTING", message: "Started by ada." });
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText("Started by ada.")).toBeInTheDocument();
});
