/** The operator page of a service that is part of a fleet, as a browser shows it to keys with and without the scope `admin`. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Scope } from "../../src/service/http/caller.ts";
import type { FleetMember, FleetState } from "../../src/service/operate/fleet_state.ts";
import { openPerigeeService, type PerigeeService } from "../../src/service/perigee_service.ts";
import { enterKey, fits, isThere, openBrowser, openPage, SCREENS } from "./browser.ts";

const member = (name: string, parts: readonly number[], isLeaving = false): FleetMember => ({
  ...{ name, role: "all", version: "0.1.0", isLeaving, startedWallMs: Date.UTC(2026, 0, 2, 3, 4, 5), parts },
});

describe.skipIf(!isThere)("the operator page of a fleet", () => {
  let dataDir: string;
  let service: PerigeeService;
  let url: string;
  let scopes: readonly Scope[] = ["infer:read", "admin"];
  let state: FleetState = {
    worker: "perigee-7c9d",
    leaseLeftMs: 5_000,
    workers: [
      member("perigee-7c9d", [1, 4]),
      member("a-worker-with-a-name-of-the-length-that-machines-have.example.org", [2], true),
      { ...member("api", []), role: "api" },
    ],
    free: [3],
  };
  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "perigee-page-fleet-"));
    const verify = () => ({ keyId: "k", project: "red", scopes: new Set(scopes), isBeta: false });
    service = await openPerigeeService(
      { dataDir, env: {}, threads: 1, verifier: { verify } },
      { fleet: () => state },
    );
    url = `${await service.listen({ port: 0 })}/`;
  }, 60_000);
  afterAll(async () => {
    await service?.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("shows its workers, their partitions and those without one, and nothing of it without the scope admin", async () => {
    const browser = await openBrowser();
    try {
      const { page, complaints } = await openPage(browser, url);
      await enterKey(page);
      const rows = page.locator("#fleet > li");
      await expect.poll(() => rows.count(), { timeout: 15_000 }).toBe(3);
      const [first = "", second = "", third = ""] = await rows.allTextContents();
      expect(first).toMatch(
        /^perigee-7c9dWorkingpartitions 1, 4Answers callers and owns partitions, version 0\.1\.0, since .*2026/,
      );
      expect(second).toContain("Leavingpartition 2");
      expect(third).toContain("no partition");
      expect(await page.locator("#fleet-worker").textContent()).toBe("This page is served by perigee-7c9d");
      expect(await page.locator("#fleet-free").textContent()).toBe(
        "Partition 3 has no worker: its requests wait until one takes it.",
      );
      for (const screen of SCREENS) await fits(page, screen, "fleet");
      state = { ...state, free: [] };
      await expect.poll(() => page.locator("#fleet-free").isVisible()).toBe(false);
      scopes = ["infer:read"];
      await page.reload();
      await expect.poll(() => page.locator("#board").isVisible()).toBe(true);
      expect(await page.locator("#fleet-section").isVisible()).toBe(false);
      expect(complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  }, 60_000);
});
