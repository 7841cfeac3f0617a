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
  it("shows each operation under a policy that runs no inline script, light and dark, without barriers", async () => {
    const { page, complaints } = await openPage(browser, `${world.url}docs`);
    const operation = page.locator("#operations-inference-post_v0_infer_");
    await operation.waitFor();
    for (const screen of SCREENS) await fits(page, screen, "api");
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
    expect(complaints).toEqual([]);
  });

  it("sends a request with the key that was entered", async () => {
    const { page, complaints } = await openPage(browser, `${world.url}docs`);
    await page.getByRole("button", { name: "Authorize" }).first().click();
    await page.getByLabel("auth-bearer-value").fill(KEY);
    await page.locator(".auth-container", { hasText: "key (http, Bearer)" }).getByText("Authorize").click();
    await page.getByRole("button", { name: "Close" }).first().click();
    const operation = page.locator("#operations-inference-get_v0_infer_tasks");
    await operation.locator("button.opblock-summary-control").click();
    await operation.getByRole("button", { name: "Try it out" }).click();
    await operation.getByRole("button", { name: "Execute" }).click();
    await operation.locator(".live-responses-table").getByText('"has_more"').waitFor();
    expect(complaints).toEqual([]);
  });
});
