/** Cheaper tiers: which there are, when they are chosen, and what they bear. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SpareCapacity } from "../../src/limits/spare_capacity.ts";
import { namesTier, withTier } from "../../src/providers/tier.ts";
import { DueWork } from "../../src/queue/due_work.ts";
import { drainMs } from "../../src/queue/feasibility.ts";
import { isChosen, keepsRealtime, laneFault, OFFER_KINDS } from "../../src/queue/lane_choice.ts";
import { isPriorName, latencyPrior, PRIOR_KINDS } from "../../src/queue/lane_priors.ts";
import { chooseOffer, type OfferTimes } from "../../src/queue/offer_choice.ts";
import { offersOf } from "../../src/queue/offers.ts";

const half = (): number => 0.5;
const [offer] = offersOf("openai", half);
if (offer?.kind !== "flex") throw new Error("openai has no flex tier");
const flex = offer;

const TIMES: OfferTimes = {
  nowMs: 0,
  deadlineMs: 600_000,
  drainMs: 60_000,
  ownDrainMs: 2_000,
  realtimeMs: 10_000,
  offerMs: 20_000,
  policy: "cheapest",
};
/** 600 s - 60 s of drain - 25 s of rescue - 20 s. */
const SWITCH_MS = 495_000;

describe("the offers of a provider", () => {
  it("are those that cost less than its list price, and are not denied", () => {
    expect(flex).toMatchObject({ kind: "flex", priceFactor: 0.5 });
    expect(offersOf("deepseek", half)).toEqual([{ kind: "offpeak" }]);
    expect(offersOf("deepseek", half, { choices: { deny: ["offpeak"] } })).toEqual([]);
    expect(offersOf("groq", () => 1)).toEqual([]);
    expect(offersOf("my-server", half)).toEqual([]);
    expect(offersOf("dashscope", half)).toEqual([]);
    const hasSlow = { hasSlow: true };
    expect(offersOf("dashscope", half, hasSlow)).toMatchObject([{ kind: "slow", attemptMsMax: 3_660_000 }]);
    expect(offersOf("dashscope", half, { ...hasSlow, choices: { deny: ["slow"] } })).toEqual([]);
    const ofFlex = (tier: string): number | undefined => (tier === "flex" ? 0.5 : undefined);
    expect(offersOf("openai", ofFlex, hasSlow)).toMatchObject([{ kind: "flex" }]);
    for (const choices of [{ deny: ["flex"] }, { deny: ["openai:flex"] }, { allow: ["realtime"] }])
      expect(offersOf("openai", half, { choices })).toEqual([]);
    for (const choices of [{ deny: ["gemini:flex"] }, { allow: ["realtime", "openai:flex"] }])
      expect(offersOf("openai", half, { choices })).toHaveLength(1);
  });
});

describe("the name of a lane", () => {
  it("is a kind, or one of a provider", () => {
    const names = OFFER_KINDS.flatMap((kind) => [kind, `openai:${kind}`]);
    expect(names.map(laneFault)).toEqual(names.map(() => undefined));
    expect(laneFault("flx")).toBe('"flx" is not a known lane; did you mean "flex"?');
    expect(laneFault("openai:btach")).toBe(
      '"openai:btach" is not a known lane; did you mean "openai:batch"?',
    );
    for (const name of ["flex:openai", ":flex", "", "everything"])
      expect(laneFault(name)).toContain("expected one of realtime, flex, slow, batch, deferred, offpeak, or");
  });

  it("that is of realtime cannot be denied, and need not be allowed", () => {
    expect(keepsRealtime({ deny: ["openai:realtime"] })).toBe(false);
    expect(keepsRealtime({ deny: ["flex"] })).toBe(true);
    expect(isChosen("openai", "realtime", { allow: ["flex"] })).toBe(true);
  });
});

