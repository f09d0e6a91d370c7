import assert from "node:assert/strict";
import { assertAccessible, eventually, openPage, settled, shot, waitTimeout } from "./browser.mjs";
import { openSql, runSql } from "./sql.mjs";

const unique = Date.now().toString(36);
const names = {
  schema: `shop_${unique}`,
  table: "orders",
  copy: "orders_by_day",
  database: `archive_${unique}`,
};
const full = `lake.${names.schema}.${names.table}`;
const slow = 2 * waitTimeout;

const tabs = (page) => page.getByRole("navigation", { name: "About the table" });

async function openTable(page, name) {
  await page.goto("/catalog");
  await page.getByRole("region", { name: "Database lake" }).getByRole("link", { name: names.schema }).click();
  await page.getByRole("table", { name: "Tables" }).getByRole("link", { name, exact: false }).first().click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
}

/** Creates a database and a schema in it, then tables by SQL, the second from the first. */
export async function make(page) {
  await page.goto("/catalog");
  await page.getByRole("button", { name: "New database" }).click();
  const dialog = page.getByRole("dialog", { name: "New database" });
  await dialog.getByRole("button", { name: "Create the database" }).click();
  await dialog.getByText("Give it a name.").waitFor();
  await dialog.getByLabel("Name").fill("lake");
  await dialog.getByRole("button", { name: "Create the database" }).click();
  await dialog
    .locator(".mantine-TextInput-error")
    .getByText(/exists already/)
    .waitFor();
  await settled(page);
  await assertAccessible(page, "dialog for a new database");
  await dialog.getByLabel("Name").fill(names.database);
  await dialog.getByRole("button", { name: "Create the database" }).click();
  await page
    .getByRole("region", { name: `Database ${names.database}` })
    .getByRole("link", { name: "public" })
    .waitFor();

  await page.getByRole("link", { name: "lake", exact: true }).click();
  await page.getByRole("heading", { name: "lake", level: 1 }).waitFor();
  await page.getByRole("button", { name: "New schema" }).click();
  await page.getByLabel("Name").fill(names.schema);
  await page.getByRole("button", { name: "Create the schema" }).click();
  await page.waitForURL(new RegExp(`schema=${names.schema}`));
  await page.getByText("No tables match this filter.").waitFor();

  await openSql(page);
  await runSql(
    page,
    `CREATE TABLE ${full} AS SELECT range AS id, DATE '2026-01-01' + (range % 5)::INT AS day, range * 1.5 AS total FROM range(500)`,
  );
  await runSql(page, `INSERT INTO ${full} SELECT 1000 + range, DATE '2026-02-01', 2.5 FROM range(20)`);
  await runSql(
    page,
    `CREATE TABLE lake.${names.schema}.${names.copy} AS SELECT day, sum(total) AS total FROM ${full} GROUP BY day`,
  );
}

/** All tabs of a table. */
export async function browse(page) {
  await openTable(page, names.table);
  await page.getByText("520 rows", { exact: false }).first().waitFor();
  await page.getByRole("table", { name: "Columns" }).getByText("total").waitFor();
  await tabs(page).getByRole("link", { name: "Sample" }).click();
  const sample = page.getByRole("grid", { name: `Sample of ${full}` });
  await sample.getByRole("gridcell").first().waitFor({ timeout: slow });
  await settled(page);
  await assertAccessible(page, "a sample of a table");
  await shot(page, "table-sample");
  await tabs(page).getByRole("link", { name: "Files" }).click();
  const files = page.getByRole("table", { name: "Files" });
  await eventually(async () => (await files.getByRole("row").count()) === 3, "both files");
  await tabs(page).getByRole("link", { name: "Partitions" }).click();
  await page.getByText("The table is not partitioned", { exact: false }).waitFor();
  await tabs(page).getByRole("link", { name: "History" }).click();
  await page.getByRole("table", { name: "History" }).getByText("part of the table").first().waitFor();
}

/** The sample of a table with long texts is cut, and says so. */
export async function longSample(page) {
  await openSql(page);
  await runSql(page, `CREATE TABLE lake.${names.schema}.long_texts AS SELECT repeat('long ', 1000) AS text`);
  await openTable(page, "long_texts");
  await tabs(page).getByRole("link", { name: "Sample" }).click();
  await page.getByText("The sample is cut", { exact: false }).waitFor({ timeout: slow });
  const cell = page
    .getByRole("grid", { name: `Sample of lake.${names.schema}.long_texts` })
    .getByRole("gridcell");
  const shown = await cell.first().textContent();
  assert.ok(shown.startsWith("long long") && shown.length < 1100, `the cell has ${shown.length} characters`);
}

