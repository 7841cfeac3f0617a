/** What plans and configurations know of a deferred tier. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ConfigOptions, readConfigFile, resolveConfig } from "../../../src/engine/config/config.ts";
import { DeferredModels } from "../../../src/engine/offers/deferred_models.ts";
import { DAY_MINUTES, deferredWorld, MODEL } from "./deferred_world.ts";

async function planned(items: number, sla: number, config: Parameters<typeof deferredWorld>[1] = {}) {
  const { world } = deferredWorld({}, config);
  world.input(items, MODEL);
  const { engine } = await world.opened();
  const plan = await world.settle(engine.plan("/in.jsonl", { sla }));
  await world.settle(engine.close());
  return plan;
}

describe("a plan", () => {
  it("has the lane at its configured price, and all of the work in it", async () => {
    const plan = await planned(50, DAY_MINUTES);
    expect(plan.models[0]?.lanes.map(({ lane }) => lane)).toEqual(["gemini:realtime", "gemini:deferred"]);
    expect(plan.models[0]?.shares.map(({ lane }) => lane)).toEqual(["gemini:deferred"]);
    expect(plan.expected_usd / plan.realtime_usd).toBeGreaterThanOrEqual(0.3);
    expect(plan.expected_usd / plan.realtime_usd).toBeLessThan(0.4);
  });

  it("has it not without a price, and not where it is denied", async () => {
    for (const config of [{ deferred: null }, { lanes: { deny: ["flex", "batch", "deferred"] } }]) {
      const plan = await planned(50, DAY_MINUTES, config);
      expect(plan.models[0]?.lanes.map(({ lane }) => lane)).not.toContain("gemini:deferred");
    }
  });

  it("sends in realtime what has no time to be deferred", async () => {
    const plan = await planned(50, 15);
    expect(plan.models[0]?.shares.map(({ lane }) => lane)).toEqual(["gemini:realtime"]);
  });
});

describe("a configuration", () => {
  const resolved = (providers: ConfigOptions["providers"]) =>
    resolveConfig({ providers: providers ?? {} }, {});

  it.each([
    [{ openMax: 5 }, "priceFactor"],
    [{ priceFactor: 0.5, path: "interactions" }, "path"],
    [{ priceFactor: 0.5, openMax: 0 }, "openMax"],
  ])("of %j is refused, with its place", async (deferred, member) => {
    const dir = mkdtempSync(join(tmpdir(), "perigee-deferred-"));
    const path = join(dir, "c.json");
    writeFileSync(path, JSON.stringify({ providers: { gemini: { deferred } } }));
    await expect(readConfigFile(path)).rejects.toThrow(`providers.gemini.deferred.${member}`);
    rmSync(dir, { recursive: true });
  });

  it("says that it has no effect at providers without such a tier", () => {
    const { notes } = resolved({ openai: { deferred: { priceFactor: 0.5 } } });
    expect(notes.join()).toContain("providers.openai.deferred has no effect");
  });

  it("has no effect on the settings that requests are made with", () => {
    const [settings] = resolved({ gemini: { deferred: { priceFactor: 0.5 } } }).providers.filter(
      ({ name }) => name === "gemini",
    );
    expect(settings).not.toHaveProperty("deferred");
  });
});

describe("a model that has not taken a deferred request", () => {
  it("is off for six hours after three refusals in a row, and takes as many at once until then", () => {
    let nowMs = 0;
    const models = new DeferredModels({ nowMs: () => nowMs });
    expect([models.openMaxOf("m"), models.refused("m")]).toEqual([3, false]);
    expect([models.openMaxOf("m"), models.refused("m")]).toEqual([2, false]);
    expect([models.isOff("m"), models.refused("m"), models.isOff("m")]).toEqual([false, true, true]);
    expect(models.isOff("other")).toBe(false);
    nowMs = 6 * 3_600_000;
    expect([models.isOff("m"), models.openMaxOf("m")]).toEqual([false, 3]);
  });

  it("is known once it has, and refusals are the requests' own from then on", () => {
    const models = new DeferredModels({ nowMs: () => 0 });
    models.refused("m");
    models.taken("m");
    expect(models.openMaxOf("m")).toBe(Number.POSITIVE_INFINITY);
    expect([1, 2, 3, 4].map(() => models.refused("m"))).toEqual([false, false, false, false]);
    expect(models.isOff("m")).toBe(false);
  });
});
