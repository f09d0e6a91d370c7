import assert from "node:assert/strict";
import { assertAccessible, eventually, label, openPage, settled, shot } from "./browser.mjs";
import { viewersCompute } from "./machines.mjs";

const unique = Date.now().toString(36);

/** A key's secret is shown once and works as a bearer token until the key is revoked. */
export async function apiKeys(page, base) {
  const name = `ci-${unique}`;
  await page.goto("/api-keys");
  await page.getByRole("button", { name: "New API key" }).first().click();
  const form = page.getByRole("dialog", { name: "New API key" });
  await form.getByLabel("Name").fill(name);
  await settled(page);
  await assertAccessible(page, "dialog for a new key");
  await form.getByRole("button", { name: "Make the key" }).click();

  const dialog = page.getByRole("dialog", { name: `The secret of ${name}` });
  const secret = (await dialog.getByTestId("secret").textContent()) ?? "";
  assert.match(secret, /^svc_sk_/);
  await settled(page);
  await assertAccessible(page, "dialog with a secret");
  await shot(page, "key-secret");
  await page.keyboard.press("Escape");
  assert.ok(await dialog.isVisible(), "the secret does not go away by accident");
  assert.ok(await dialog.getByRole("button", { name: "Done" }).isDisabled());
  await dialog.getByLabel("I have stored it in a safe place").check();
  await dialog.getByRole("button", { name: "Done" }).click();
  await dialog.waitFor({ state: "hidden" });

  const ask = () => fetch(`${base}/api/v1/jobs`, { headers: { authorization: `Bearer ${secret}` } });
  if (!process.env.MILLPOND_NO_REST) assert.equal((await ask()).status, 200);
  await page.getByRole("button", { name: `Revoke ${name}` }).click();
  await page.getByRole("button", { name: "Revoke the key" }).click();
  await page.getByRole("row").filter({ hasText: name }).getByText("Revoked").waitFor();
  if (!process.env.MILLPOND_NO_REST) assert.equal((await ask()).status, 401);
}

/** An agent is connected; rotating its token needs a confirmation, which shows the effect. */
export async function agents(page) {
  await page.goto("/agents");
  const row = page.getByRole("row").filter({ has: page.locator('[data-status="CONNECTED"]') });
  await row.first().waitFor();
  await page.getByText("millpond agent", { exact: false }).first().waitFor();
  await row.first().getByRole("button", { name: "Rotate token" }).click();
  const dialog = page.getByRole("dialog", { name: /Rotate the token of/ });
  await dialog.waitFor();
  await settled(page);
  await assertAccessible(page, "dialog about a token");
  await dialog.getByRole("button", { name: "Not now" }).click();
}

/** An invited member sets a password by the link, and sees a viewer's pages. */
export async function members(page, browser, base) {
  const email = `grace-${unique}@example.org`;
  await page.goto("/members");
  await page.getByRole("button", { name: "Add a member" }).click();
  const form = page.getByRole("dialog", { name: "Add a member" });
  await form.getByLabel("E-mail").fill(email);
  await form.getByRole("combobox", { name: "Role" }).click();
  await page.getByRole("option", { name: "viewer" }).click();
  await form.getByRole("button", { name: "Add the member" }).click();
  const dialog = page.getByRole("dialog", { name: /Invite/ });
  const link = (await dialog.getByTestId("secret").textContent()) ?? "";
  await dialog.getByLabel("I have stored it in a safe place").check();
  await dialog.getByRole("button", { name: "Done" }).click();

  const guest = await openPage(browser, { base });
  const target = new URL(link);
  await guest.page.goto(target.pathname + target.search);
  await guest.page.getByRole("heading", { name: "Set your password" }).waitFor();
  await guest.page.getByLabel("E-mail").fill(email);
  await guest.page.getByLabel(label("Password")).fill("a pond by the mill");
  await guest.page.getByLabel("Password, once more").fill("a pond by the mill");
  await guest.page.getByRole("button", { name: "Set the password" }).click();
  await guest.page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await guest.page.goto("/jobs");
  const run = guest.page.getByRole("button", { name: /^Run / }).first();
  await run.waitFor();
  assert.ok(await run.isDisabled(), "a viewer cannot start runs");
  assert.ok(await guest.page.getByRole("button", { name: "New job" }).isDisabled(), "nor make jobs");
  await guest.page.goto("/jobs/new");
  await guest.page.getByRole("heading", { name: "This needs the role editor" }).waitFor();
  await settled(guest.page);
  await assertAccessible(guest.page, "a page for editors");
  await viewersCompute(guest.page);
  guest.clean();
  await guest.close();

  await page.getByRole("button", { name: `Remove ${email}` }).click();
  await page.getByRole("button", { name: "Remove the member" }).click();
  await eventually(async () => (await page.getByText(email).count()) === 0, "the member's removal");
}

/** A quota is changed and reset. */
export async function quotas(page) {
  await page.goto("/settings");
  const row = page.locator("form").filter({ hasText: "max_running_runs" });
  const field = row.getByLabel("Limit of max_running_runs");
  const before = await field.inputValue();
  for (const value of [String(Number(before) + 1), before]) {
    await field.fill(value);
    await row.getByRole("button", { name: "Set" }).click();
    await row.getByText(`of ${value} in use`).waitFor();
  }
}

/** The palette finds pages, jobs and commands; `?` lists shortcuts; g leads to pages. */
export async function keyboard(page) {
  await page.goto("/");
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  const search = page.getByLabel("Search and commands").last();
  await search.fill("agents");
  await settled(page);
  await assertAccessible(page, "command palette");
  await shot(page, "palette");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/agents");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForURL("**/runs");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await settled(page);
  await assertAccessible(page, "shortcuts");
  await page.keyboard.press("Escape");
}

/** Signing out ends the session in other windows as well. */
export async function signOut(browser, base, storage) {
  const one = await openPage(browser, { base, storage });
  const two = await openPage(browser, { base, storage });
  await two.page.goto("/runs");
  await two.page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  await one.page.goto("/");
  await one.page.getByRole("button", { name: /account of/ }).click();
  await one.page.getByRole("menuitem", { name: "Sign out" }).click();
  await one.page.getByRole("heading", { name: "Sign in" }).waitFor();
  await two.page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.match(two.page.url(), /to=/);
  one.clean();
  await one.close();
  await two.close();
}