/** A past state is queried from its snapshot. */
export async function timeTravel(page) {
  await openTable(page, names.table);
  await tabs(page).getByRole("link", { name: "Snapshots" }).click();
  const rows = page.getByRole("table", { name: "Snapshots" }).getByRole("row");
  await eventually(async () => (await rows.count()) === 3, "both snapshots");
  await rows.last().getByText("500 in all").waitFor();
  await settled(page);
  await assertAccessible(page, "snapshots of a table");
  await shot(page, "table-snapshots");
  await rows
    .last()
    .getByRole("link", { name: /^Query as of then/ })
    .click();
  await page.locator(".cm-content").getByText("AT (VERSION =>", { exact: false }).waitFor();
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+Enter");
  await page
    .getByRole("region", { name: "Result" })
    .getByText("500 rows", { exact: true })
    .waitFor({ timeout: slow });
}

/** The lineage graph: the tables from this table, the statement, and one more hop. */
export async function lineage(page) {
  await openTable(page, names.copy);
  await tabs(page).getByRole("link", { name: "Lineage" }).click();
  const graph = page.getByRole("region", { name: `Lineage of lake.${names.schema}.${names.copy}` });
  const node = (name) => graph.getByRole("button", { name });
  await node(`${names.schema}.${names.copy}`).waitFor({ timeout: slow });
  await node(new RegExp(`${names.schema}\\.${names.table}$`)).click();
  await settled(page);
  await assertAccessible(page, "the lineage of a table");
  await shot(page, "table-lineage");
  const side = page.getByRole("complementary", { name: "Selected in the lineage" });
  await side.getByRole("link", { name: "Open the table" }).click();
  await page.getByRole("heading", { name: names.table, level: 1 }).waitFor();
  await page.getByRole("button", { name: "One hop more" }).click();
  await page.getByRole("status", { name: "Distance" }).getByText("2 hops").waitFor();
}

/** A setting of a policy on the page: its effective value and origin. */
const holds = (page, setting, value, from) =>
  page
    .getByRole("table", { name: "Policy" })
    .getByRole("row", { name: new RegExp(`^${setting} ${value} ${from}$`) })
    .waitFor();

/** Opens the page's policy, changes it, and saves it. */
async function editPolicy(page, subject, change) {
  await page.getByRole("button", { name: "Edit the policy" }).click();
  const dialog = page.getByRole("dialog", { name: `Maintenance of ${subject}` });
  await change(dialog);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
}

