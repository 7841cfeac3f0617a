/**
 * The page of the HTTP interface, as a browser shows it.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { violations } from "./accessible.ts";
import { fits, isThere, openBrowser, openPage, SCREENS, shoot } from "./browser.ts";
import { KEY, openPageWorld, type PageWorld } from "./page_world.ts";

let world: PageWorld;
let browser: Browser;

beforeAll(async () => {
  if (!isThere) return;
  browser = await openBrowser();
  world = await openPageWorld();
});

afterAll(async () => {
  await browser?.close();
  await world?.close();
});

describe.skipIf(!isThere)("the page of the HTTP interface", () => {
  // One page for all of it: Swagger UI takes a second to lay out all operations, and axe four to read them.
  it("shows each operation under a policy that runs no inline script, light and dark, without barriers, and sends requests", async () => {
    const { page, complaints } = await openPage(browser, `${world.url}docs`);
    const operation = page.locator("#operations-inference-post_v0_infer_");
    await operation.waitFor();
    for (const screen of SCREENS) await fits(page, screen, "api");
    await page.getByPlaceholder("Filter by tag").fill("inference"); // operations are alike
    await page.locator(".opblock-tag-section").nth(1).waitFor({ state: "detached" });
    await operation.locator("button.opblock-summary-control").click();
    await operation.getByText("Idempotency-Key").first().waitFor();
    await operation.getByRole("button", { name: "Try it out" }).click();
    await page.getByRole("button", { name: "Authorize" }).first().click();
    await page.getByRole("button", { name: "Close" }).first().waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await shoot(operation, `api-operation-${colorScheme}`);
      expect(await violations(page)).toEqual([]);
    }
    await page.getByLabel("auth-bearer-value").fill(KEY);
    await page.locator(".auth-container", { hasText: "key (http, Bearer)" }).getByText("Authorize").click();
    await page.getByRole("button", { name: "Close" }).first().click();
    const tasks = page.locator("#operations-inference-get_v0_infer_tasks");
    await tasks.locator("button.opblock-summary-control").click();
    await tasks.getByRole("button", { name: "Try it out" }).click();
    await tasks.getByRole("button", { name: "Execute" }).click();
    await tasks.locator(".live-responses-table").getByText('"has_more"').waitFor();
    expect(complaints).toEqual([]);
  });
});