describe("what answers of a lane take before it is measured", () => {
  it("is what was configured for the provider, else for all, else what others measured", () => {
    const seconds = { p50: 1, p90: 2, p99: 3 };
    expect(latencyPrior("openai", "batch").p99).toBe(6.1 * 3_600_000);
    expect(latencyPrior("anthropic", "batch")).toEqual({ p50: 120_000, p90: 300_000, p99: 1_260_000 });
    expect(latencyPrior("gemini", "batch").p50).toBe(180_000);
    expect(latencyPrior("mistral", "batch").p90).toBe(15.7 * 3_600_000);
    expect(latencyPrior("together", "batch")).toEqual(latencyPrior("openai", "batch"));
    expect(latencyPrior("anthropic", "batch", { batch: seconds }).p99).toBe(3_000);
    const both = { batch: seconds, "anthropic:batch": { ...seconds, p99: 9 } };
    expect(latencyPrior("anthropic", "batch", both).p99).toBe(9_000);
    expect(offersOf("openai", half, { priors: { flex: seconds } })).toMatchObject([
      { prior: { p90: 2_000 } },
    ]);
  });

  it("rises from the median to the slowest for each kind, and has a name for each", () => {
    for (const kind of PRIOR_KINDS)
      for (const provider of ["openai", "anthropic", "gemini", "mistral"]) {
        const { p50, p90, p99 } = latencyPrior(provider, kind);
        expect([p50, p90, p99]).toEqual([p50, p90, p99].toSorted((one, other) => one - other));
      }
    expect(["batch", "openai:flex", "realtime", "offpeak", ":batch"].map(isPriorName)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });
});

describe("an offer", () => {
  it("is chosen up to the last moment that leaves time for realtime, and not after it", () => {
    expect(chooseOffer(flex, { ...TIMES, nowMs: SWITCH_MS })).toMatchObject({ switchMs: SWITCH_MS });
    expect(chooseOffer(flex, { ...TIMES, nowMs: SWITCH_MS + 1 })).toBeUndefined();
    expect(chooseOffer(flex, { ...TIMES, deadlineMs: Number.POSITIVE_INFINITY })).toBeUndefined();
    expect(chooseOffer(flex, { ...TIMES, drainMs: Number.POSITIVE_INFINITY })).toBeUndefined();
  });

  it("has time for 99 of 100 of its answers where the policy is balanced", () => {
    const times: OfferTimes = { ...TIMES, offerMs: undefined };
    const { p90, p99 } = flex.prior;
    const lastMs = (policy: OfferTimes["policy"]): number | undefined =>
      chooseOffer(flex, { ...times, policy })?.switchMs;
    expect(lastMs("cheapest")).toBe(SWITCH_MS + 20_000 - p90);
    expect(lastMs("balanced")).toBe(SWITCH_MS + 20_000 - p99);
  });

  it("never takes so long that realtime would be late, nor longer than its own time-out", () => {
    const time = fc.integer({ min: 0, max: 10_000_000 });
    fc.assert(
      fc.property(time, time, time, fc.option(time, { nil: undefined }), (nowMs, leftMs, drain, p99) => {
        const deadlineMs = nowMs + leftMs;
        const times = {
          ...TIMES,
          nowMs,
          deadlineMs,
          drainMs: drain,
          ownDrainMs: drain / 2,
          realtimeMs: p99,
        };
        const chosen = chooseOffer(flex, times);
        if (chosen === undefined) return;
        const rescueMs = 2 * (p99 ?? 30_000) + 5_000;
        expect(nowMs + chosen.attemptMsMax + drain / 2 + rescueMs).toBeLessThanOrEqual(deadlineMs + 1e-6);
        expect(chosen.attemptMsMax).toBeLessThanOrEqual(flex.attemptMsMax);
        expect(chosen.attemptMsMax).toBeGreaterThan(0);
      }),
    );
  });
});

describe("the work that is due by a deadline", () => {
  it("is what a scan of all that waits says", () => {
    const work = fc.record({
      project: fc.constant("a"),
      weight: fc.constant(1),
      deadlineMs: fc.integer({ min: 0, max: 20 }),
      items: fc.nat({ max: 50 }),
      inputTokens: fc.nat({ max: 5_000 }),
      outputTokens: fc.nat({ max: 5_000 }),
    });
    const capacity = { itemMs: 100, concurrency: 3, requestsPerMinute: 60, tokensPerMinute: 9_000 };
    fc.assert(
      fc.property(
        fc.array(work, { maxLength: 12 }),
        fc.integer({ min: -1, max: 21 }),
        fc.record({ items: fc.nat(60), inputTokens: fc.nat(6_000), outputTokens: fc.nat(6_000) }),
        (waiting, deadlineMs, taken) => {
          const more = { items: 2, inputTokens: 30, outputTokens: 40 };
          const sum = { items: 0, inputTokens: 0, outputTokens: 0 };
          for (const one of waiting) {
            if (one.deadlineMs > deadlineMs) continue;
            sum.items += one.items;
            sum.inputTokens += one.inputTokens;
            sum.outputTokens += one.outputTokens;
          }
          for (const kind of ["items", "inputTokens", "outputTokens"] as const)
            sum[kind] = Math.max(0, sum[kind] - taken[kind]) + more[kind];
          const due = new DueWork({ waiting });
          expect(due.drainMs(deadlineMs, more, capacity, taken)).toBe(drainMs(sum, capacity));
        },
      ),
    );
  });
});

describe("the capacity of a tier", () => {
  const open = (): SpareCapacity => new SpareCapacity(64, () => 0.5);

  it("begins with four places and doubles while all are answered", () => {
    const capacity = open();
    for (let taken = 0; taken < 4; taken += 1) {
      expect(capacity.waitMs(0)).toBe(0);
      capacity.take();
    }
    expect(capacity.waitMs(0)).toBeGreaterThan(0);
    for (let round = 0; round < 4; round += 1) {
      capacity.answered();
      capacity.free(1_000);
    }
    expect(capacity.places).toBeGreaterThanOrEqual(6);
  });

  it("does not shrink while less than three of four are refused, and waits when all are", () => {
    const capacity = open();
    for (let round = 0; round < 200; round += 1) {
      if (round % 5 < 3) capacity.refused(round * 100);
      else capacity.answered();
    }
    expect(capacity.places).toBeGreaterThanOrEqual(4);
    expect(capacity.waitMs(20_000)).toBe(0);
    for (let round = 0; round < 60; round += 1) capacity.refused(20_000 + round * 2_000);
    expect(capacity.refusedShare).toBeGreaterThan(0.9);
    expect(capacity.waitMs(20_000 + 59 * 2_000)).toBeGreaterThan(0);
    expect(capacity.places).toBe(1);
  });
});

describe("a request", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

  it("asks for a tier as its protocol does", () => {
    const body = bytes('{"model":"m","n":1}');
    const asked = (protocol: "openai" | "gemini"): unknown =>
      JSON.parse(new TextDecoder().decode(withTier(protocol, body, "flex")));
    expect(asked("openai")).toEqual({ service_tier: "flex", model: "m", n: 1 });
    expect(asked("gemini")).toEqual({ serviceTier: "flex", model: "m", n: 1 });
  });

  it("that names a tier is found, and a text that speaks of one is not", () => {
    expect(namesTier("openai", bytes('{"service_tier":"priority"}'))).toBe(true);
    expect(namesTier("gemini", bytes('{"service_tier":"flex"}'))).toBe(true);
    expect(namesTier("openai", bytes(JSON.stringify({ text: 'set "service_tier" to flex' })))).toBe(false);
  });
});
