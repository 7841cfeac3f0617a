/**
 * Work with an sla waits for hours that cost less, as far as its deadline and the rate limits allow. DeepSeek's peak is from 01:00
 * to 04:00 and from 06:00 to 10:00 UTC, Monday to Friday.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const MODEL = "deepseek:deepseek-v4-flash";
const HOUR_MS = 3_600_000;
/** A Tuesday. */
const MIDNIGHT_MS = Date.UTC(2026, 10, 24);
/** In the list of prices: twice the price of other hours. */
const PEAK_TO_4 = [1, 4] as const;

function answered(line: number): WireResult {
  return openaiAnswer(`answer ${line}`, { inputTokens: 1_000, outputTokens: 100 }, "deepseek-v4-flash");
}

async function runAt(
  hour: number,
  options: {
    items?: number;
    sla?: number;
    rpm?: number;
    deny?: readonly string[];
    offPeakDays?: readonly string[];
    prices?: ConfigOptions["prices"];
    model?: string;
    policy?: "balanced" | "fastest";
  },
) {
  const { items = 10, sla, rpm, deny, offPeakDays = [], policy, prices = {}, model = MODEL } = options;
  const world = new World({
    wallMs: MIDNIGHT_MS + hour * HOUR_MS,
    latencyMs: 1_000,
    answer: answered,
    config: {
      providers: { deepseek: { baseUrl: "http://deepseek.test/v1", key: "k" } },
      ...(rpm === undefined ? {} : { limits: { deepseek: { requestsPerMinute: rpm } } }),
      prices,
      lanes: { offPeakDays, ...(deny === undefined ? {} : { deny }) },
      ...(policy === undefined ? {} : { policy }),
    },
  });
  world.input(items, model);
  const engine = await world.engine();
  const startMs = world.clock.nowMs();
  const run = engine.run(INPUT, { out: OUTPUT, ...(sla === undefined ? {} : { sla }) });
  await world.clock.advance(5_000);
  const cheaper = engine.lanes()[0]?.cheaper;
  const summary = await world.settle(run.finished);
  await world.settle(engine.close());
  /** The hour of the day at which each request left. */
  const hours = world.sent.map(({ atMs }) => hour + (atMs - startMs) / HOUR_MS);
  return { summary, hours, cheaper };
}

describe("work with an sla in hours that cost more", () => {
  it("waits until they are over, and says so", async () => {
    const { summary, hours, cheaper } = await runAt(2, { sla: 180 });
    expect(summary.counts).toMatchObject({ completed: 10 });
    expect(Math.min(...hours)).toBeGreaterThanOrEqual(PEAK_TO_4[1]);
    expect(cheaper).toMatchObject({ tier: "offpeak" });
    expect(cheaper?.tier === "offpeak" && cheaper.beginsInMs).toBeCloseTo(2 * HOUR_MS - 5_000, -3);
    expect(summary.cost.billed_usd).toBeCloseTo(10 * (1_000 * 0.22e-6 + 100 * 0.66e-6), 9);
  });

  it("does not wait with what realtime could not do after them, although little was counted at first", async () => {
    for (const [hour, items, sla] of [
      [4 - 2 / 60, 200, 5],
      [3.5, 2_900, 60],
    ] as const) {
      const { summary, hours } = await runAt(hour, { items, sla, rpm: 60 });
      expect(summary.counts).toMatchObject({ completed: items, expired: 0 });
      expect(Math.min(...hours) - hour).toBeLessThan(10 / 3_600);
      expect(Math.max(...hours)).toBeGreaterThan(PEAK_TO_4[1]);
    }
  });

  it("is sent at once without a deadline, with one before their end, where it is denied, and in cheap hours", async () => {
    for (const [hour, options] of [
      [2, {}],
      [2, { sla: 60 }],
      [2, { sla: 180, deny: ["offpeak"] }],
      [2, { sla: 180, policy: "fastest" }],
      [12, { sla: 180 }],
    ] as const) {
      const { hours, cheaper } = await runAt(hour, options);
      expect(Math.max(...hours) - hour).toBeLessThan(0.1);
      expect(cheaper?.tier === "offpeak" && cheaper.beginsInMs !== undefined).toBe(false);
    }
  });

  it("is sent before as far as the rest would not be done in time after", async () => {
    const { summary, hours } = await runAt(2, { items: 600, rpm: 10, sla: 150 });
    expect(summary.counts).toMatchObject({ completed: 600 });
    const early = hours.filter((hour) => hour < PEAK_TO_4[1]).length;
    expect(early).toBeGreaterThanOrEqual(300); // 30 minutes of ten are left after the peak
    expect(early).toBeLessThan(345);
  });

  it("is sent before as far as twice the time of the rest would not be left after, where the policy is balanced", async () => {
    const { summary, hours } = await runAt(2, { items: 600, rpm: 10, sla: 150, policy: "balanced" });
    expect(summary.counts).toMatchObject({ completed: 600 });
    const early = hours.filter((hour) => hour < PEAK_TO_4[1]).length;
    expect(early).toBeGreaterThanOrEqual(450); // of 30 minutes that are left, realtime needs 15 for the rest
    expect(early).toBeLessThan(480);
  });

  it("waits for the cheap hours of a configured price with a peak factor, and of one without it for nothing", async () => {
    const model = "deepseek:deepseek-flash";
    const price = { inputUsdPerMillion: 0.15, outputUsdPerMillion: 0.6 };
    const dear = await runAt(2, { sla: 180, model, prices: { [model]: { ...price, peakFactor: 2 } } });
    expect(Math.min(...dear.hours)).toBeGreaterThanOrEqual(PEAK_TO_4[1]);
    expect(dear.summary.cost.billed_usd).toBeCloseTo(10 * (1_000 * 0.15e-6 + 100 * 0.6e-6), 9);
    const flat = await runAt(2, { sla: 180, model, prices: { [model]: price } });
    expect(Math.max(...flat.hours) - 2).toBeLessThan(0.1);
  });

  it("waits on a public holiday in China for nothing, as it is configured", async () => {
    const offPeakDays = ["2026-11-24"];
    const { hours } = await runAt(2, { sla: 180, offPeakDays });
    expect(Math.max(...hours) - 2).toBeLessThan(0.1);
  });

  it("waits over a weekend for nothing: there is no peak", async () => {
    const saturday = 4 * 24 + 2;
    const { hours } = await runAt(saturday, { sla: 180 });
    expect(Math.max(...hours) - saturday).toBeLessThan(0.1);
  });
});
