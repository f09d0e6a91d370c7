import { assertAccessible, eventually, openPage, settled, shot } from "./browser.mjs";
import { pages as experimentPages } from "./experiments.mjs";

/** Addresses of an existing job and run. */
async function places(page) {
  await page.goto("/jobs");
  const job = await page.getByRole("table", { name: "Jobs" }).getByRole("link").last().getAttribute("href");
  await page.goto("/runs");
  const run = await page.getByRole("table", { name: "Runs" }).getByRole("link").last().getAttribute("href");
  return { job, run };
}

/**
 * Every page in one colour scheme, without accessibility or policy violations and console errors.
 */
export async function everyPage(browser, base, storage, scheme, t) {
  const known = await openPage(browser, { base, storage, scheme });
  const stranger = await openPage(browser, { base, scheme });
  const { job, run } = await places(known.page);
  const pages = {
    overview: "/",
    jobs: "/jobs",
    "jobs-none-match": "/jobs?q=there-is-no-such-job",
    job,
    "job-new": "/jobs/new",
    "job-edit": `${job}/edit`,
    runs: "/runs",
    "runs-none-match": "/runs?status=PENDING&job=job_00000000000000000000000000",
    "runs-unknown-status": "/runs?status=nope",
    "run-graph": run,
    "run-timeline": `${run}?view=gantt`,
    ...experimentPages(),
    sql: "/sql",
    "sql-statements": "/sql/history",
    "sql-none-match": "/sql/history?q=there-is-no-such-statement",
    "sql-unknown-state": "/sql/history?state=nope",
    catalog: "/catalog",
    "catalog-database": "/catalog/lake",
    "catalog-dropped": "/catalog/lake?dropped=true",
    "catalog-maintenance": "/catalog/maintenance",
    "database-maintenance": "/catalog/lake?tab=maintenance",
    "catalog-not-found": "/catalog/db_00000000000000000000000000",
    "table-not-found": "/catalog/table/tbl_00000000000000000000000000",
    "compute-none": "/compute",
    "compute-create": "/compute?create=true",
    warehouses: "/warehouses",
    "compute-not-found": "/compute/cmp_00000000000000000000000000",
    agents: "/agents",
    "api-keys": "/api-keys",
    "api-keys-new": "/api-keys?create=true",
    members: "/members",
    settings: "/settings",
    "not-found": "/there/is/no/such/page",
    "run-not-found": "/runs/run_00000000000000000000000000",
  };
  const anonymous = { login: "/login", "setup-link": "/setup?token=none", "setup-incomplete": "/setup" };
  for (const [name, path] of [...Object.entries(pages), ...Object.entries(anonymous)]) {
    await t.test(`${name}, ${scheme}`, async () => {
      const p = name in anonymous ? stranger : known;
      await p.page.goto(path);
      await p.page.getByRole("heading", { level: 1 }).waitFor();
      await settled(p.page);
      await shot(p.page, `${name}-${scheme}`);
      await assertAccessible(p.page, `${path} in ${scheme}`);
      p.clean();
    });
  }
  await known.close();
  await stranger.close();
}

/** In a narrower window every column of the tables is visible, and the whole graph. */
export async function narrowedWindow(browser, base, storage) {
  const wide = { width: 1440, height: 900 };
  const p = await openPage(browser, { base, storage, size: wide });
  const { run } = await places(p.page);
  for (const path of [
    "/",
    "/jobs",
    "/runs",
    "/experiments",
    "/sql/history",
    "/catalog/lake",
    "/catalog/maintenance",
    "/warehouses",
    "/agents",
    "/api-keys",
    "/members",
    run,
  ]) {
    await p.page.setViewportSize(wide);
    await p.page.goto(path);
    await p.page.getByRole("heading", { level: 1 }).waitFor();
    if (path === run) await p.page.locator(".dag-node").first().waitFor();
    await settled(p.page);
    await p.page.setViewportSize({ width: 1024, height: 768 });
    const beyond = () =>
      p.page.locator("th, .dag-node").evaluateAll((all) =>
        all
          .filter((e) => {
            const room = e.closest(".mantine-ScrollArea-viewport, .dag")?.getBoundingClientRect();
            return room && e.getBoundingClientRect().right > room.right + 1;
          })
          .map((e) => e.textContent),
      );
    await eventually(async () => (await beyond()).length === 0, `all of ${path} in sight`);
  }
  p.clean();
  await p.close();
}

/** In a small window nothing is wider than the window, and the navigation opens. */
export async function smallWindow(browser, base, storage) {
  const p = await openPage(browser, { base, storage, size: { width: 390, height: 780 } });
  for (const path of [
    "/",
    "/jobs",
    "/runs",
    "/experiments",
    ...["experiment", "tracking-run", "compare-runs"].map((name) => experimentPages()[name]),
    "/sql",
    "/sql/history",
    "/catalog",
    "/catalog/lake",
    "/catalog/maintenance",
    "/warehouses",
    "/settings",
  ]) {
    await p.page.goto(path);
    await p.page.getByRole("heading", { level: 1 }).waitFor();
    await settled(p.page);
    await p.page.waitForFunction(() => document.documentElement.scrollWidth <= window.innerWidth);
  }
  await p.page.getByRole("button", { name: "Navigation" }).click();
  await p.page.getByRole("link", { name: "Agents", exact: true }).click();
  await p.page.waitForURL("**/agents");
  await settled(p.page);
  await assertAccessible(p.page, "a small window");
  await shot(p.page, "small-window");
  p.clean();
  await p.close();
}
