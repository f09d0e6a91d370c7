// A real browser on the real console: checks for every page, and small helpers.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const axeTags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const names = [
  "chromium-headless-shell",
  "chromium",
  "chromium-browser",
  "google-chrome",
  "google-chrome-stable",
  "chrome",
];
const places = [
  "/usr/bin",
  "/usr/local/bin",
  "/snap/bin",
  "/opt/google/chrome",
  "/Applications/Chromium.app/Contents/MacOS",
  "/Applications/Google Chrome.app/Contents/MacOS",
];

/** The browser's path: CHROMIUM, or one on PATH, or in a usual place. */
function findChromium() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const dirs = [...(process.env.PATH ?? "").split(delimiter), ...places];
  for (const dir of dirs)
    for (const name of [...names, "Chromium", "Google Chrome"])
      if (dir && existsSync(join(dir, name))) return join(dir, name);
  throw new Error("No Chromium was found: install the package chromium, or set CHROMIUM to its path.");
}

export const launch = () =>
  chromium.launch({
    executablePath: findChromium(),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });

/** Bound of each wait, in milliseconds. On an idle machine each takes seconds. */
export const waitTimeout = 120_000;

/** Watches a page for console errors and policy violations. */
async function watch(page) {
  const faults = [];
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") faults.push(`console ${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => faults.push(`uncaught: ${e.message}`));
  await page.exposeFunction("millpondViolation", (v) => faults.push(`policy: ${v}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) =>
      window.millpondViolation(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`),
    );
  });
  return faults;
}

/** A window with its own session. `storage` is the state of a signed-in context. */
export async function openPage(browser, { base, scheme = "light", storage, size } = {}) {
  const context = await browser.newContext({
    baseURL: base,
    colorScheme: scheme,
    viewport: size ?? { width: 1360, height: 860 },
    storageState: storage,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(waitTimeout);
  const page = await context.newPage();
  const faults = await watch(page);
  return {
    context,
    page,
    /** Fails on any fault on this page since the last check. */
    clean() {
      assert.deepEqual(faults.splice(0), [], "the page has faults");
    },
    close: () => context.close(),
  };
}

/** Waits until nothing on the page is loading or animated. */
export async function settled(page) {
  await page.waitForFunction(
    () =>
      document.querySelector('[aria-label="Loading"], [aria-label="Drawing the graph"]') === null &&
      document.querySelector("h1") !== null &&
      document
        .getAnimations()
        .every(
          (a) =>
            a.playState !== "running" ||
            a.effect?.getComputedTiming().iterations === Number.POSITIVE_INFINITY,
        ),
  );
  await page.evaluate(() => document.fonts.ready);
}

/** Fails on any axe violation on the current page. */
export async function assertAccessible(page, where) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async (tags) => {
    const r = await window.axe.run(document, { runOnly: tags });
    return r.violations.map((v) => ({
      rule: v.id,
      nodes: v.nodes.slice(0, 5).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? ""}`),
    }));
  }, axeTags);
  assert.deepEqual(found, [], `${where} has accessibility violations`);
}

/** Saves a screenshot to the folder SHOTS, if that is set. */
export async function shot(page, name) {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });
}

/**
 * Polls check, some dozens of times a second, until it returns a true value; fails with the last
 * value.
 */
export async function eventually(check, what, timeout = waitTimeout) {
  const end = Date.now() + timeout;
  let last;
  while (Date.now() < end) {
    last = await check();
    if (last) return last;
    await new Promise((r) => setTimeout(r, 25));
  }
  assert.fail(`${what} did not happen within ${timeout} ms; last seen: ${JSON.stringify(last)}`);
}

/** A field by its whole label, with or without the star of required fields. */
export const label = (text) => new RegExp(`^${text}( \\*)?$`);

/** Numbers of the visible lines of a log. */
export const lineNumbers = (page) =>
  page.locator(".log-n").evaluateAll((all) => all.map((e) => Number(e.textContent)));
