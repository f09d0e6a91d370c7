import assert from "node:assert/strict";
import { assertAccessible, eventually, label, openPage, settled, shot, waitTimeout } from "./browser.mjs";

const unique = Date.now().toString(36);
const names = { compute: `etl-${unique}`, warehouse: `bi-${unique}`, job: `on-etl-${unique}` };
/** The smallest flavor: the host's own cores bound what runs at once. */
const flavor = "cpu.1";
const price = /\$\d+\.\d\d+ ?per hour/;
/** A machine is a process that connects, which may take a while on a busy host. */
const slow = 2 * waitTimeout;

const region = (page, name) => page.getByRole("region", { name, exact: true });

/** Waits until a machine's page, badge and drawing show the state. */
async function inState(page, state) {
  await eventually(
    () => page.locator(`.page-header .machine-state[data-status=${state}]`).count(),
    `the state ${state}`,
    slow,
  );
  const present = page.getByRole("list", { name: "States in their order" }).locator("[aria-current=step]");
  assert.equal(await present.count(), 1, "one state is marked");
  assert.equal(await present.getAttribute("data-state"), state);
}

/**
 * Creates a machine in its list's dialog, which shows the cost first. `also` fills in fields of its
 * kind.
 */
async function create(page, path, noun, name, also = async () => {}) {
  await page.goto(path);
  await page
    .getByRole("button", { name: `New ${noun}` })
    .first()
    .click();
  const dialog = page.getByRole("dialog", { name: `New ${noun}` });
  await dialog.getByRole("button", { name: `Create the ${noun}` }).click();
  await dialog.getByText("Give it a name.").waitFor();
  await dialog.getByLabel(label("Name")).fill(name);
  await dialog.getByRole("combobox", { name: label(noun === "warehouse" ? "Size" : "Flavor") }).click();
  const option = page.getByRole("option", { name: new RegExp(`^${flavor}`) });
  assert.match((await option.textContent()) ?? "", price);
  await option.click();
  await dialog.getByRole("combobox", { name: "Stop it when idle for" }).click();
  await page.getByRole("option", { name: "30 minutes" }).click();
  assert.match((await dialog.getByRole("status", { name: "Cost" }).textContent()) ?? "", price);
  await also(dialog);
  await settled(page);
  await assertAccessible(page, `dialog for a new ${noun}`);
  await shot(page, `${noun.replace(" ", "-")}-new`);
  await dialog.getByRole("button", { name: `Create the ${noun}` }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  await inState(page, "STOPPED");
}

/** Starts the page's machine, and waits for its agent and its first metrics. */
async function start(page) {
  assert.match(
    (await page.locator(".page-header").textContent()) ?? "",
    price,
    "the cost is there before the start",
  );
  await page.locator(".page-actions").getByRole("button", { name: "Start", exact: true }).click();
  await inState(page, "RUNNING");
  await page
    .getByText(/^stops in \d+:\d\d$/)
    .first()
    .waitFor();
  const use = region(page, "Use of the machine");
  await use
    .getByRole("img", { name: /^CPU over the last (hour|\d+ minutes): now .* of 1 core/ })
    .waitFor({ timeout: slow });
  await use.getByRole("img", { name: /^Memory over the last (hour|\d+ minutes)/ }).waitFor();
  await eventually(
    () =>
      use
        .locator(".sparkline-line")
        .first()
        .evaluate((p) => p.getAttribute("d").split("L").length > 2),
    "a line that grows",
    slow,
  );
}

/** Stops the page's machine after a confirmation. */
async function stop(page, noun, name) {
  await page.locator(".page-actions").getByRole("button", { name: "Stop", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: `Stop ${name}?` });
  await dialog.getByText(/cancelled first/).waitFor();
  await dialog.getByRole("button", { name: "Let it run" }).click();
  await dialog.waitFor({ state: "hidden" });
  await inState(page, "RUNNING");
  await page.locator(".page-actions").getByRole("button", { name: "Stop", exact: true }).click();
  await dialog.getByRole("button", { name: `Stop the ${noun}` }).click();
  await inState(page, "STOPPED");
}

async function remove(page, noun, name) {
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: `Delete the ${noun}` }).click();
  const dialog = page.getByRole("dialog", { name: `Delete ${name}?` });
  await dialog.getByRole("button", { name: `Delete the ${noun}` }).click();
  await page
    .getByRole("heading", { level: 1, name: noun === "warehouse" ? "Warehouses" : "Compute" })
    .waitFor();
  await eventually(
    async () => (await page.getByRole("link", { name }).count()) === 0,
    "its removal from the list",
  );
}

