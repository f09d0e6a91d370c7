// The console in a real browser, against a running millpond.
//
//   MILLPOND_URL        its address
//   MILLPOND_SETUP_URL  the one-time link it printed, unless there is an administrator already; then
//   MILLPOND_EMAIL, MILLPOND_PASSWORD  are used to sign in
//   CHROMIUM            the browser, unless it is found
//   SHOTS               a folder for pictures
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, openPage } from "./browser.mjs";
import * as catalog from "./catalog.mjs";
import * as experiments from "./experiments.mjs";
import * as first from "./first-minute.mjs";
import * as jobs from "./jobs.mjs";
import * as machines from "./machines.mjs";
import { everyPage, narrowedWindow, smallWindow } from "./pages.mjs";
import * as sql from "./sql.mjs";
import * as workspace from "./workspace.mjs";

const base = process.env.MILLPOND_URL;
const setUpUrl = process.env.MILLPOND_SETUP_URL;
let browser;
let storage;

before(async () => {
  assert.ok(base, "Set MILLPOND_URL to the address of a running millpond.");
  browser = await launch();
});
after(() => browser?.close());

/** One signed-in step in its own window; afterwards the window must have no faults. */
async function step(t, name, run) {
  await t.test(name, async () => {
    const w = await openPage(browser, { base, storage });
    await run(w.page, w.context);
    w.clean();
    await w.close();
  });
}

test("the console", async (t) => {
  await t.test("first administrator, or sign-in", async () => {
    const w = await openPage(browser, { base });
    if (setUpUrl) await first.setUp(w.page, setUpUrl);
    else await first.signIn(w.page);
    storage = await w.context.storageState();
    w.clean();
    await w.close();
  });
  assert.ok(storage, "Nothing can be tested without a session.");
  if (setUpUrl)
    await t.test("the one-time link works once", async () => {
      const w = await openPage(browser, { base });
      await first.linkWorksOnce(w.page, setUpUrl);
      w.clean();
      await w.close();
    });
  await t.test("sign-in leads back", async () => {
    const w = await openPage(browser, { base });
    await first.signIn(w.page);
    w.clean();
    await w.close();
  });
  await step(t, "overview", first.overview);
  await step(t, "the sample's run", first.sampleRun);
  await step(t, "running the sample", first.runSample);
  await step(t, "a job of one command; watch, cancel and repair a run", async (page) => {
    await jobs.createCommand(page);
    await jobs.watchCancelRepair(page);
  });
  await step(t, "a job of tasks, with a schedule", async (page) => {
    await jobs.createGraph(page);
    await jobs.editGraph(page);
  });
  await step(t, "a query and its rows", sql.query);
  await step(t, "sorting, search and download of a result", sql.gridTools);
  await step(t, "a mistake at its place", sql.errorAtItsPlace);
  await step(t, "a million rows to the end", sql.millionRows);
  await step(t, "a statement is cancelled", sql.cancel);
  await step(t, "several statements, parameters, questions", sql.severalAtOnce);
  await step(t, "a chart, and what was read", sql.chart);
  await step(t, "the history of statements", sql.history);
  await step(t, "the engine of a statement", sql.engines);
  await step(t, "a database, a schema and tables", catalog.make);
  await step(t, "a table is browsed", catalog.browse);
  await step(t, "a long sample is cut", catalog.longSample);
  await step(t, "a past state is queried", catalog.timeTravel);
  await step(t, "the lineage of a table", catalog.lineage);
  await step(t, "the maintenance of a table", catalog.maintenance);
  await step(t, "maintenance is inherited", catalog.maintenanceIsInherited);
  await step(t, "a table is renamed, dropped and restored", catalog.dropAndRestore);
  for (const scheme of ["light", "dark"])
    await t.test(`catalog, ${scheme}`, () => catalog.look(browser, base, storage, scheme));
  await step(t, "a database is deleted", catalog.remove);
  await step(t, "an experiment, and what it says to log", experiments.make);
  await step(t, "runs of an experiment are searched and sorted", experiments.searchAndSort);
  await step(t, "a tracking run, live", experiments.liveRun);
  await step(t, "runs are compared", experiments.compare);
  await step(t, "the tracking run of the sample", experiments.ofJob);
  await step(t, "runs and experiments are deleted and restored", experiments.deleteAndRestore);
  await step(t, "a compute instance is made, started and measured", machines.startCompute);
  await step(t, "a job on a compute instance", machines.runOnCompute);
  await step(t, "a compute instance is changed", machines.editCompute);
  await step(t, "API keys", (page) => workspace.apiKeys(page, base));
  await step(t, "agents", workspace.agents);
  await step(t, "members", (page) => workspace.members(page, browser, base));
  await step(t, "quotas", workspace.quotas);
  for (const scheme of ["light", "dark"])
    await t.test(`machines, ${scheme}`, () => machines.look(browser, base, storage, scheme));
  await step(t, "a compute instance is stopped and deleted", machines.stopCompute);
  await step(t, "a warehouse is started, stopped and deleted", machines.warehouse);
  await step(t, "provider and storage", machines.places);
  await step(t, "keyboard", workspace.keyboard);
  await t.test("a log over a broken connection", async () => {
    const w = await openPage(browser, { base, storage });
    await jobs.logSurvivesReconnect(w.page, w.context);
    await w.close();
  });
  for (const scheme of ["light", "dark"])
    await t.test(`every page, ${scheme}`, (t2) => everyPage(browser, base, storage, scheme, t2));
  await t.test("narrowed window", () => narrowedWindow(browser, base, storage));
  await t.test("small window", () => smallWindow(browser, base, storage));
  await step(t, "deleting jobs", jobs.deleteJobs);
  await t.test("signing out", () => workspace.signOut(browser, base, storage));
});
