import assert from "node:assert/strict";
import { assertAccessible, eventually, label, lineNumbers, settled, shot } from "./browser.mjs";

const loop = 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "tick $i"; sleep 0.05; done';
const unique = Date.now().toString(36);
export const names = { loop: `loop-${unique}`, graph: `graph-${unique}` };

async function fillCommand(page, name, command) {
  await page.goto("/jobs/new");
  await page.getByLabel(label("Name")).fill(name);
  await page.getByLabel(label("Command")).fill(command);
}

/** Cancels the page's run after a confirmation. */
async function cancel(page) {
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: /^Cancel this run of/ });
  await dialog.getByRole("button", { name: "Cancel the run" }).click();
}

/** Creates a job of one command in the form; missing values are reported at their fields. */
export async function createCommand(page) {
  await page.goto("/jobs/new");
  await page.getByRole("button", { name: "Create job" }).click();
  await page.getByText("Give the job a name.", { exact: true }).waitFor();
  await page.getByText("Say what to run.", { exact: true }).waitFor();
  await fillCommand(page, names.loop, loop);
  await page.getByRole("button", { name: "Create job" }).click();
  await page.getByRole("heading", { name: names.loop, level: 1 }).waitFor();
  await page.getByText("This job has not run yet").waitFor();
}

/** Its log arrives line by line; it is cancelled, and repaired. */
export async function watchCancelRepair(page) {
  await page.keyboard.press("r");
  await page.waitForURL("**/runs/run_*");
  await page.locator(".log-row").first().waitFor();
  const seen = new Set();
  await eventually(async () => {
    const last = (await lineNumbers(page)).at(-1);
    if (last) seen.add(last);
    return seen.size >= 8;
  }, "lines arriving one after another");
  await shot(page, "log-live");

  const text = await page.locator(".log-row").last().locator(".log-text").textContent();
  assert.match(text, /^tick \d+$/);
  await eventually(async () => (await lineNumbers(page)).at(-1) > 60, "more lines than fit");
  await page.locator(".log-box").hover();
  await page.mouse.wheel(0, -400);
  await page.getByRole("button", { name: "Jump to the end" }).waitFor();
  await page.getByRole("button", { name: "Jump to the end" }).click();

  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Let it run" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(await page.locator(".page-header .status[data-status=RUNNING]").count(), 1, "it runs on");
  await cancel(page);
  await eventually(
    () => page.locator(".page-header .status[data-status=CANCELLED]").count(),
    "the cancelled run",
  );
  await settled(page);
  await assertAccessible(page, "cancelled run");
  await shot(page, "run-cancelled");

  await page.getByRole("button", { name: "Repair" }).click();
  await page.getByText("Attempt 2", { exact: true }).waitFor();
  await eventually(
    () => page.locator(".page-header .status[data-status=RUNNING]").count(),
    "the repaired run",
  );
  await cancel(page);
  await eventually(
    () => page.locator(".page-header .status[data-status=CANCELLED]").count(),
    "the second cancellation",
  );
  await page.getByText("Attempt 1", { exact: true }).click();
  await page.waitForURL("**attempt=1*");
}

/** The connection breaks three times while a log arrives: nothing is lost, nothing is doubled. */
export async function logSurvivesReconnect(page, context) {
  const sockets = [];
  await context.routeWebSocket("**/graphql", (client) => {
    sockets.push({ client, server: client.connectToServer() });
  });
  await page.goto(`/jobs?q=${names.loop}`);
  await page.getByRole("link", { name: names.loop, exact: true }).click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL("**/runs/run_*");
  await page.locator(".log-row").first().waitFor();
  for (let i = 1; i <= 3; i++) {
    const last = sockets.at(-1);
    const opened = sockets.length;
    await last.server.close({ code: 1001 });
    await last.client.close({ code: 1001 });
    await eventually(() => sockets.length > opened, "another connection");
    const from = (await lineNumbers(page)).at(-1);
    await eventually(async () => (await lineNumbers(page)).at(-1) > from + 10, "lines after a break");
  }
  const lines = await page
    .locator(".log-row")
    .evaluateAll((rows) =>
      rows.map((r) => [
        Number(r.querySelector(".log-n").textContent),
        r.querySelector(".log-text").textContent,
      ]),
    );
  for (const [number, text] of lines) assert.equal(text, `tick ${number}`, "every line stands at its number");
  await cancel(page);
  await eventually(() => page.locator(".page-header .status[data-status=CANCELLED]").count(), "its end");
}