/** A table's policy: inherited, changed, turned off and on; run now, with the result. */
export async function maintenance(page) {
  await openTable(page, names.table);
  await tabs(page).getByRole("link", { name: "Maintenance" }).click();
  await holds(page, "Keep snapshots for", "7 days", "built in");
  await page.getByText("Nothing was done yet.", { exact: false }).waitFor();
  await editPolicy(page, full, async (dialog) => {
    const field = dialog.getByLabel("Keep snapshots for", { exact: true });
    assert.ok(await field.isDisabled(), "what is inherited is not changed");
    await dialog.getByLabel("Inherit: Keep snapshots for").uncheck();
    await field.fill("4000");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("A whole number from 1 to 3650.").waitFor();
    await field.fill("30");
    await dialog.getByLabel("Inherit: When").uncheck();
    await dialog.getByLabel("When", { exact: true }).fill("at dawn");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText(/is not a cron line|Use five fields/).waitFor();
    await settled(page);
    await assertAccessible(page, "a policy with a mistake");
    await shot(page, "maintenance-policy");
    await dialog.getByLabel("When", { exact: true }).fill("30 4 * * 1");
  });
  await holds(page, "Keep snapshots for", "30 days", "the table");
  await holds(page, "When", "At 04:30, only on Monday, UTC", "the table");
  await page.getByRole("button", { name: "Turn off" }).click();
  await holds(page, "Maintenance", "Off", "the table");
  await page.getByText("Nothing is done by itself", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Turn on" }).click();
  await holds(page, "Maintenance", "On", "the table");
  await page.getByText("Looked at next", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Run now" }).click();
  const done = page.getByRole("table", { name: "What was done" });
  await done.locator(".status[data-status=SUCCEEDED]").waitFor({ timeout: slow });
  await done.getByText(/^Compacted 2 → 1 data files/).waitFor();
  await done.getByText(/^Found no snapshot to expire/).waitFor();
  await page.locator(".page-header").getByText("1 data file ", { exact: false }).waitFor();
  await settled(page);
  await assertAccessible(page, "the maintenance of a table");
  await shot(page, "maintenance-done");
  await done.getByRole("link", { name: /^Statement: Compacted/ }).click();
  const result = page.getByRole("region", { name: "Result" });
  await result.getByText("Done", { exact: true }).first().waitFor({ timeout: slow });
  await result.getByText("Details", { exact: true }).click();
  await result.getByText("OPTIMIZE", { exact: true }).waitFor();
}

/**
 * The workspace's policy applies to a database and its tables unless they have their own; so does a
 * database's.
 */
export async function maintenanceIsInherited(page) {
  await page.goto("/catalog");
  await page.getByRole("link", { name: "Maintenance", exact: true }).click();
  await page.getByRole("heading", { name: "Maintenance", level: 1 }).waitFor();
  await page.getByRole("table", { name: "What was done" }).getByRole("link", { name: full }).waitFor();
  await editPolicy(page, "the workspace", async (dialog) => {
    await dialog.getByLabel("Built in: Orphans are older than").uncheck();
    await dialog.getByLabel("Orphans are older than", { exact: true }).fill("9");
  });
  await holds(page, "Orphans are older than", "9 days", "the workspace");
  await page.getByRole("link", { name: "Catalog", exact: true }).last().click();
  await page.getByRole("link", { name: "lake", exact: true }).click();
  await page
    .getByRole("navigation", { name: "About the database" })
    .getByRole("link", { name: "Maintenance" })
    .click();
  await holds(page, "Orphans are older than", "9 days", "the workspace");
  await editPolicy(page, "lake", async (dialog) => {
    await dialog.getByLabel("Inherit: Remove orphan files").uncheck();
    await dialog.getByRole("switch", { name: "Remove orphan files" }).press("Space");
  });
  await holds(page, "Remove orphan files", "Off", "the database");
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByText(/of lake waits? for maintenance|No table of lake needs maintenance now/).waitFor();
  await openTable(page, names.copy);
  await tabs(page).getByRole("link", { name: "Maintenance" }).click();
  await holds(page, "Remove orphan files", "Off", "the database");
  await holds(page, "Orphans are older than", "9 days", "the workspace");
  await page.goto("/catalog/lake?tab=maintenance");
  await editPolicy(page, "lake", (dialog) => dialog.getByLabel("Inherit: Remove orphan files").check());
  await holds(page, "Remove orphan files", "On", "built in");
  await page.goto("/catalog/maintenance");
  await editPolicy(page, "the workspace", (dialog) =>
    dialog.getByLabel("Built in: Orphans are older than").check(),
  );
  await holds(page, "Orphans are older than", "7 days", "built in");
}

/** A table is renamed, dropped, found among the dropped ones, and restored. */
export async function dropAndRestore(page) {
  await openTable(page, names.copy);
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Rename or move the table" }).click();
  const dialog = page.getByRole("dialog", { name: `Rename ${names.copy}` });
  await dialog.getByLabel("Schema and name").fill(`${names.schema}.daily`);
  await dialog.getByRole("button", { name: "Rename", exact: true }).click();
  await page.getByRole("heading", { name: "daily", level: 1 }).waitFor();
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Drop the table" }).click();
  await page
    .getByRole("dialog")
    .getByText(/for seven days/)
    .waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Drop the table" }).click();
  await page.getByText("It is dropped").waitFor();
  await settled(page);
  await assertAccessible(page, "a table that is dropped");
  await shot(page, "table-dropped");
  await page.getByRole("link", { name: "lake", exact: true }).click();
  await page.getByRole("heading", { name: "lake", level: 1 }).waitFor();
  assert.equal(await page.getByRole("link", { name: "daily" }).count(), 0);
  await page.getByRole("switch", { name: "Dropped" }).press("Space");
  await page.getByRole("button", { name: "Restore daily" }).click();
  await eventually(
    async () => (await page.getByRole("button", { name: "Restore daily" }).count()) === 0,
    "its end among what was dropped",
  );
  await openTable(page, "daily");
}

/** Every page of the catalog in one colour scheme. */
export async function look(browser, base, storage, scheme) {
  const p = await openPage(browser, { base, storage, scheme });
  await openTable(p.page, names.table);
  const table = new URL(p.page.url()).pathname;
  for (const tab of [
    "schema",
    "sample",
    "snapshots",
    "files",
    "partitions",
    "history",
    "lineage",
    "maintenance",
  ]) {
    await p.page.goto(`${table}?tab=${tab}`);
    await p.page.getByRole("heading", { level: 1 }).waitFor();
    await settled(p.page);
    await assertAccessible(p.page, `${tab} of a table in ${scheme}`);
    await shot(p.page, `table-${tab}-${scheme}`);
  }
  p.clean();
  await p.close();
}

/** A database is deleted once it is empty; until then the error has the reason. */
export async function remove(page) {
  await page.goto("/catalog/lake");
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Delete the database" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete the database" }).click();
  await page.getByText("lake was not deleted").waitFor();
  await page.goto("/catalog");
  await page.getByRole("link", { name: names.database, exact: true }).click();
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Delete the database" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete the database" }).click();
  await page.getByText(`Deleted the database ${names.database}.`).waitFor();
  await eventually(
    async () => (await page.getByRole("link", { name: names.database, exact: true }).count()) === 0,
    "its removal from the list",
  );
}
