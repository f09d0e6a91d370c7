import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { assertAccessible, eventually, settled, shot, waitTimeout } from "./browser.mjs";

/** The first statement starts the warehouse, which may take a while on a busy host. */
const slow = 2 * waitTimeout;

const region = (page, name) => page.getByRole("region", { name, exact: true });
const result = (page) => region(page, "Result");
const grid = (page) => page.getByRole("grid", { name: "Rows of the result" });
const outcome = (page, state) => result(page).locator(`.sql-outcome .status[data-status=${state}]`);

/** The editor, ready for input. */
export async function openSql(page, path = "/sql") {
  await page.goto(path);
  await page.getByRole("heading", { name: "SQL", level: 1 }).waitFor();
  await page.locator(".cm-content").waitFor();
}

/** Replaces the editor's text. */
export async function write(page, text) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

/** Writes one statement in a new tab, runs it, and waits for a state. */
export async function runSql(page, text, state = "SUCCEEDED") {
  await page.getByRole("button", { name: "New query", exact: true }).click();
  await write(page, text);
  await page.keyboard.press("Control+Enter");
  await outcome(page, state).waitFor({ timeout: slow });
}

const cell = (page, row, column) =>
  grid(page).locator(`[role=row][aria-rowindex="${row + 1}"] [aria-colindex="${column + 1}"]`);

/**
 * A query of the sample: the catalog inserts a name, completion completes another, rows arrive and
 * are copied.
 */
export async function query(page) {
  await openSql(page);
  await write(
    page,
    "SELECT species, NULL AS nothing, 9007199254740993::BIGINT AS large, 'NaN'::DOUBLE AS none FROM ",
  );
  const tree = region(page, "Catalog");
  await tree.getByRole("button", { name: "penguins", exact: true }).click();
  await eventually(
    async () => (await page.locator(".cm-content").textContent())?.includes("lake.samples.penguins"),
    "the name that the catalog writes",
  );
  await page.keyboard.insertText(" WHERE isl");
  await page.keyboard.press("Control+Space");
  await page.locator(".cm-tooltip-autocomplete").getByText("island").click();
  await page.keyboard.insertText(" = 'Dream' ORDER BY species");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await outcome(page, "SUCCEEDED").waitFor({ timeout: slow });
  await result(page).getByText("124 rows", { exact: true }).waitFor();
  await grid(page).waitFor();
  assert.equal(await cell(page, 1, 1).textContent(), "Adelie");
  assert.equal(await cell(page, 1, 2).textContent(), "NULL");
  assert.equal(await cell(page, 1, 3).textContent(), "9007199254740993");
  assert.equal(await cell(page, 1, 4).textContent(), "NaN");
  await grid(page).focus();
  for (const key of ["ArrowRight", "ArrowRight", "Shift+ArrowDown", "Control+c"])
    await page.keyboard.press(key);
  await eventually(
    async () =>
      (await page.evaluate(() => navigator.clipboard.readText())) ===
      "large\n9007199254740993\n9007199254740993",
    "what was copied",
  );
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "large" }).getByText("9007199254740993").waitFor();
  await page.keyboard.press("Escape");
  await settled(page);
  await assertAccessible(page, "a query with its result");
  await shot(page, "sql-result");
}

/** Sorting, search and download of a complete result. */
export async function gridTools(page) {
  await openSql(page);
  await runSql(page, "SELECT x, 'row ' || x AS name FROM generate_series(1, 3000) AS t(x)");
  await grid(page).getByRole("columnheader", { name: "x" }).getByRole("button").click();
  await grid(page).getByRole("columnheader", { name: "x" }).getByRole("button").click();
  await eventually(async () => (await cell(page, 1, 1).textContent()) === "3000", "the largest first");
  await page.getByLabel("Search in the result").fill("row 2001");
  await page.getByLabel("Search in the result").press("Enter");
  await page.getByRole("status", { name: "Search" }).getByText("row 1,000").waitFor();
  await grid(page).locator("[data-active]").getByText("row 2001").waitFor();
  for (const [item, ending, head] of [
    ["CSV", "csv", "x,name\n1,row 1\n"],
    ["JSON", "json", '[\n{"x":1,"name":"row 1"},\n'],
  ]) {
    await result(page).getByRole("button", { name: "Download" }).click();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("menuitem", { name: item, exact: true }).click(),
    ]);
    assert.match(file.suggestedFilename(), new RegExp(`^stm_.*\\.${ending}$`));
    const text = readFileSync(await file.path(), "utf8");
    assert.ok(text.startsWith(head), text.slice(0, 60));
    if (ending === "json") assert.equal(JSON.parse(text).length, 3000);
    else assert.equal(text.trimEnd().split("\n").length, 3001);
  }
}

