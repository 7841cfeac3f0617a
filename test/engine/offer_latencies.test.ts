/** How long answers of cheaper lanes take is learnt by provider, lane and model, and known to later processes. */
import { describe, expect, it } from "vitest";
import { openaiAnswer } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, type Reply, World } from "./world.ts";

const SLOW = "http://batch.test";
const LANES = [
  ["flex", "openai:gpt-5-mini"],
  ["slow", "dashscope:qwen-plus"],
] as const;

/** Lanes whose answers take two minutes and some; `cheap` counts the requests of the last run to them. */
function slowWorld(model: string) {
  const seen = { cheap: 0 };
  const world = new World({
    config: {
      providers: {
        openai: { baseUrl: "http://openai.test/v1", key: "k" },
        dashscope: { baseUrl: "http://qwen.test/v1", batchChatUrl: `${SLOW}/v1`, key: "k" },
      },
      lanes: { priors: { slow: { p50: 3, p90: 9, p99: 60 } } },
    },
    answer: (line, _attempt, _model, body, origin): Reply => {
      const { service_tier: tier } = body as { readonly service_tier?: string };
      const result = openaiAnswer(`answer ${line}`, { inputTokens: 10, outputTokens: 5 });
      if (tier !== "flex" && origin !== SLOW) return result;
      seen.cheap += 1;
      return { afterMs: 130_000, result };
    },
  });
  const run = async (sla: number, out: string): Promise<number> => {
    world.input(30, model);
    const engine = await world.engine();
    seen.cheap = 0;
    const { counts } = await world.settle(engine.run(INPUT, { out, sla }).finished);
    expect(counts.completed).toBe(30);
    await world.settle(engine.close());
    return seen.cheap;
  };
  return { world, run };
}

describe("what answers of a cheaper lane take", () => {
  it.each(LANES)("is known to the next process: %s", async (_kind, model) => {
    const fresh = slowWorld(model);
    expect(await fresh.run(3, OUTPUT)).toBeGreaterThan(0); // by the prior, they would be quick enough
    const { run } = slowWorld(model);
    expect(await run(120, OUTPUT)).toBeGreaterThanOrEqual(30);
    expect(await run(3, "/second.jsonl")).toBe(0);
    expect(await run(120, "/third.jsonl")).toBeGreaterThanOrEqual(30);
  });

  it("is kept by provider, model and lane", async () => {
    for (const [kind, model] of LANES) {
      const { world, run } = slowWorld(model);
      await run(120, OUTPUT);
      const name = model.slice(model.indexOf(":") + 1);
      expect(world.disk.text("/state/learnt.json")).toContain(`${name} (${kind})`);
    }
  });
});
