/** Laws of what several processes know of one lane: the longest cool-down holds for all, one probes a pause, and its success ends it for all. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LaneLimits } from "../../src/limits/limits.ts";
import { LaneFacts } from "../../src/limits/shared/lane_facts.ts";
import { exchangeFacts, type SharedFactsState } from "../../src/limits/shared/shared_facts.ts";

const STEP_MS = 50;
const LOAD = { inputTokens: 1, outputTokens: 1 };
const EARLY = { afterMs: 1_000, count: 1 };

interface Terms {
  readonly drawEveryMs: number;
  /** Replies that are lost, one in so many; 0: none. */
  readonly losesEvery: number;
  readonly stopped: readonly [number, number];
}

/** A process that sends a request whenever it may, and is answered after 100 ms. */
class Process {
  readonly limits: LaneLimits;
  readonly sentMs: number[] = [];
  readonly #facts: LaneFacts;
  readonly #terms: Terms;
  readonly #open: { readonly atMs: number; readonly permit: Parameters<LaneLimits["release"]>[1] }[] = [];
  #isNews = false;
  #nextMs = 0;
  #draws = 0;

  constructor(name: string, terms: Terms) {
    this.#terms = terms;
    this.#facts = new LaneFacts(name, () => {
      this.#isNews = true;
    });
    const options = { settings: {}, inFlightMax: 1, nowMs: 0, random: () => 0.5 };
    this.limits = new LaneLimits({ ...options, facts: this.#facts });
  }

  isStopped(nowMs: number): boolean {
    return nowMs >= this.#terms.stopped[0] && nowMs < this.#terms.stopped[1];
  }

  step(nowMs: number, shared: { state: SharedFactsState | undefined }, isPaid: boolean): void {
    if (this.isStopped(nowMs)) return;
    const { permit, atMs } = this.#open[0] ?? {};
    if (permit !== undefined && atMs !== undefined && nowMs >= atMs + 100) {
      this.#open.shift();
      if (isPaid) this.limits.observe(nowMs, { kind: "success" }, permit);
      else this.limits.pause(nowMs, "quota", EARLY);
      this.limits.settle(nowMs, permit, LOAD);
      this.limits.release(nowMs, permit);
    }
    const taken = this.limits.reserve(nowMs, LOAD);
    if (taken.ok) {
      this.sentMs.push(nowMs);
      this.#open.push({ atMs: nowMs, permit: taken.permit });
    }
    if (nowMs < this.#nextMs && !this.#isNews) return;
    this.#isNews = false;
    this.#nextMs = nowMs + this.#terms.drawEveryMs;
    const ask = this.#facts.ask(nowMs);
    if (ask === undefined) return;
    const { known, state } = exchangeFacts(1e12 + nowMs, ask, shared.state);
    shared.state = JSON.parse(JSON.stringify(state)) as SharedFactsState;
    this.#draws += 1;
    const { losesEvery } = this.#terms;
    if (losesEvery === 0 || this.#draws % losesEvery !== 0) this.#facts.answered(nowMs, ask, known);
  }
}

const terms = fc.record({
  drawEveryMs: fc.integer({ min: 400, max: 550 }),
  losesEvery: fc.constantFrom(0, 0, 3),
  stopped: fc
    .tuple(fc.integer({ min: 0, max: 80_000 }), fc.constantFrom(0, 0, 2_000, 30_000, 1e9))
    .map(([fromMs, lengthMs]): [number, number] => [fromMs, fromMs + lengthMs]),
});

const ORDINARY: Terms = { drawEveryMs: 500, losesEvery: 0, stopped: [0, 0] };

describe("what processes know of a lane together", () => {
  it("lets one of them probe an account that has stopped, and all go on within 2 s of the first success", () => {
    fc.assert(
      fc.property(fc.array(terms, { minLength: 2, maxLength: 4 }), (all) => {
        const processes = all.map((each, index) => new Process(`p${index}`, each));
        const shared: { state: SharedFactsState | undefined } = { state: undefined };
        const [fromMs, untilMs, endMs] = [10_000, 100_000, 190_000];
        for (let nowMs = 0; nowMs < endMs; nowMs += STEP_MS)
          for (const one of processes) one.step(nowMs, shared, nowMs < fromMs || nowMs >= untilMs);
        const living = processes.filter((one) => !one.isStopped(endMs - 1));
        for (const one of living) expect(one.limits.isPaused).toBe(false);
        // Each process is refused once before it has heard of it, or after it stood still; then one probes early and each minute.
        const stops = all.filter(({ stopped: [start, end] }) => end > start && start < untilMs).length;
        const during = processes.flatMap(({ sentMs }) =>
          sentMs.filter((atMs) => atMs > fromMs + 1_500 && atMs < untilMs - 200),
        );
        expect(during.length).toBeLessThanOrEqual(3 + 3 * stops);
      }),
      { numRuns: 40 },
    );
  });

  it("lets one process probe for three, whose success ends the pause for all", () => {
    const processes = [0, 1, 2].map((index) => new Process(`p${index}`, ORDINARY));
    const shared: { state: SharedFactsState | undefined } = { state: undefined };
    for (let nowMs = 0; nowMs < 80_000; nowMs += STEP_MS)
      for (const one of processes) one.step(nowMs, shared, nowMs < 5_000 || nowMs > 20_000);
    const during = processes.flatMap(({ sentMs }) =>
      sentMs.filter((atMs) => atMs >= 5_200 && atMs <= 20_000),
    );
    expect(during).toHaveLength(1); // its early probe
    const firstMs = processes.map(({ sentMs }) => sentMs.find((atMs) => atMs > 20_000) ?? 0);
    expect(Math.min(...firstMs)).toBeGreaterThan(60_000);
    expect(Math.max(...firstMs) - Math.min(...firstMs)).toBeLessThan(1_200);
  });

  it("holds the longest cool-down for all, and does not lengthen it by being exchanged", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 1_000, max: 20_000 })), {
          minLength: 1,
          maxLength: 6,
        }),
        (refusals) => {
          const processes = [0, 1, 2].map((index) => new Process(`p${index}`, ORDINARY));
          const shared: { state: SharedFactsState | undefined } = { state: undefined };
          let untilMs = 0;
          for (let nowMs = 0; nowMs < 40_000; nowMs += STEP_MS) {
            const refusal = nowMs >= 2_000 ? refusals[(nowMs - 2_000) / 700] : undefined;
            if (refusal !== undefined) {
              const [index, retryAfterMs] = refusal;
              processes[index]!.limits.observe(nowMs, { kind: "rate_limited", retryAfterMs });
              untilMs = Math.max(untilMs, nowMs + retryAfterMs);
            }
            for (const one of processes) one.step(nowMs, shared, true);
            if (nowMs === 8_000)
              for (const { limits } of processes)
                expect(Math.abs(limits.cooldownMs(nowMs) - Math.max(0, untilMs - nowMs))).toBeLessThan(100);
          }
          for (const { sentMs } of processes) expect(sentMs.at(-1)).toBeGreaterThan(39_000);
        },
      ),
      { numRuns: 30 },
    );
  });

  it("does not begin a pause again of which a restarted process has not heard the end", () => {
    const restarted = new Process("restarted", ORDINARY);
    const shared: { state: SharedFactsState | undefined } = {
      state: { newestMs: 0, cooldownUntilMs: 0, pauseNumber: 4, proberSeenMs: 0, foundMs: 0 },
    };
    restarted.limits.restoreHeldBack(0, 60_000, { cooldownMs: 0, pauseReason: "quota" });
    restarted.step(0, shared, true);
    expect(restarted.limits.isPaused).toBe(false);
    expect(shared.state?.pauseNumber).toBe(4);
  });
});