/** An error is marked at its position in the text, after another statement. */
export async function errorAtItsPlace(page) {
  await openSql(page);
  await page.getByRole("button", { name: "New query", exact: true }).click();
  await write(page, "SELECT 1;\n\nSELECT species, nme\nFROM lake.samples.penguins");
  await page.keyboard.press("Control+Enter");
  await outcome(page, "FAILED").waitFor({ timeout: slow });
  assert.equal(await page.locator(".cm-lintRange-error").textContent(), "nme");
  await page.locator(".cm-content").press("Control+Home");
  await result(page).getByRole("button", { name: "Go to line 3, column 17" }).click();
  await page.locator(".cm-activeLine").getByText("nme").waitFor();
  await settled(page);
  await assertAccessible(page, "a statement with a mistake");
  await shot(page, "sql-error");
}

/** A million rows: the end is reachable without loading or drawing the rest. */
export async function millionRows(page) {
  await openSql(page);
  await runSql(
    page,
    "SELECT n, n * 3 AS m, 'name ' || n AS name, n % 97 AS k, [n, n + 1] AS pair, n / 7 AS part FROM generate_series(1, 1000000) AS t(n)",
  );
  await result(page).getByText("1,000,000 rows", { exact: true }).waitFor();
  await grid(page).focus();
  await page.keyboard.press("Control+End");
  await eventually(async () => (await cell(page, 1_000_000, 1).textContent()) === "1000000", "the last row");
  const drawn = await grid(page).getByRole("gridcell").count();
  assert.ok(drawn < 2_000, `${drawn} values are drawn`);
  const bounds = () =>
    grid(page).evaluate((g) => {
      const last = [...g.querySelectorAll(".grid-view [role=row]")].at(-1).getBoundingClientRect();
      return Math.round(last.bottom - g.getBoundingClientRect().bottom);
    });
  assert.ok((await bounds()) <= 2, "the last row is wholly in sight");
  await shot(page, "sql-million");
  await grid(page).evaluate((g) => {
    g.scrollTop = g.scrollHeight / 2;
  });
  await eventually(async () => {
    const first = await grid(page).locator(".grid-view .grid-number").first().textContent();
    return Math.abs(Number(first?.replaceAll(",", "")) - 500_000) < 5_000;
  }, "the middle");
  await page.getByLabel("Search in the result").fill("name 700123");
  await page.getByLabel("Search in the result").press("Enter");
  await page.getByRole("status", { name: "Search" }).getByText("row 700,123").waitFor({ timeout: slow });
  await grid(page).focus();
  await page.keyboard.press("Control+Home");
  await eventually(async () => (await cell(page, 1, 1).textContent()) === "1", "the first row");
  await settled(page);
  await assertAccessible(page, "a result of a million rows");
}

/** A running statement is cancelled, and its state says so. */
export async function cancel(page) {
  await openSql(page);
  await page.getByRole("button", { name: "New query", exact: true }).click();
  await write(
    page,
    "SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3",
  );
  await page.keyboard.press("Control+Enter");
  await outcome(page, "RUNNING").waitFor({ timeout: slow });
  await settled(page);
  await assertAccessible(page, "a statement that runs");
  await shot(page, "sql-running");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await outcome(page, "CANCELLED").waitFor({ timeout: slow });
}

/** Several statements in order; parameters; destructive statements need a confirmation. */
export async function severalAtOnce(page) {
  await openSql(page);
  await page.getByRole("button", { name: "New query", exact: true }).click();
  await write(page, "SELECT 1 AS a; SELECT $1::INT + 1 AS b; SELECT wrong; SELECT 4 AS d");
  await page.keyboard.press("Control+Shift+Enter");
  await result(page)
    .getByText("give each a value under Parameters", { exact: false })
    .waitFor({ timeout: slow });
  await page.getByRole("button", { name: /^Parameters/ }).click();
  const dialog = page.getByRole("dialog", { name: "Parameters" });
  await dialog.getByLabel("Value of parameter 1").fill("41");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" }); // it gives the focus back as it closes
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+Shift+Enter");
  const runs = page.getByRole("navigation", { name: "Statements" });
  await runs.getByRole("button").nth(2).waitFor({ timeout: slow });
  await outcome(page, "FAILED").waitFor({ timeout: slow });
  assert.equal(await runs.getByRole("button").count(), 3, "it stops at the first that fails");
  await runs.getByRole("button").nth(1).click();
  await eventually(async () => (await cell(page, 1, 1).textContent()) === "42", "the value of the parameter");
  await write(page, "DELETE FROM lake.samples.penguins");
  await page.keyboard.press("Control+Enter");
  const ask = page.getByRole("dialog", { name: "Run this statement?" });
  await ask.getByText(/every row/).waitFor();
  await settled(page);
  await assertAccessible(page, "a question before rows are deleted");
  await ask.getByRole("button", { name: "Do not run it" }).click();
  await ask.waitFor({ state: "hidden" });
  await write(page, "select   1,2 from lake.samples.penguins");
  await page.getByRole("button", { name: "Format" }).click();
  await eventually(
    async () => (await page.locator(".cm-line").first().textContent()) === "SELECT",
    "the text that was laid out",
  );
}

