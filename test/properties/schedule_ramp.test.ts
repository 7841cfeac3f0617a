/** Laws of the ramp: how fast a lane's use may grow, how soon it reaches its limit, and which lanes it does not limit. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LaneLimits } from "../../src/limits/limits.ts";
import type { LimitSettings, RampSettings } from "../../src/work/limits.ts";

const MINUTE_MS = 60_000;
const SPAN_MS = 15 * MINUTE_MS;
/** A sixtieth of a span: what the ramp's own memory may blur. */
const BLUR_MS = SPAN_MS / 60;
const RAMP: RampSettings = { inputTokensPerMinute: 6_000, growth: 0.5, minutes: 15 };

/** A lane counts a minute and its guard. */
const COUNTED_MS = MINUTE_MS + 400;

interface Taken {
  readonly atMs: number;
  readonly tokens: number;
  /** Tokens of the minute that ends with this take, and of what the lane counts as that minute. */
  readonly use: number;
  readonly counted: number;
}

function laneWith(
  settings: LimitSettings,
  ramp: RampSettings | undefined = RAMP,
  isAsked = true,
): LaneLimits {
  const base = { settings, inFlightMax: 1_000_000, inFlightStart: 1_000_000, nowMs: 0, random: () => 0.5 };
  return new LaneLimits(ramp === undefined ? base : { ...base, ramp: { ...ramp, isAsked } });
}

/** What a lane lets through; adds the use of the minute to each take. */
class Ledger {
  readonly taken: Taken[] = [];

  add(atMs: number, tokens: number): void {
    let [use, counted] = [tokens, tokens];
    for (let index = this.taken.length - 1; index >= 0; index -= 1) {
      const before = this.taken[index]!;
      if (before.atMs <= atMs - COUNTED_MS) break;
      counted += before.tokens;
      if (before.atMs > atMs - MINUTE_MS) use += before.tokens;
    }
    this.taken.push({ atMs, tokens, use, counted });
  }

  between(fromMs: number, toMs: number): number {
    return this.taken
      .filter(({ atMs }) => atMs >= fromMs && atMs < toMs)
      .reduce((sum, { tokens }) => sum + tokens, 0);
  }
}

/** Takes as much as the lane gives until `untilMs`; returns when it stopped. */
function push(limits: LaneLimits, ledger: Ledger, fromMs: number, untilMs: number, tokens: number): number {
  let nowMs = fromMs;
  while (nowMs < untilMs) {
    const reserved = limits.reserve(nowMs, { inputTokens: tokens, outputTokens: 0 });
    if (reserved.ok) {
      ledger.add(nowMs, tokens);
      limits.release(nowMs, reserved.permit);
    } else {
      if (!(reserved.waitMs > 0)) throw new Error(`asked to wait ${reserved.waitMs} ms`);
      nowMs += reserved.waitMs;
    }
  }
  return nowMs;
}

/** The most counted in a minute that ended within a span. */
function mostCounted(taken: readonly Taken[], fromMs: number, toMs: number): number {
  let most = 0;
  for (const { atMs, counted } of taken) if (atMs >= fromMs && atMs <= toMs) most = Math.max(most, counted);
  return most;
}

const phase = fc.oneof(
  fc.record({ kind: fc.constant("push" as const), ms: fc.integer({ min: 1_000, max: 40 * MINUTE_MS }) }),
  fc.record({ kind: fc.constant("rest" as const), ms: fc.integer({ min: 1_000, max: 40 * MINUTE_MS }) }),
  fc.record({ kind: fc.constant("refused" as const), ms: fc.constant(0) }),
);

