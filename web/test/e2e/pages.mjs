import { assertAccessible, openPage, settled, shot } from "./browser.mjs";

/** Addresses of one job and one run that exist. */
async function places(page) {
  await page.goto("/jobs");
  const job = await page.getByRole("table", { name: "Jobs" }).getByRole("link").last().getAttribute("href");
  await page.goto("/runs");
  const run = await page.getByRole("table", { name: "Runs" }).getByRole("link").last().getAttribute("href");
  return { job, run };
}

/** Every page in one colour scheme: no violation of accessibility or policy, no error in the console. */
export async function everyPage(browser, base, storage, scheme, t) {
  const first = await openPage(browser, { base, storage, scheme });
  const { job, run } = await places(first.page);
  await first.close();
  const pages = {
    overview: "/",
    jobs: "/jobs",
    "jobs-none-match": "/jobs?q=there-is-no-such-job",
    job,
    "job-new": "/jobs/new",
    "job-edit": `${job}/edit`,
    runs: "/runs",
    "runs-none-match": "/runs?status=PENDING&job=job_00000000000000000000000000",
    "run-graph": run,
    "run-timeline": `${run}?view=gantt`,
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
      const p = await openPage(browser, { base, scheme, storage: name in anonymous ? undefined : storage });
      await p.page.goto(path);
      await p.page.getByRole("heading", { level: 1 }).waitFor();
      await settled(p.page);
      await shot(p.page, `${name}-${scheme}`);
      await assertAccessible(p.page, `${path} in ${scheme}`);
      p.clean();
      await p.close();
    });
  }
}

/** On a small window nothing is wider than the window, and the navigation opens. */
export async function smallWindow(browser, base, storage) {
  const p = await openPage(browser, { base, storage, size: { width: 390, height: 780 } });
  for (const path of ["/", "/jobs", "/runs", "/settings"]) {
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