/** A chart of a result, also as a table; it has a suitable default. */
export async function chart(page) {
  await openSql(page);
  await runSql(
    page,
    "SELECT species, avg(body_mass_g) AS mass, count(*) AS birds FROM lake.samples.penguins GROUP BY species ORDER BY species",
  );
  await result(page).getByText("Chart", { exact: true }).click();
  await result(page)
    .getByRole("img", { name: "mass, birds by species, bar chart" })
    .waitFor({ timeout: slow });
  await settled(page);
  await shot(page, "sql-chart");
  await result(page).getByRole("switch", { name: "Show as table" }).press("Space");
  const table = result(page).getByRole("table", { name: "mass, birds by species, bar chart" });
  assert.equal(await table.getByRole("row").count(), 4);
  await settled(page);
  await assertAccessible(page, "a chart as a table");
  await result(page).getByText("Lineage", { exact: true }).click();
  await result(page).getByRole("link", { name: "lake.samples.penguins" }).waitFor();
}

/**
 * Texts survive a reload; a statement is found in the history, opened with its result, and run
 * again.
 */
export async function history(page) {
  await openSql(page);
  const mark = `mark_${Date.now().toString(36)}`;
  await runSql(page, `SELECT 'x' AS ${mark}`);
  await page.reload();
  await page.locator(".cm-content").getByText(mark).waitFor();
  await grid(page).getByRole("columnheader", { name: mark }).waitFor();
  await page.getByRole("link", { name: "History" }).click();
  await page.getByLabel("Search in the texts").fill(mark);
  const table = page.getByRole("table", { name: "Statements" });
  await eventually(async () => (await table.getByRole("row").count()) === 2, "one statement");
  await page.waitForURL(/q=mark_/);
  await page.getByRole("switch", { name: "Mine" }).press("Space");
  await page.waitForURL(/mine=true/);
  await settled(page);
  await assertAccessible(page, "statements, filtered");
  await shot(page, "statements");
  await table.getByRole("button", { name: "Run it again" }).click();
  await page.getByRole("heading", { name: "SQL", level: 1 }).waitFor();
  await outcome(page, "SUCCEEDED").waitFor({ timeout: slow });
  await page.goto("/sql/history?state=FAILED");
  await table.getByRole("link").first().click();
  await outcome(page, "FAILED").waitFor({ timeout: slow });
}

/** A statement's engine and the reason; a named engine survives a reload. */
export async function engines(page) {
  await openSql(page);
  await runSql(page, "SELECT 1 AS one");
  const served = result(page).getByRole("button", { name: "Engine DuckDB. DuckDB serves reads." });
  await served.focus();
  await page.getByRole("tooltip", { name: "DuckDB serves reads." }).waitFor();
  await served.click();
  await result(page).getByText("DuckDB serves reads.", { exact: true }).waitFor();
  await result(page).getByText("Result", { exact: true }).first().click();
  const picker = page.getByRole("combobox", { name: "Engine" });
  assert.equal(await picker.inputValue(), "Any engine");
  await picker.click();
  await page.getByRole("option", { name: /reads DuckDB, writes DuckDB/ }).waitFor();
  assert.equal(await page.getByRole("option", { name: /^Trino/ }).count(), 0, "the warehouse has no Trino");
  await page.getByRole("option", { name: /^DuckDB/ }).click();
  await settled(page);
  await assertAccessible(page, "an engine that is named");
  const mark = `named_${Date.now().toString(36)}`;
  await write(page, `SELECT 2 AS ${mark}`);
  await page.keyboard.press("Control+Enter");
  await result(page)
    .getByRole("button", { name: "Engine DuckDB. The request names DuckDB." })
    .waitFor({ timeout: slow });
  await page.reload();
  await page.locator(".cm-content").getByText(mark).waitFor();
  await eventually(async () => (await picker.inputValue()) === "DuckDB", "the engine that stays");
  await picker.click();
  await page.getByRole("option", { name: /^Any engine/ }).click();
  await page.goto(`/sql/history?q=${mark}`);
  await page
    .getByRole("table", { name: "Statements" })
    .getByText("DuckDB: The request names DuckDB.", { exact: true })
    .waitFor();
  await settled(page);
  await shot(page, "statements-engine");
}
