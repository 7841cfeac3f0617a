/**
 * Token counts that cannot be true: the answer is billed as estimated, the rest up to its bound is in doubt, and nothing is
 * learnt from it.
 */
import { describe, expect, it } from "vitest";
import { jsonAnswer } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, World } from "./world.ts";

const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000, asOf: "2026-11-01" } };
const LINES = 12;

const USAGES: readonly (readonly [string, object | null])[] = [
  ["none", null],
  ["the largest number", { prompt_tokens: 9_007_199_254_740_991, completion_tokens: 9_007_199_254_740_991 }],
  ["more input than any context window", { prompt_tokens: 10_000_001, completion_tokens: 5 }],
  ["more output than any context window", { prompt_tokens: 10, completion_tokens: 10_000_001 }],
  ["fractions", { prompt_tokens: 7.5, completion_tokens: 8.5 }],
  ["negative counts", { prompt_tokens: -5, completion_tokens: -5 }],
  ["numbers beyond all", { prompt_tokens: 1e300, completion_tokens: 1e300 }],
  ["all zero", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
  ["no input", { prompt_tokens: 0, completion_tokens: 5 }],
  ["no output", { prompt_tokens: 10, completion_tokens: 0 }],
];

const answerOf = (usage: object | null) =>
  jsonAnswer(200, { choices: [{ message: { content: "answer" }, finish_reason: "stop" }], usage });

describe("usage that cannot be true", () => {
  it.each(USAGES)("counts as unknown, and teaches nothing: %s", async (_what, usage) => {
    const world = new World({ config: { prices: PRICES } });
    world.input(LINES);
    const engine = await world.engine();
    const before = await engine.quote(INPUT);
    world.answer = () => answerOf(usage);
    const run = engine.run(INPUT, { out: OUTPUT, maxCostUsd: 100 });
    const { cost, usage: used, counts } = await world.settle(run.finished);
    expect(counts.completed).toBe(LINES);
    expect(used.ambiguous_attempts).toBe(0);
    expect(used.input_tokens).toBeGreaterThan(0);
    expect(used.output_tokens).toBe(LINES * 2); // of "answer", by its characters
    expect(cost.is_estimated).toBe(true);
    expect(cost.billed_usd).toBeGreaterThan(0);
    expect(cost.billed_usd + cost.ambiguous_usd).toBeGreaterThan(LINES * 16 * 5e-3); // of each, its output limit
    expect(cost.billed_usd + cost.ambiguous_usd).toBeLessThan(LINES * 0.16);
    expect(await engine.quote(INPUT)).toEqual({ ...before, priced_at: expect.any(String) });
  });

  it("raises no bound: after one such answer, a cap takes what it took before", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(LINES);
    const [, huge] = USAGES[1] as readonly [string, object];
    world.answer = (line) => (line === 3 ? answerOf(huge) : ok(line));
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, maxCostUsd: 1 });
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      counts: { completed: LINES },
    });
  });
});