describe("a ramp", () => {
  it("lets use grow by at most half in any 15 minutes above the threshold, for any requests at any times", () => {
    const demand = fc.array(phase, { minLength: 3, maxLength: 8 });
    const limit = fc.constantFrom(undefined, 9_000, 30_000);
    fc.assert(
      fc.property(
        demand,
        fc.integer({ min: 100, max: 600 }),
        limit,
        (phases, tokens, inputTokensPerMinute) => {
          const limits = laneWith(inputTokensPerMinute === undefined ? {} : { inputTokensPerMinute });
          const ledger = new Ledger();
          let nowMs = 0;
          for (const { kind, ms } of phases) {
            if (kind === "push") nowMs = push(limits, ledger, nowMs, nowMs + ms, tokens);
            else if (kind === "rest") nowMs += ms;
            else limits.observe(nowMs, { kind: "rate_limited", isRampLimit: true });
          }
          const { taken } = ledger;
          const step = Math.max(1, Math.floor(taken.length / 400));
          for (let index = 0; index < taken.length; index += step) {
            const { atMs, use } = taken[index]!;
            const startMs = atMs - SPAN_MS - BLUR_MS; // what was used in the half hour before this span began
            const before = mostCounted(taken, startMs - 2 * SPAN_MS, startMs + BLUR_MS);
            expect(use, `at ${atMs}`).toBeLessThanOrEqual(Math.max(RAMP.inputTokensPerMinute, 1.5 * before));
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("reaches the limit in the time that the law allows, and uses at least 97 % of it from then on", () => {
    for (const steps of [1, 2, 4]) {
      const inputTokensPerMinute = Math.floor(RAMP.inputTokensPerMinute * 1.5 ** steps * 0.96);
      const limits = laneWith({ inputTokensPerMinute });
      const ledger = new Ledger();
      const allowedMs = steps * (SPAN_MS + MINUTE_MS + BLUR_MS); // a level has lasted for a minute before it counts
      push(limits, ledger, 0, allowedMs + 10 * MINUTE_MS, 50);
      const after = ledger.between(allowedMs, allowedMs + 10 * MINUTE_MS);
      expect(after, `${steps} steps`).toBeGreaterThanOrEqual(0.97 * 10 * inputTokensPerMinute);
      const first = ledger.between(0, SPAN_MS);
      expect(first).toBeGreaterThanOrEqual(0.97 * 15 * RAMP.inputTokensPerMinute);
    }
  });

  it("changes nothing for a lane whose use is below the threshold, however uneven", () => {
    const step = fc.record({
      gapMs: fc.oneof(fc.constant(0), fc.nat({ max: 5_000 }), fc.nat({ max: 200_000 })),
      tokens: fc.integer({ min: 1, max: 3_000 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const [ramped, plain] = [laneWith({}), laneWith({}, undefined)];
        const ledger = new Ledger();
        let nowMs = 0;
        for (const { gapMs, tokens } of steps) {
          nowMs += gapMs;
          if (ledger.between(nowMs - 61_000, nowMs + 1) + tokens > RAMP.inputTokensPerMinute) continue;
          const load = { inputTokens: tokens, outputTokens: 5 };
          expect(ramped.reserve(nowMs, load)).toEqual(plain.reserve(nowMs, load));
          ledger.add(nowMs, tokens);
        }
      }),
    );
  });

  it("is lowered by a refusal to two thirds of what was used, for 15 minutes, and never below the threshold", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.boolean(), (spans, isAsked) => {
        const limits = laneWith({ inputTokensPerMinute: 40_000 }, RAMP, isAsked);
        const ledger = new Ledger();
        const refusedMs = push(limits, ledger, 0, spans * SPAN_MS, 50);
        const used = ledger.taken.at(-1)!.counted;
        for (let each = 0; each < 20; each += 1)
          limits.observe(refusedMs + each, { kind: "rate_limited", retryAfterMs: 1_000, isRampLimit: true });
        push(limits, ledger, refusedMs + 20, refusedMs + SPAN_MS, 50);
        const level = Math.max(RAMP.inputTokensPerMinute, used / 1.5);
        for (let minute = 1; minute < 14; minute += 1) {
          const fromMs = refusedMs + minute * MINUTE_MS;
          expect(ledger.between(fromMs, fromMs + MINUTE_MS)).toBeLessThanOrEqual(level);
        }
        const held = ledger.between(refusedMs + 3 * MINUTE_MS, refusedMs + 13 * MINUTE_MS);
        expect(held).toBeGreaterThanOrEqual(0.95 * 10 * level);
      }),
      { numRuns: 12 },
    );
  });

  it("that is not configured holds nothing back before the first such refusal", () => {
    const limits = laneWith({ inputTokensPerMinute: 40_000 }, RAMP, false);
    const ledger = new Ledger();
    push(limits, ledger, 0, 10 * MINUTE_MS, 50);
    expect(ledger.between(MINUTE_MS, 10 * MINUTE_MS)).toBeGreaterThan(0.97 * 9 * 40_000);
  });
});
