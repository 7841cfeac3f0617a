/**
 * The bound on what waits, and what it leaves to each run.
 */
import { describe, expect, it } from "vitest";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

const PRICES = { prices: { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } } };

/** A line of some 40 KB: three hundred of them fill the memory for what waits. */
function longLine(line: number): string {
  const request = {
    model: "alpha:m1",
    contents: [{ role: "user", parts: [{ text: `[[${line}]]${" hello".repeat(7_000)}` }] }],
    generation_config: { max_output_tokens: 16 },
  };
  return `${JSON.stringify({ key: `k${line}`, request })}\n`;
}

describe("a run that begins when the memory for waiting items is full", () => {
  it("is read all the same, so that a run before it that waits does not hold it up", async () => {
    const world = new World({
      config: PRICES,
      answer: (line) => ({ afterMs: line === 1 ? 100_000 : 10, result: ok(line) }),
    });
    const lines = Array.from({ length: 500 }, (_, index) => longLine(index + 1));
    world.disk.put("/waiting.jsonl", lines.join(""));
    world.disk.put(INPUT, Array.from({ length: 20 }, (_, index) => itemLine(10_001 + index)).join(""));
    const engine = await world.engine();
    const waiting = engine.run("/waiting.jsonl", { out: "/waiting.out", maxCostUsd: 15 });
    await world.clock.advance(1_000);
    expect(world.sent).toHaveLength(1);
    const run = engine.run(INPUT, { out: OUTPUT });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(world.clock.nowMs()).toBeLessThan(10_000);
    waiting.stop();
    await world.settle(waiting.finished);
  });
});
