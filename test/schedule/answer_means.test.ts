/** What is learnt of answers, by model and system prompt. */
import { describe, expect, it } from "vitest";
import {
  AnswerMeans,
  expectedOutput,
  type MeasuredAnswer,
  outputVariance,
} from "../../src/queue/answer_means.ts";
import { createRandom } from "../../src/testing/index.ts";

const answer = (outputTokens: number, given: Partial<MeasuredAnswer> = {}): MeasuredAnswer => ({
  ...{ countedTokens: 100, inputTokens: 110, cachedTokens: 0, cacheWriteTokens: 0, latencyMs: 1_000 },
  outputTokens,
  ...given,
});

function learnt(outputs: readonly number[], prompt = 0, means = new AnswerMeans()): AnswerMeans {
  for (const output of outputs) means.observe("a:m", prompt, answer(output));
  return means;
}

describe("what is expected of an answer", () => {
  it("is the mean of those to the same system prompt, from 3 on", () => {
    const means = learnt([10, 20]);
    expect(means.of("a:m", 0)).toBeUndefined();
    means.observe("a:m", 0, answer(90));
    expect(means.of("a:m", 0)).toMatchObject({
      basis: "prompt",
      answers: 3,
      meanOutput: 40,
      inputRatio: 1.1,
    });
    expect(means.of("a:other", 0)).toBeUndefined();
  });

  it("is the mean of the model where too few of the same prompt are known", () => {
    const means = learnt([10, 10, 10, 10, 10], 1);
    learnt([100, 100], 2, means);
    expect(means.of("a:m", 1)?.meanOutput).toBe(10);
    for (const prompt of [2, 3])
      expect(means.of("a:m", prompt)).toMatchObject({ basis: "model", meanOutput: 250 / 7 });
  });

  it("is at most the item's own limit", () => {
    const estimate = learnt([50, 50, 50, 50, 50]).of("a:m", 0);
    if (estimate === undefined) throw new Error("nothing was learnt");
    expect([0, 20, 80].map((limit) => expectedOutput(estimate, 100, limit))).toEqual([50, 20, 50]);
  });

  it("grows with the input where answers have shown that it does", () => {
    const random = createRandom(3);
    const means = new AnswerMeans();
    for (let each = 0; each < 50; each += 1) {
      const countedTokens = 100 + Math.floor(random() * 900);
      means.observe("a:m", 0, answer(10 + countedTokens / 2 + 20 * random(), { countedTokens }));
    }
    const estimate = means.of("a:m", 0);
    if (estimate === undefined) throw new Error("nothing was learnt");
    expect(Math.abs(expectedOutput(estimate, 2_000, 0) - 1_020)).toBeLessThan(20);
    const other = new AnswerMeans();
    for (let each = 0; each < 50; each += 1)
      other.observe("a:m", 0, answer(1_000 * random(), { countedTokens: 1_000 * random() }));
    expect(other.of("a:m", 0)?.slope).toBe(0);
  });

  it("has the shares of the input that were read from and written to a cache, and what answers took", () => {
    const means = new AnswerMeans();
    for (let each = 0; each < 5; each += 1)
      means.observe(
        "a:m",
        0,
        answer(1, { inputTokens: 200, cachedTokens: 50, cacheWriteTokens: 20, latencyMs: 2_500 }),
      );
    expect(means.of("a:m", 0)).toMatchObject({
      cachedShare: 0.25,
      writtenShare: 0.1,
      meanMs: 2_500,
      inputRatio: 2,
    });
  });

  it("follows answers that have become longer within some thousand", () => {
    const means = learnt(Array.from({ length: 20_000 }, () => 10));
    learnt(
      Array.from({ length: 6_000 }, () => 100),
      0,
      means,
    );
    expect(means.of("a:m", 0)?.meanOutput).toBeGreaterThan(90);
  });
});

describe("the error of what is expected", () => {
  it("holds the sum of the rest in 95 of 100 draws within two of it", () => {
    const random = createRandom(11);
    const draw = (): number => Math.exp(5 + 0.5 * (random() + random() + random() + random() - 2) * 1.7);
    let within = 0;
    for (let round = 0; round < 400; round += 1) {
      const estimate = learnt(Array.from({ length: 50 }, draw)).of("a:m", 0);
      if (estimate === undefined) throw new Error("nothing was learnt");
      const rest = Array.from({ length: 300 }, draw).reduce((sum, each) => sum + each, 0);
      const error = Math.sqrt(
        outputVariance(estimate, { items: 300, countedTokens: 30_000, independent: 300 }),
      );
      if (Math.abs(rest - 300 * estimate.meanOutput) <= 2 * error) within += 1;
    }
    expect(within / 400).toBeGreaterThan(0.92);
    expect(within / 400).toBeLessThan(0.98);
  });

  it("counts prompts, not answers, where no answer to these prompts is known", () => {
    const means = learnt([10, 10, 10, 10, 10, 10, 10, 10], 1);
    learnt([90, 90, 90, 90, 90, 90, 90, 90], 2, means);
    const estimate = means.of("a:m", 3);
    if (estimate === undefined) throw new Error("nothing was learnt");
    expect(estimate.independent).toBe(2);
    const items = { items: 100, countedTokens: 10_000 };
    const error = (independent: number): number =>
      Math.sqrt(outputVariance(estimate, { ...items, independent }));
    expect(error(1)).toBeGreaterThan(100 * 40);
    expect(error(100)).toBeLessThan(100 * 40);
  });
});

describe("what later processes begin with", () => {
  it("is what was known, and told once after each change", () => {
    const means = learnt([10, 20, 30, 40, 50], 7);
    const changes = [...means.changes()];
    expect([...means.changes()]).toEqual([]);
    const next = new AnswerMeans();
    for (const [model, sums] of changes) next.restore(model, sums);
    for (const prompt of [7, 8]) expect(next.of("a:m", prompt)).toEqual(means.of("a:m", prompt));
    expect([...next.changes()]).toEqual([]);
  });

  it("leaves out what cannot be", () => {
    const next = new AnswerMeans();
    next.restore("a:m", { all: [9, 1], promptsSeen: 1, prompts: [] });
    next.restore("a:m", { all: Array.from({ length: 14 }, () => Number.NaN), promptsSeen: 1, prompts: [] });
    expect(next.of("a:m", 0)).toBeUndefined();
  });

  it("has the 64 system prompts answered last", () => {
    const means = new AnswerMeans();
    for (let prompt = 1; prompt <= 100; prompt += 1) {
      means.observe("a:m", 1_000, answer(5));
      means.observe("a:m", prompt, answer(5));
    }
    const [change] = [...means.changes()];
    expect(change?.[1].prompts).toHaveLength(64);
    expect(change?.[1].prompts.map(([prompt]) => prompt)).toContain(1_000);
    expect(change?.[1].promptsSeen).toBe(101);
  });
});
