/**
 * A provider that ignores output limits under a cost cap: the bounds are raised by what its answers show, once, and the
 * cap is used.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import type { Step } from "../../src/engine/journal/journal.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const RATES = { inputUsdPerMillion: 100, outputUsdPerMillion: 500 };
const LIMIT = 40;
const LINES = 400;
const INPUT_TOKENS = 10;
/** For some 100 answers that cost twice their bound. */
const CAP_USD = 5;

/** Keeps the limit of the first `honest` answers; each later one costs `factor` times the bound of its request. */
class Liar {
  readonly world: World;
  /** What the engine reserved for its requests, in their order. */
  readonly bounds: number[] = [];
  billedUsd = 0;
  #answers = 0;
  readonly #onStep = (_: number, { intents }: Step): void => {
    for (const { mostUsd } of intents) this.bounds.push(mostUsd);
  };

  constructor(factor: number, honest: number) {
    const answer = (): { afterMs: number; result: WireResult } => {
      this.#answers += 1;
      const outputTokens =
        this.#answers <= honest
          ? LIMIT
          : Math.floor(((this.firstUsd * factor * 1e6) / RATES.inputUsdPerMillion - INPUT_TOKENS) / 5);
      this.billedUsd +=
        (INPUT_TOKENS * RATES.inputUsdPerMillion + outputTokens * RATES.outputUsdPerMillion) / 1e6;
      const afterMs = 50 + (this.#answers % 30); // answers of requests in flight arrive one by one
      return { afterMs, result: openaiAnswer("answer", { inputTokens: INPUT_TOKENS, outputTokens }) };
    };
    const config = {
      providers: { mine: { baseUrl: "http://mine.test/v1" } },
      prices: { "mine:*": RATES },
      maxInFlight: 30,
    };
    this.world = new World({ config, answer });
    const lines = Array.from({ length: LINES }, (_, index) => {
      const contents = [{ parts: [{ text: `[[${100 + index}]] hi` }] }];
      const request = { model: "mine:m", contents, generation_config: { max_output_tokens: LIMIT } };
      return `${JSON.stringify({ key: `k${index}`, request })}\n`;
    });
    this.world.disk.put(INPUT, lines.join(""));
  }

  /** The bound of every request before it is raised. */
  get firstUsd(): number {
    return this.bounds[0] ?? Number.NaN;
  }

  get lastUsd(): number {
    return this.bounds.at(-1) ?? Number.NaN;
  }

  async run(maxCostUsd: number): Promise<Summary> {
    const engine = await this.world.engine();
    const summary = await this.world.settle(
      engine.run(INPUT, { out: OUTPUT, maxCostUsd, onStep: this.#onStep }).finished,
    );
    await this.world.settle(engine.close());
    return summary;
  }
}

describe("bounds that answers break", () => {
  it.each([
    [2, 0],
    [10, 0],
    [2, 60],
    [10, 60],
  ])(
    "by a factor of %i after %i answers that kept them are raised by that factor once",
    async (factor, honest) => {
      const liar = new Liar(factor, honest);
      const capUsd = CAP_USD * (factor / 2) + 60 * 0.021;
      const paused = await liar.run(capUsd);
      const corrected = liar.firstUsd * factor * 1.1;
      expect(liar.lastUsd).toBeGreaterThan(liar.firstUsd * factor);
      expect(Math.max(...liar.bounds)).toBeLessThanOrEqual(corrected * (1 + 1e-6));
      expect(paused).toMatchObject({ status: "paused", reason: "cap_reached" });
      expect(liar.billedUsd).toBeGreaterThan(capUsd - corrected); // no request fits any more
      expect(paused.cost.billed_usd).toBeCloseTo(liar.billedUsd, 6);
      const enoughUsd = paused.held?.[0]?.enough_usd ?? Number.NaN;
      const left = paused.counts.submitted;
      expect(enoughUsd).toBeLessThanOrEqual((liar.billedUsd + left * corrected) * (1 + 1e-6));
      expect(enoughUsd).toBeGreaterThan(liar.billedUsd + left * liar.firstUsd * factor);
    },
  );

  it.each([2, 10])("by a factor of %i are raised by no more in later processes", async (factor) => {
    const liar = new Liar(factor, 60);
    for (const part of [1, 1.2, 1.4]) {
      const capUsd = part * CAP_USD * (factor / 2);
      expect(await liar.run(capUsd)).toMatchObject({ status: "paused", reason: "cap_reached" });
      const corrected = liar.firstUsd * factor * 1.1;
      expect(Math.max(...liar.bounds)).toBeLessThanOrEqual(corrected * (1 + 1e-6));
      expect(liar.billedUsd).toBeGreaterThan(capUsd - corrected);
    }
    expect(await liar.run(1_000)).toMatchObject({ status: "completed", counts: { completed: LINES } });
  });
});