/** Creates and starts an instance, and checks it at work, in the list and on the overview. */
export async function startCompute(page) {
  await create(page, "/compute", "compute instance", names.compute);
  await page.getByText("Nothing was measured in the last hour", { exact: false }).waitFor();
  await start(page);
  const log = region(page, "Log of the machine's agent");
  await eventually(
    async () => /\S{8}/.test((await log.getByRole("log").textContent()) ?? ""),
    "its agent's log",
  );
  await log.getByRole("button", { name: "Wrap long lines" }).click();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    log.getByRole("button", { name: "Download the log" }).click(),
  ]);
  assert.equal(file.suggestedFilename(), `${names.compute}.log`);
  assert.match((await region(page, "Facts").textContent()) ?? "", /Pinned to\S/);
  await settled(page);
  await shot(page, "compute-running");
  await page.goto("/compute");
  const row = page.getByRole("row").filter({ hasText: names.compute });
  await row.getByText(/^stops in \d+:\d\d$/).waitFor();
  assert.match((await row.textContent()) ?? "", price);
  const before = await row.locator(".countdown").textContent();
  await eventually(
    async () => (await row.locator(".countdown").textContent()) !== before,
    "a countdown that ticks",
  );
  await page.goto("/");
  const card = region(page, "Machines");
  await card.getByRole("link", { name: names.compute }).waitFor();
  await card.getByText(price).first().waitFor();
  await settled(page);
  await shot(page, "overview-machines");
}

/** A job names its compute instance; its run and its page link to it. */
export async function runOnCompute(page) {
  await page.goto("/jobs/new");
  await page.getByLabel(label("Name")).fill(names.job);
  await page.getByText("Tasks", { exact: true }).click();
  await page.getByLabel(label("Command")).fill("echo made there; sleep 2");
  await region(page, "Where it runs").getByRole("combobox", { name: "Runs on" }).click();
  await page.getByRole("option", { name: new RegExp(names.compute) }).click();
  await page.getByRole("checkbox", { name: /^Run on the workspace's agent/ }).waitFor();
  await settled(page);
  await assertAccessible(page, "job form with a compute instance");
  await shot(page, "job-on-compute");
  await page.getByRole("button", { name: "Create job" }).click();
  await page.getByRole("heading", { name: names.job, level: 1 }).waitFor();
  await region(page, "Declaration").getByRole("link", { name: names.compute }).waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForURL("**/runs/run_*");
  await shot(page, "run-on-compute");
  await page.locator(".log-row", { hasText: "made there" }).waitFor({ timeout: slow });
  await region(page, "Log of the task").getByRole("link", { name: names.compute }).waitFor();
  await eventually(
    () => page.locator(".page-header .status[data-status=SUCCESS]").count(),
    "its success",
    slow,
  );
  await page.keyboard.press("v");
  await settled(page);
  await assertAccessible(page, "run on a compute instance");
  await shot(page, "run-on-compute-timeline");
  await region(page, "Timeline of the tasks").getByRole("link", { name: names.compute }).click();
  await page.getByRole("heading", { name: names.compute, level: 1 }).waitFor();
}

/**
 * A running machine allows changes of the name and the auto-stop only; a stopped one allows all.
 */
export async function editCompute(page) {
  await openCompute(page);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: `Edit ${names.compute}` });
  assert.ok(await dialog.getByRole("combobox", { name: label("Flavor") }).isDisabled());
  await dialog.getByText("can be changed while it is stopped", { exact: false }).waitFor();
  await dialog.getByRole("combobox", { name: "Stop it when idle for" }).click();
  await page.getByRole("option", { name: "Never" }).click();
  await settled(page);
  await assertAccessible(page, "dialog to edit a compute instance");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("never stops by itself").first().waitFor();
}

