import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { expect, it, vi } from "vitest";
import { LogViewer } from "./LogViewer";
import { LogStore } from "./logStore";

function filled(lines: number) {
  const store = new LogStore();
  const text = Array.from({ length: lines }, (_, i) => `row ${i}\n`).join("");
  store.push([{ offset: 0, stderr: false, firstLine: 1, at: 0, bytes: new TextEncoder().encode(text) }]);
  return store;
}
const show = (store: LogStore, onLine = vi.fn()) =>
  render(
    <MantineProvider env="test">
      <LogViewer store={store} live={false} onLine={onLine} download="/log" empty="Nothing." />
    </MantineProvider>,
  );

it("shows the match a reader searches for, and is accessible", async () => {
  const { container } = show(filled(5000));
  await userEvent.type(screen.getByLabelText("Search the log"), "4321");
  expect(await screen.findByText("1 of 1")).toBeInTheDocument();
  expect(container.querySelector('[data-state="hit"]')).toHaveTextContent("4322row 4321");
  const r = await axe.run(container, {
    rules: { "color-contrast": { enabled: false }, region: { enabled: false } },
  });
  expect(r.violations.map((v) => v.id)).toEqual([]);
});

it("has only the lines in view in the page", () => {
  const { container } = show(filled(100_000));
  expect(container.querySelectorAll(".log-row").length).toBeLessThan(60);
});

it("links to a line by its number", async () => {
  const onLine = vi.fn();
  show(filled(10), onLine);
  await userEvent.click(screen.getByText("7"));
  expect(onLine).toHaveBeenCalledWith(7);
});

it("says what it is when there is nothing", () => {
  show(new LogStore());
  expect(screen.getByText("Nothing.")).toBeInTheDocument();
});
