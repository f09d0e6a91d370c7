import assert from "node:assert/strict";
import { assertAccessible, eventually, label, settled, shot } from "./browser.mjs";

export const admin = {
  email: process.env.MILLPOND_EMAIL ?? "ada@example.org",
  name: "Ada Lovelace",
  password: process.env.MILLPOND_PASSWORD ?? "correct horse battery staple",
};

/** From the printed one-time link to the overview. */
export async function setUp(page, url) {
  await page.goto(url);
  await page.getByRole("heading", { name: "Create the administrator" }).waitFor();
  await settled(page);
  await assertAccessible(page, "first-administrator page");
  await shot(page, "setup");

  await page.getByLabel("E-mail").fill(admin.email);
  await page.getByLabel("Name").fill(admin.name);
  await page.getByLabel(label("Password")).fill("too short");
  await page.getByLabel("Password, once more").fill("too short");
  await page.getByRole("button", { name: "Create the administrator" }).click();
  await page.getByText("Use at least 12 characters", { exact: false }).waitFor();

  await page.getByLabel(label("Password")).fill(admin.password);
  await page.getByLabel("Password, once more").fill(admin.password);
  await page.getByRole("button", { name: "Create the administrator" }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
}

/** A used link is refused with a message. */
export async function linkWorksOnce(page, url) {
  await page.goto(url);
  await page.getByLabel("E-mail").fill("mallory@example.org");
  await page.getByLabel(label("Password")).fill(admin.password);
  await page.getByLabel("Password, once more").fill(admin.password);
  await page.getByRole("button", { name: /Set the password|Create the administrator/ }).click();
  await page.getByRole("alert").first().waitFor();
  assert.match(page.url(), /\/setup/);
}

/** Sign-in leads back to the requested page, and a wrong password is reported. */
export async function signIn(page, to = "/runs?status=FAILED") {
  await page.goto(to);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByLabel("E-mail").fill(admin.email);
  await page.getByLabel(label("Password")).fill("not the password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").first().waitFor();
  await page.getByLabel(label("Password")).fill(admin.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`**${to}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
}

/** The overview shows the sample's run and links to it. */
export async function overview(page) {
  await page.goto("/");
  await page.getByRole("region", { name: "Getting started" }).waitFor();
  await page.getByRole("table", { name: "Latest runs" }).waitFor();
  await eventually(
    async () => (await page.locator(".live").getAttribute("data-state")) === "live",
    "a live connection",
  );
  await settled(page);
  await shot(page, "overview");
}

/** The sample pipeline's run: graph, timeline, log, and a link to a line. */
export async function sampleRun(page) {
  await page.goto("/jobs");
  const job = page.getByRole("row").filter({ hasText: "sample" }).first();
  await job.getByRole("link").first().click();
  const runs = page.getByRole("table", { name: "Runs of this job" });
  await runs.getByRole("link").last().click();
  await page.waitForURL("**/runs/run_*");
  await eventually(
    () => page.locator(".page-header .status[data-status=SUCCESS]").count(),
    "the sample's success",
  );
  await page.locator(".dag-node").first().waitFor();
  await settled(page);
  const tasks = await page.locator(".dag-node").count();
  assert.ok(tasks >= 4, `the sample has ${tasks} tasks`);
  await shot(page, "sample-graph");

  await page.locator(".dag-node").last().click();
  await page.waitForURL("**task=*");
  await page.keyboard.press("v");
  await page.getByRole("region", { name: "Timeline of the tasks" }).waitFor();
  await eventually(async () => (await page.locator(".gantt-row").count()) === tasks, "a row for each task");
  assert.ok((await page.locator(".gantt-bar").count()) >= tasks);
  await settled(page);
  await shot(page, "sample-timeline");

  await page.locator(".gantt-label").first().click();
  await page.waitForURL("**task=*");
  await page.locator(".log-row").first().waitFor();
  await page.locator(".log-n").first().click();
  await page.waitForURL("**line=1*");
  const url = page.url();
  await page.reload();
  await page.locator('.log-row[data-state="target"]').waitFor();
  assert.equal(page.url(), url);
  await shot(page, "sample-line");
}

/** Run: the page asks for the parameters, the run page opens, tasks end one after another. */
export async function runSample(page) {
  await page.goto("/jobs");
  const job = page.getByRole("row").filter({ hasText: "sample" }).first();
  const name = await job.getByRole("link").first().textContent();
  const before = new URL(page.url()).pathname;
  await job.getByRole("button", { name: `Run ${name}` }).click();
  const dialog = page.getByRole("dialog", { name: `Run ${name}` });
  await Promise.race([dialog.waitFor(), page.waitForURL("**/runs/run_*")]);
  if (new URL(page.url()).pathname === before) {
    await settled(page);
    await assertAccessible(page, "dialog of parameters");
    await shot(page, "run-dialog");
    await dialog.getByRole("button", { name: "Run", exact: true }).click();
  }
  await page.waitForURL("**/runs/run_*");
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  await page.locator(".log-row").first().waitFor();
  await eventually(
    () => page.locator(".page-header .status[data-status=SUCCESS]").count(),
    "the end of the run, without a reload",
  );
  const all = await page.locator(".dag-node").count();
  await eventually(
    async () => (await page.locator(".dag-node[data-status=SUCCESS]").count()) === all,
    "the success of every task in the graph",
  );
}
