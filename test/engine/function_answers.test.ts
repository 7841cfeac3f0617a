/**
 * What a provider function may return: members of another kind are refused by name, and counts are checked.
 */
import { describe, expect, it } from "vitest";
import type { FunctionAnswer } from "../../src/providers/index.ts";
import { OUTPUT, World } from "./world.ts";

/** The line of item 1, which is answered so, beside others that are answered as they should. */
async function lineOf(answer: object) {
  const world = new World({
    config: {
      providers: {
        mine: async ({ messages }) =>
          JSON.stringify(messages).includes("[[1]]") ? (answer as FunctionAnswer) : { text: "yes" },
      },
    },
  });
  world.input(20, "mine:small");
  const engine = await world.engine();
  await world.settle(engine.run("/in.jsonl", { out: OUTPUT }).finished);
  await world.settle(engine.close());
  return world.output().find(({ key }) => key === "k1");
}

describe("the answer of a provider function", () => {
  it.each<readonly [object, string]>([
    [{ text: 5 }, "text that is not a string (number)"],
    [{ text: "a", reasoning: ["b"] }, "reasoning that is not a string (a list)"],
    [{ refusal: {} }, "refusal that is not a string (object)"],
    [{ text: "a", finishReason: "done" }, "a finishReason other than stop, length"],
    [{ text: "a", finishReason: 1 }, "a finishReason other than stop, length"],
    [{ toolCalls: [{}] }, "toolCalls[0] without { id, function"],
    [{ toolCalls: [{ name: "f" }] }, "toolCalls[0] without { id, function"],
    [{ toolCalls: [{ id: "a", function: { name: "f" } }] }, "toolCalls[0] without { id, function"],
    [{ text: "a", toolCalls: "f" }, "toolCalls that are not a list (string)"],
  ])("refuses an answer with a wrong member, and names it: %j", async (answer, words) => {
    const line = await lineOf(answer);
    expect(line?.error).toMatchObject({
      code: "invalid_response",
      message: expect.stringContaining(`the function of provider "mine" returned ${words}`),
    });
  });

  it("writes half of a surrogate pair as the replacement character", async () => {
    const line = await lineOf({ text: "cut \ud83d", reasoning: "\ude00" });
    expect(line).toMatchObject({ output: { text: "cut \uFFFD" }, reasoning: "\uFFFD" });
  });

  it.each<readonly [object, object]>([
    [{ cachedTokens: 31 }, { input_tokens: 30, cached_tokens: 0, output_tokens: 7 }],
    [{ reasoningTokens: 9 }, { input_tokens: 30, output_tokens: 7, reasoning_tokens: 7 }],
  ])("takes no part of a total for more than the total: %j", async (more, usage) => {
    const counts = { inputTokens: 30, outputTokens: 7, ...more };
    const line = await lineOf({ text: "a", usage: counts });
    expect(line).toMatchObject({ usage });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1])(
    "estimates what an answer cost that says a charge of %s",
    async (chargedUsd) => {
      const usage = { inputTokens: 30, outputTokens: 7, chargedUsd };
      const line = await lineOf({ text: "a", usage });
      expect(line).toMatchObject({ output: { text: "a" }, cost: { is_estimated: true } });
    },
  );
});
