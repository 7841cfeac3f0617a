/**
 * Admission: limits and money of one request, from its reservation to its answer.
 *
 * Bounds: limits 1 us, money 0.5 us. Beside them bottleneck, which limits only requests, and a subtraction.
 */
import Bottleneck from "bottleneck";
import { LaneLimits, type RampOptions } from "../../src/limits/limits.ts";
import { Budget, Cap } from "../../src/price/budget.ts";
import { costOf, worstCaseUsd } from "../../src/price/cost.ts";
import { PriceBook } from "../../src/price/price_book.ts";
import type { Part, PartBench } from "../shared/harness.ts";

const CALLS = 20_000;
const RIVAL_CALLS = 500;
const LOAD = { inputTokens: 300, outputTokens: 200 };
const RATES = { requestsPerMinute: 10_000_000, inputTokensPerMinute: 1e10, outputTokensPerMinute: 1e10 };
const RAMP: RampOptions = { inputTokensPerMinute: 1e10, growth: 0.5, minutes: 15, isAsked: true };

type Settings = ConstructorParameters<typeof LaneLimits>[0]["settings"];

export function open(): PartBench {
  return {
    parts: [
      limits("no limits", () => lane({})),
      limits("a ramp", () => lane({}, undefined, RAMP)),
      limits("three quotas", () => lane(RATES)),
      limits("three quotas and shared ones", () => lane(RATES, lane(RATES))),
      money(),
    ],
  };
}

function lane(settings: Settings, shared?: LaneLimits, ramp?: RampOptions): LaneLimits {
  return new LaneLimits({ settings, inFlightMax: 2_048, nowMs: 0, random: () => 0.5, shared, ramp });
}

function limits(name: string, make: () => LaneLimits): Part {
  return {
    name: `admit: ${name}`,
    of: "request",
    calls: CALLS,
    run: () => cycle(make()),
    beside: { name: "bottleneck", calls: RIVAL_CALLS, run: throughBottleneck },
  };
}

function cycle(lane: LaneLimits): void {
  for (let each = 0; each < CALLS; each += 1) {
    const nowMs = each * 0.05;
    const reservation = lane.reserve(nowMs, LOAD);
    if (!reservation.ok) throw new Error(`refused: ${reservation.reason}`);
    lane.observe(nowMs, { kind: "success" });
    lane.settle(nowMs, reservation.permit, { inputTokens: 290, outputTokens: 120 });
    lane.release(nowMs, reservation.permit);
  }
}

async function throughBottleneck(): Promise<void> {
  const limiter = new Bottleneck({ maxConcurrent: 2_048, reservoir: 10_000_000 });
  const done = () => Promise.resolve();
  await Promise.all(Array.from({ length: RIVAL_CALLS }, () => limiter.schedule(done)));
  await limiter.disconnect();
}

function money(): Part {
  const wallMs = Date.parse("2026-11-20T12:00:00Z");
  const model = { provider: "openai", name: "gpt-4o-mini" };
  const book = new PriceBook();
  const used = {
    inputTokens: 900,
    cachedTokens: 300,
    cacheWriteTokens: 0,
    outputTokens: 200,
    reasoningTokens: 50,
    isEstimated: false,
  };
  return {
    name: "admit: price, worst case, reserve, cost, settle",
    of: "request",
    calls: CALLS,
    run: () => {
      const budget = new Budget([new Cap(1_000_000)]);
      for (let each = 0; each < CALLS; each += 1) {
        const price = book.price(model, wallMs + each);
        if (price === undefined) throw new Error("the model has a price");
        const answer = budget.reserve(worstCaseUsd({ inputTokens: 900, maxOutputTokens: 512 }, price));
        if (!answer.ok) throw new Error("the cap is large enough");
        const { usd } = costOf({ ...used, outputTokens: each }, price, { factor: 1, laneFactor: 1 });
        budget.settle(answer.reservation, { billedUsd: usd, ambiguousUsd: 0 });
      }
    },
    beside: {
      name: "two subtractions",
      run: () => {
        let left = 1_000_000;
        for (let each = 0; each < CALLS; each += 1) {
          left -= 900 * 1.5e-7 + 512 * 6e-7;
          left += (512 - (each % 512)) * 6e-7;
        }
        return left;
      },
    },
  };
}
