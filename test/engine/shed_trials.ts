/**
 * Items under one rate limit that realtime and the flex tier share, of which the tier refuses a part. Used by tests and by the check of lanes.
 */
import type { WireResult } from "../../src/dispatch/transport.ts";
import { createRandom } from "../../src/testing/random.ts";
import { SHED, tiered } from "./tiers.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const RPM = 120;
/** Of one trial. */
export const ITEMS = 600;
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

/** What became of a trial. */
export interface ShedResult {
  readonly completed: number;
  /** What is billed, of the list price. */
  readonly share: number;
  /** The least that it could be. */
  readonly best: number;
  readonly flexed: number;
}

/** 600 items with `sla` minutes; the tier refuses `shed` of its requests, in [0, 1). */
export async function shedTrial(sla: number, shed: number, seed: number): Promise<ShedResult> {
  const random = createRandom(seed);
  let flexed = 0;
  const world: World = new World({
    config: {
      providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } },
      limits: { openai: { requestsPerMinute: RPM } },
      lanes: { deny: ["batch"] },
    },
    answer: (line, _attempt, _model, body) => {
      if ((body as { service_tier?: string }).service_tier !== "flex") return reply(line, "default", random);
      if (random() < shed) return SHED;
      flexed += 1;
      return reply(line, "flex", random);
    },
  });
  world.input(ITEMS, "openai:gpt-5-mini");
  const engine = await world.engine();
  const { counts, cost } = await world.settle(engine.run(INPUT, { out: OUTPUT, sla }).finished);
  await world.settle(engine.close());
  const best = 1 - bestInFlex(sla - KEPT_MINUTES, shed) / ITEMS / 2;
  return { completed: counts.completed, share: cost.billed_usd / cost.list_usd, best, flexed };
}

function reply(line: number, tier: string, random: () => number): { afterMs: number; result: WireResult } {
  return { afterMs: latencyMs(random), result: tiered(line, tier) };
}