/**
 * Tasks in the form: the graph, renaming, cycles, duplicate keys; then the same as JSON; a schedule
 * with a preview.
 */
export async function createGraph(page) {
  await fillCommand(page, names.graph, "echo first");
  await page.getByText("Tasks", { exact: true }).click();
  await page.locator(".dag-node", { hasText: "first" }).waitFor();
  await page.getByRole("button", { name: "Add a task after first" }).click();
  await page.getByRole("textbox", { name: "Key", exact: true }).fill("second");
  await page.getByLabel(label("Command")).fill("echo second");
  await page.locator(".dag-node", { hasText: "second" }).waitFor();
  await eventually(async () => (await page.locator(".dag .react-flow__edge").count()) === 1, "one edge");

  await page.getByRole("textbox", { name: "Key", exact: true }).fill("first");
  await page.getByText("Another task has the key first already.").first().waitFor();
  await page.getByRole("textbox", { name: "Key", exact: true }).fill("second");

  await page.locator(".dag-node", { hasText: "first" }).click();
  await page.getByRole("combobox", { name: "Runs after" }).click();
  await page.getByRole("option", { name: "second" }).click();
  await page.getByText("in a circle", { exact: false }).first().waitFor();
  await settled(page);
  await shot(page, "job-editor-cycle");
  await page.getByRole("button", { name: "Create job" }).click();
  await page.getByText(/to put right/).waitFor();
  await page.getByRole("combobox", { name: "Runs after" }).press("Backspace");
  await page.getByText("in a circle", { exact: false }).first().waitFor({ state: "hidden" });
  await page.keyboard.press("Escape");

  await page.getByRole("switch", { name: "Run by itself" }).click();
  const cron = page.getByLabel("Cron");
  await cron.fill("not a cron");
  await page.getByTestId("cron-error").waitFor();
  await cron.fill("*/15 * * * *");
  await page.getByText("Every 15 minutes").waitFor();
  await eventually(() => page.getByRole("list", { name: "Next times" }).locator("li").count(), "next times");
  await settled(page);
  await assertAccessible(page, "job editor");
  await shot(page, "job-editor");

  await page.getByText("JSON", { exact: true }).click();
  await page.locator(".cm-content").waitFor();
  assert.match(await page.locator(".cm-content").textContent(), /"dependsOn"/);
  await settled(page);
  await assertAccessible(page, "job as JSON");
  await shot(page, "job-json");
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("x");
  await page.getByText("The JSON is not valid yet.").waitFor();
  await page.keyboard.press("Backspace");
  await page.getByText("The JSON is not valid yet.").waitFor({ state: "hidden" });
  await page.getByText("Form", { exact: true }).click();
  await page.getByRole("button", { name: "Create job" }).click();

  await page.getByRole("heading", { name: names.graph, level: 1 }).waitFor();
  await page.getByText("Every 15 minutes").waitFor();
  await eventually(async () => (await page.locator(".dag-node").count()) === 2, "both tasks in the graph");
}

/**
 * A schedule is paused and resumed; the job is changed; leaving without saving needs a
 * confirmation.
 */
export async function editGraph(page) {
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused: it starts nothing until it is resumed.").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("Paused: it starts nothing until it is resumed.").waitFor({ state: "hidden" });

  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByLabel("Description").fill("Says two things.");
  await page.getByRole("link", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog", { name: "Leave without saving?" }).waitFor();
  await page.getByRole("button", { name: "Stay" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Says two things.").waitFor();
}

/** Deleting needs a confirmation, which says what stays. */
export async function deleteJobs(page) {
  for (const name of Object.values(names)) {
    await page.goto(`/jobs?q=${name}`);
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Delete the job" }).click();
    const dialog = page.getByRole("dialog", { name: `Delete ${name}?` });
    await dialog.getByRole("button", { name: "Delete the job" }).click();
    await page.waitForURL("**/jobs");
  }
  await page.goto(`/jobs?q=${unique}`);
  await page.getByText("No jobs match this filter.").waitFor();
}