async function openCompute(page) {
  await page.goto("/compute");
  await page.getByRole("link", { name: names.compute }).click();
  await page.getByRole("heading", { name: names.compute, level: 1 }).waitFor();
}

/** A viewer sees everything, without buttons that need a higher role. */
export async function viewersCompute(page) {
  await page.goto("/compute?create=true");
  await page.getByRole("link", { name: names.compute }).click();
  await page.getByRole("heading", { name: names.compute, level: 1 }).waitFor();
  await region(page, "Use of the machine").getByRole("img").first().waitFor({ timeout: slow });
  for (const name of [/^Start/, /^Stop/, "Edit", "More", /^New/, /^Create/])
    assert.equal(await page.getByRole("button", { name }).count(), 0, `a viewer has no button ${name}`);
  await settled(page);
  await assertAccessible(page, "a compute instance as a viewer sees it");
  await shot(page, "compute-viewer");
  await page.goto("/warehouses");
  await page.getByRole("heading", { name: "Warehouses", level: 1 }).waitFor();
  await page.getByRole("table", { name: "Warehouses" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Start|^Stop|^New/ }).count(), 0);
  await page.goto("/settings");
  await region(page, "Provider").getByText("local").first().waitFor();
  await region(page, "Storage").getByText("URL").waitFor();
  assert.equal(await page.getByRole("button", { name: "Save and test" }).count(), 0);
}

/** Both pages of a running machine, in one colour scheme. */
export async function look(browser, base, storage, scheme) {
  const p = await openPage(browser, { base, storage, scheme, size: { width: 1024, height: 860 } });
  for (const [name, path] of [
    ["compute", "/compute"],
    ["warehouses", "/warehouses"],
    ["warehouses-new", "/warehouses?create=true"],
  ]) {
    await p.page.goto(path);
    await p.page.getByRole("table").waitFor();
    await settled(p.page);
    await p.page.waitForFunction(() => document.documentElement.scrollWidth <= window.innerWidth);
    await assertAccessible(p.page, `${path} in ${scheme}`);
    await shot(p.page, `${name}-${scheme}`);
  }
  await openCompute(p.page);
  await region(p.page, "Use of the machine").getByRole("img").first().waitFor({ timeout: slow });
  await settled(p.page);
  await p.page.waitForFunction(() => document.documentElement.scrollWidth <= window.innerWidth);
  await assertAccessible(p.page, `a compute instance in ${scheme}`);
  await shot(p.page, `compute-instance-${scheme}`);
  p.clean();
  await p.close();
}

/** Stops an instance after a confirmation; its log and metrics stay; then deletes it. */
export async function stopCompute(page) {
  await openCompute(page);
  await stop(page, "compute instance", names.compute);
  const text = await region(page, "Log of the machine's agent").getByRole("log").textContent();
  assert.ok((text ?? "").length > 20, "the log is there after the stop");
  await settled(page);
  await assertAccessible(page, "a stopped compute instance");
  await shot(page, "compute-stopped");
  await page.goto(`/jobs?q=${names.job}`);
  await page.getByRole("link", { name: names.job, exact: true }).click();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete the job" }).click();
  await page.getByRole("button", { name: "Delete the job" }).click();
  await page.waitForURL("**/jobs");
  await openCompute(page);
  await remove(page, "compute instance", names.compute);
}

