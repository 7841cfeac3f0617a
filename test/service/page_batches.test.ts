/**
 * The operator page with batches at a provider, as a browser shows it: the whole service, and a fake provider on a real socket.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BatchService, openBatchService } from "./batch_service.ts";
import { enterKey, fits, isThere, openBrowser, openPage, SCREENS } from "./browser.ts";

describe.skipIf(!isThere)("the operator page with batches", () => {
  let dataDir: string;
  let service: BatchService;
  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "perigee-page-batches-"));
    service = await openBatchService({ dataDir });
  }, 60_000);
  afterAll(async () => {
    await service?.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("shows what is in an open batch, how far it is, and when it is polled next, and no prompt", async () => {
    const browser = await openBrowser();
    try {
      const { page, complaints } = await openPage(browser, service.url);
      await enterKey(page);
      expect(await page.locator("#batches-section").isVisible()).toBe(false);
      await service.submit(1_500);
      const row = page.locator("#batches li");
      const shown = (): Promise<string | null> => row.first().textContent();
      await expect.poll(shown, { timeout: 15_000 }).toMatch(/0 of 1,500/);
      await expect.poll(shown, { timeout: 15_000 }).toMatch(/created \d+ s ago, next poll in \d+ (s|min)/);
      const text = (await page.locator("#batches").textContent()) ?? "";
      expect(text).toContain("openai:gpt-5-mini");
      expect(text).toContain("At work");
      expect(text).toMatch(/batch_\w+/);
      expect(text).not.toContain("Question");
      for (const screen of SCREENS) await fits(page, screen, "batches");
      expect(complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  }, 60_000);
});
