import assert from "node:assert/strict";
import { assertAccessible, eventually, settled, shot } from "./browser.mjs";

const unique = Date.now().toString(36);
const names = { experiment: `churn-${unique}`, other: `empty-${unique}` };
const table = (page) => page.getByRole("table", { name: "Runs of the experiment" });
const region = (page, name) => page.getByRole("region", { name, exact: true });

/** An API key, made in the page's session. */
async function makeKey(page) {
  const answer = await page.evaluate(async (name) => {
    const query = `mutation M($i: CreateAPIKeyInput!) { createApiKey(input: $i) { secret } }`;
    const res = await fetch("/graphql", {
      method: "POST",
      headers: { "content-type": "application/json", "x-requested-with": "console" },
      body: JSON.stringify({ query, variables: { i: { name, role: "EDITOR" } } }),
    });
    return res.json();
  }, `experiments-${unique}`);
  assert.equal(answer.errors, undefined);
  return answer.data.createApiKey.secret;
}

let key;

/** Calls the REST API, as a program that logs. */
async function rest(page, method, path, body) {
  key ??= await makeKey(page);
  const answer = await fetch(new URL(`/api/v1/experiments${path}`, page.url()), {
    method,
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** A run with parameters and a hundred points of each of two metrics. */
async function logRun(page, experiment, i) {
  const { id } = await rest(page, "POST", `/${experiment}/runs`, { name: `attempt-${i}` });
  const run = `/${experiment}/runs/${id}`;
  await rest(page, "POST", `${run}/parameters`, {
    parameters: [
      { key: "learning_rate", value: String(0.1 / i) },
      { key: "model", value: i === 2 ? "net" : "tree" },
      { key: "seed", value: "7" },
    ],
  });
  await rest(page, "POST", `${run}/tags`, { tags: [{ key: "team", value: "growth" }] });
  const points = Array.from({ length: 100 }, (_, step) => [
    {
      key: "loss",
      step,
      value: step === 50 ? "NaN" : i + 1 / (step + 1),
      timestamp: 1_700_000_000_000 + step,
    },
    { key: "val/accuracy", step, value: 1 - 1 / (step + i), timestamp: 1_700_000_000_000 + step },
  ]).flat();
  await rest(page, "POST", `${run}/metrics/batch`, points);
  if (i > 1) await rest(page, "PATCH", run, { status: "finished" });
  return id;
}

/** The experiment of the steps, with its three runs. */
let made;

/** An experiment is made in the console; it says how to log to it, and lists what was logged. */
export async function make(page) {
  await page.goto("/experiments");
  await page.getByRole("button", { name: "New experiment" }).first().click();
  const dialog = page.getByRole("dialog", { name: "New experiment" });
  await dialog.getByLabel("Name").fill(names.experiment);
  await settled(page);
  await assertAccessible(page, "dialog for a new experiment");
  await dialog.getByRole("button", { name: "Create the experiment" }).click();
  await page.getByRole("heading", { name: names.experiment, level: 1 }).waitFor();
  await page.getByText("No runs yet").waitFor();
  const settings = page.getByText("MLFLOW_TRACKING_URI", { exact: false }).first();
  assert.match((await settings.textContent()) ?? "", /\/api\/v1\/mlflow/);
  await settled(page);
  await assertAccessible(page, "an experiment without runs");

  const id = new URL(page.url()).pathname.split("/").at(-1);
  const runs = [];
  for (const i of [1, 2, 3]) runs.push(await logRun(page, id, i));
  made = { id, runs };
  await page.getByRole("button", { name: "3 new runs" }).click();
  await table(page).getByRole("link", { name: "attempt-3" }).waitFor();
}

/** The address of the experiment and of its pages, for the look at every page. */
export const pages = () => ({
  experiments: "/experiments",
  "experiments-none-match": "/experiments?q=there-is-no-such-experiment",
  "experiments-deleted": "/experiments?deleted=true",
  experiment: `/experiments/${made.id}`,
  "experiment-grouped": `/experiments/${made.id}?group=params.model&sort=-metrics.loss`,
  "experiment-refused-filter": `/experiments/${made.id}?q=nothing+%3D+1`,
  "experiment-not-found": "/experiments/999999999",
  "tracking-run": `/experiments/${made.id}/runs/${made.runs[0]}`,
  "tracking-run-not-found": `/experiments/${made.id}/runs/00000000000000000000000000000000`,
  "compare-runs": `/experiments/${made.id}/compare?runs=${made.runs.join(",")}`,
  "compare-nothing": `/experiments/${made.id}/compare`,
});

/** Names of the runs in the order of the table. */
const runNames = (page) => table(page).locator("tbody .row-main").allTextContents();

const shows = (page, expected, what) =>
  eventually(async () => JSON.stringify(await runNames(page)) === JSON.stringify(expected), what);

/** Runs are searched, sorted and grouped by the server and the address; columns are chosen. */
export async function searchAndSort(page) {
  await page.goto(`/experiments/${made.id}`);
  await table(page).getByText("net", { exact: true }).waitFor();
  const search = page.getByLabel("Search runs");
  await search.fill("metrics.`val/accuracy` > 0.9 AND params.model = 'tree'");
  await search.press("Enter");
  await shows(page, ["attempt-3", "attempt-1"], "the runs of the filter");
  await search.fill("metrics.loss >");
  await search.press("Enter");
  await page.getByText("This filter cannot be read.", { exact: false }).waitFor();
  await page.locator(".mantine-TextInput-error").waitFor();
  await search.fill("there is none");
  await search.press("Enter");
  await page.getByText("No runs match this filter.").waitFor();
  await search.fill("pt-2");
  await search.press("Enter");
  await shows(page, ["attempt-2"], "the run by a part of its name");
  await page.getByRole("button", { name: "Clear the search" }).click();

  const head = table(page).getByRole("columnheader", { name: "loss" });
  await head.getByRole("button").click();
  await shows(page, ["attempt-1", "attempt-2", "attempt-3"], "the lowest loss first");
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  await head.getByRole("button").click();
  await shows(page, ["attempt-3", "attempt-2", "attempt-1"], "the highest loss first");
  await page.reload();
  await shows(page, ["attempt-3", "attempt-2", "attempt-1"], "the order of the address");

  await page.getByRole("button", { name: /^Columns/ }).click();
  const columns = page.getByRole("dialog", { name: "Columns" });
  await columns.getByLabel("team", { exact: true }).check();
  await columns.getByLabel("seed", { exact: true }).uncheck();
  await settled(page);
  await assertAccessible(page, "choice of columns");
  await page.keyboard.press("Escape");
  await table(page).getByRole("columnheader", { name: "team" }).waitFor();
  assert.equal(await table(page).getByRole("columnheader", { name: "seed" }).count(), 0);

  await page.getByRole("combobox", { name: "Group by" }).click();
  await page.getByRole("option", { name: "params.model" }).click();
  await table(page).getByText("= tree").waitFor();
  await shows(page, ["attempt-3", "attempt-1", "attempt-2"], "the runs in groups");
}

/** A run's page has its values and charts; a new point arrives by itself; tags are edited. */
export async function liveRun(page) {
  await page.goto(`/experiments/${made.id}`);
  await table(page).getByRole("link", { name: "attempt-1" }).click();
  await page.getByRole("heading", { name: "attempt-1", level: 1 }).waitFor();
  const loss = page.getByRole("figure", { name: "loss", exact: true });
  await loss.getByRole("img").waitFor();
  await loss.getByText("1 value that is NaN or infinite", { exact: false }).waitFor();
  await loss.locator("canvas").waitFor();
  await shot(page, "tracking-run-live");
  await page.getByLabel("Show as tables").click();
  const points = loss.getByRole("table", { name: "loss" });
  await points.getByText("99", { exact: true }).waitFor();
  await settled(page);
  await assertAccessible(page, "a run's metrics as tables");
  // Before the others by time: the history is read again.
  const late = { key: "loss", step: 777, value: 0.125, timestamp: 1_600_000_000_000 };
  const next = { key: "loss", step: 100, value: 0.0625 };
  for (const point of [next, late]) {
    await rest(page, "POST", `/${made.id}/runs/${made.runs[0]}/metrics`, point);
    await points.getByText(String(point.value), { exact: true }).waitFor();
  }
  await page.getByLabel("Log scale").click();
  await page.getByText("Since start").click();
  await page.waitForURL("**x=relative**");

  const tags = region(page, "Tags");
  await tags.getByRole("button", { name: "Set a tag" }).click();
  const dialog = page.getByRole("dialog", { name: "Set a tag" });
  await dialog.getByRole("button", { name: "Set the tag" }).click();
  await dialog.getByText("Give the tag a key.").waitFor();
  await dialog.getByLabel("Key").fill("stage");
  await dialog.getByLabel("Value").fill("nightly");
  await dialog.getByRole("button", { name: "Set the tag" }).click();
  await tags.getByText("nightly").waitFor();
  await tags.getByRole("button", { name: "Delete the tag stage" }).click();
  await tags.getByText("nightly").waitFor({ state: "detached" });

  await rest(page, "PATCH", `/${made.id}/runs/${made.runs[0]}`, { status: "finished" });
  await page.locator(".page-header .status[data-status=FINISHED]").waitFor();
}

/** Selected runs are compared: what differs, the charts, and one mark per run. */
export async function compare(page) {
  await page.goto(`/experiments/${made.id}`);
  await page.getByLabel("Select every run").check();
  await page.getByRole("link", { name: "Compare", exact: true }).click();
  await page.getByRole("heading", { name: "Compare 3 runs" }).waitFor();
  const comparison = page.getByRole("table", { name: "Comparison of the runs" });
  await comparison.getByRole("rowheader", { name: "model differs" }).waitFor();
  assert.equal(await comparison.getByRole("rowheader", { name: "seed" }).count(), 0);
  await page.getByLabel("Differences only").click();
  await comparison.getByRole("rowheader", { name: "seed" }).waitFor();
  await page.getByRole("figure", { name: "loss", exact: true }).locator("canvas").waitFor();
  for (const name of ["Parallel coordinates", "Scatter"])
    await region(page, name).locator("canvas").waitFor();
  await region(page, "Scatter").getByRole("combobox", { name: "Across" }).click();
  await page.getByRole("option", { name: "params.learning_rate" }).click();
  await region(page, "Scatter")
    .getByRole("img", { name: /by learning_rate/ })
    .waitFor();
  await settled(page);
  await shot(page, "compare-runs-chosen");
}

/** The run of the sample's job leads to its tracking run, and back. */
export async function ofJob(page) {
  await page.goto("/runs");
  await page.getByRole("table", { name: "Runs" }).getByRole("link").last().click();
  const tracking = region(page, "Tracking runs");
  await tracking.getByRole("table").getByRole("link").first().click();
  await page.getByRole("figure").first().waitFor();
  const about = region(page, "About the run");
  await page.getByRole("button", { name: "Run again with these parameters" }).waitFor();
  await about.getByRole("link", { name: /, attempt 1$/ }).waitFor();
  await about.getByRole("link", { name: /^run_/ }).click();
  await tracking.waitFor();
}

/** A run and an experiment are deleted, found among the deleted, and restored. */
export async function deleteAndRestore(page) {
  await page.goto(`/experiments/${made.id}`);
  await page.getByLabel("Select attempt-2").check();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("button", { name: "Delete the run" }).click();
  await shows(page, ["attempt-3", "attempt-1"], "the runs that are left");
  await page.getByText("Deleted", { exact: true }).click();
  await shows(page, ["attempt-2"], "the deleted run");
  await page.getByLabel("Select attempt-2").check();
  await page.getByRole("button", { name: "Restore", exact: true }).click();
  await page.getByText("No deleted runs").waitFor();

  await rest(page, "POST", "", { name: names.other });
  await page.goto(`/experiments?q=${names.other}`);
  const more = page.getByRole("button", { name: `More about ${names.other}` });
  await more.click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  const dialog = page.getByRole("dialog", { name: `Rename ${names.other}` });
  await dialog.getByLabel("Name").fill(names.experiment);
  await dialog.getByRole("button", { name: "Rename it" }).click();
  await dialog.locator(".mantine-TextInput-error").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await more.click();
  await page.getByRole("menuitem", { name: "Delete the experiment" }).click();
  await page.getByRole("button", { name: "Delete the experiment" }).click();
  await page.getByText("No experiments match this filter.").waitFor();
  await page.getByText("Deleted", { exact: true }).click();
  await page.getByRole("button", { name: `Restore ${names.other}` }).click();
  await page.getByText("No experiments match this filter.").waitFor();
}