/** Chooses a warehouse's write engine. */
async function writeWith(page, dialog, engine) {
  await dialog.getByRole("combobox", { name: "Writes with" }).click();
  await page.getByRole("option", { name: engine, exact: true }).click();
}

/**
 * Trino has nodes and a start. Its nodes on one machine cost as much as the machine. Without Trino,
 * the form says how to install it.
 */
async function withoutTrino(page, dialog) {
  await dialog.getByText("Trino where it is installed", { exact: false }).waitFor();
  assert.equal(await dialog.getByLabel("Nodes").count(), 0);
  await writeWith(page, dialog, "Trino");
  await dialog.getByRole("combobox", { name: "Trino starts" }).waitFor();
  await dialog.getByLabel("Nodes").fill("17");
  const send = dialog.getByRole("button", { name: "Create the warehouse" });
  await send.click();
  await dialog.getByText("A whole number from 1 to 16.").waitFor();
  const cost = await dialog.getByRole("status", { name: "Cost" }).textContent();
  await dialog.getByLabel("Nodes").fill("2");
  assert.equal(await dialog.getByRole("status", { name: "Cost" }).textContent(), cost);
  await send.click();
  const refusal = dialog.locator(".mantine-Select-error").getByText(/millpond engine install trino/);
  await refusal.waitFor();
  await settled(page);
  await assertAccessible(page, "dialog for a warehouse without Trino");
  await shot(page, "warehouse-without-trino");
  await writeWith(page, dialog, "DuckDB");
  await refusal.waitFor({ state: "hidden" });
  assert.equal(await dialog.getByLabel("Nodes").count(), 0);
}

/** A warehouse has the same life: created, started with its engines reported, stopped, deleted. */
export async function warehouse(page) {
  await create(page, "/warehouses", "warehouse", names.warehouse, (dialog) => withoutTrino(page, dialog));
  const engines = region(page, "Engines");
  await engines.getByText("reports them at its first start", { exact: false }).waitFor();
  await start(page);
  const duckdb = engines.getByRole("listitem", { name: "DuckDB" });
  await duckdb.getByText("Serves reads and writes.").waitFor();
  assert.match((await engines.textContent()) ?? "", /Writes withDuckDB/);
  await settled(page);
  await assertAccessible(page, "a warehouse that runs");
  await shot(page, "warehouse-running");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: `Edit ${names.warehouse}` });
  assert.ok(await dialog.getByRole("combobox", { name: "Writes with" }).isDisabled());
  await dialog.getByText("Size, write engine, image and slots can be changed while it is stopped.").waitFor();
  await dialog.getByRole("button", { name: "Not now" }).click();
  await page.goto("/warehouses");
  await page
    .getByRole("row")
    .filter({ hasText: names.warehouse })
    .getByText("Writes with DuckDB", { exact: true })
    .waitFor();
  await page.getByRole("link", { name: names.warehouse }).click();
  await stop(page, "warehouse", names.warehouse);
  await remove(page, "warehouse", names.warehouse);
}

/** Unreachable storage is refused with the reason; the server's own is tested and saved. */
export async function places(page) {
  await page.goto("/settings");
  const storage = region(page, "Storage");
  const url = storage.getByLabel("URL");
  const before = await url.inputValue();
  assert.match(before, /^file:/);
  await url.fill("s3://somebody-elses-bucket");
  await storage.getByRole("button", { name: "Save and test" }).click();
  await storage.getByText('"s3" is not supported', { exact: false }).waitFor();
  await settled(page);
  await assertAccessible(page, "settings with a refused storage");
  await shot(page, "settings-refused");
  await url.fill(before);
  await storage.getByRole("button", { name: "Save and test" }).click();
  await storage.getByText("Tried and saved", { exact: false }).waitFor();
  const provider = region(page, "Provider");
  await provider.getByRole("button", { name: "Save and test" }).click();
  await provider.getByText("Tried and saved", { exact: false }).waitFor();
}
