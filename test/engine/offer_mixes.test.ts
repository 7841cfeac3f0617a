/**
 * Items under one rate limit that realtime and the flex tier share, of which the tier refuses a part: none misses its deadline, and
 * hardly any is sent at list price without need.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { createRandom } from "../../src/testing/random.ts";
import { SHED, tiered } from "./tiers.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const RPM = 120;
const ITEMS = 600;
/** Kept for an answer in realtime, of which nothing is known yet. */
const KEPT_MINUTES = 1.25;

/** The most items that can be answered in flex: each takes 1 / (1 - shed) requests there, and one in realtime. */
function bestInFlex(minutes: number, shed: number): number {
  const spare = RPM * minutes - ITEMS;
  return shed === 0 ? ITEMS : Math.min(ITEMS, spare / (1 / (1 - shed) - 1));
}

/** Answers of 1 to 60 s, most of them in some seconds. */
function latencyMs(random: () => number): number {
  return Math.min(60_000, 1_000 + 2_000 * -Math.log(1 - random()) * (random() < 0.05 ? 8 : 1));
}

describe("a tier that refuses a part of its requests", () => {
  const cases = [8, 20, 60].flatMap((sla) => [0, 0.2, 0.4, 0.6].map((shed) => ({ sla, shed })));
  it.each(cases)(
    "of $shed, with deadlines in $sla minutes, makes nothing late and lowers the price as far as it can",
    async ({ sla, shed }) => {
      const random = createRandom(sla * 100 + shed * 10);
      let flexed = 0;
      const world: World = new World({
        config: {
          providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } },
          limits: { openai: { requestsPerMinute: RPM } },
        },
        answer: (line, _attempt, _model, body) => {
          if ((body as { service_tier?: string }).service_tier !== "flex")
            return reply(line, "default", random);
          if (random() < shed) return SHED;
          flexed += 1;
          return reply(line, "flex", random);
        },
      });
      world.input(ITEMS, "openai:gpt-5-mini");
      const engine = await world.engine();
      const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, sla }).finished);
      await world.settle(engine.close());
      expect(summary.counts).toMatchObject({ completed: ITEMS });
      const share = summary.cost.billed_usd / summary.cost.list_usd;
      const best = 1 - bestInFlex(sla - KEPT_MINUTES, shed) / ITEMS / 2;
      expect(share).toBeLessThan(best * 1.03 + 0.02);
      expect(flexed).toBeGreaterThan(0);
    },
  );
});

function reply(line: number, tier: string, random: () => number): { afterMs: number; result: WireResult } {
  return { afterMs: latencyMs(random), result: tiered(line, tier) };
}
