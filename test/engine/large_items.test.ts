/** Items that are larger than a limit on tokens. */
import { describe, expect, it } from "vitest";
import { openaiAnswer } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, World } from "./world.ts";

const LARGE = 4;
const LIMIT = 100;

function worldWith(limits: Readonly<Record<string, number>>): World {
  const world = new World({
    config: { limits: { alpha: limits } },
    answer: (line) =>
      line === LARGE ? openaiAnswer("long", { inputTokens: 300, outputTokens: 5 }) : ok(line),
  });
  const lines = Array.from({ length: 6 }, (_, index) => {
    const text = index + 1 === LARGE ? "word ".repeat(300) : "hello";
    const contents = [{ role: "user", parts: [{ text: `[[${index + 1}]] ${text}` }] }];
    const request = { model: "alpha:m1", contents, generation_config: { max_output_tokens: 5 } };
    return `${JSON.stringify({ key: `k${index + 1}`, request })}\n`;
  });
  world.disk.put(INPUT, lines.join(""));
  return world;
}

describe("an item larger than a limit on tokens", () => {
  it.each([["inputTokensPerMinute"], ["tokensPerMinute"]])(
    "waits for an empty minute of %s, is sent by itself, and progress and lanes say so meanwhile",
    async (name) => {
      const world = worldWith({ [name]: LIMIT });
      const engine = await world.engine();
      const run = engine.run(INPUT, { out: OUTPUT });
      await world.clock.advance(45_000);
      const before = world.sent.length;
      expect(before).toBe(LARGE - 1);
      const oversized = run.progress().lanes[0]?.oversized;
      expect(oversized).toMatchObject({ limit: LIMIT });
      expect(oversized?.tokens).toBeGreaterThan(300);
      expect(oversized?.waitMs).toBeGreaterThan(1_000);
      expect(oversized?.waitMs).toBeLessThan(60_500);
      expect(engine.lanes()[0]?.oversized).toEqual(oversized);
      expect((await world.settle(run.finished)).counts).toMatchObject({ completed: 6 });
      const sentMs = new Map(world.sent.map(({ line, atMs }) => [line, atMs]));
      const large = sentMs.get(LARGE) as number;
      for (const [line, atMs] of sentMs)
        if (line !== LARGE) expect(Math.abs(atMs - large), `line ${line}`).toBeGreaterThanOrEqual(60_000);
      expect(large).toBeLessThan(125_000);
      expect(engine.lanes()[0]?.oversized).toBeUndefined();
      await world.settle(engine.close());
    },
  );
});
