/** The contract of provider functions, and that it finds those that do not keep to it. */
import { describe, expect, it } from "vitest";
import type { FunctionAnswer, ProviderFunction } from "../../src/providers/index.ts";
import { createProvider } from "../../src/providers/registry.ts";
import { functionContract } from "../../src/testing/function_contract.ts";
import { providerContract } from "../../src/testing/provider_contract.ts";

const good: ProviderFunction = async (_, { signal }) => {
  await new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    setImmediate(resolve);
  });
  return { text: "yes", usage: { inputTokens: 1, outputTokens: 1 } };
};

describe("a provider function that answers and obeys its signal", () => {
  for (const { name: promise, run } of functionContract(good)) it(promise, run);
});

describe("the codec of provider functions", () => {
  const codec = createProvider({ name: "mine", protocol: "function", baseUrl: "" });
  for (const { name: promise, run } of providerContract(codec)) it(promise, run);
});

describe("the contract of provider functions", () => {
  const PLAIN = "answers a plain request with an answer that perigee understands";
  const answers =
    (answer: unknown): ProviderFunction =>
    async () =>
      answer as FunctionAnswer;
  it.each<[string, ProviderFunction, string]>([
    ["answers nothing", answers(undefined), PLAIN],
    ["answers a text without an object", answers("yes"), PLAIN],
    ["answers an empty text", answers({ text: "" }), PLAIN],
    ["counts half a token", answers({ text: "a", usage: { inputTokens: 0.5, outputTokens: 1 } }), PLAIN],
    ["ignores its signal", () => new Promise(() => undefined), "ends soon when its signal is aborted"],
    [
      "refuses a system instruction",
      async ({ messages }) => {
        if (messages.length > 1) throw new Error("one message");
        return { text: "a" };
      },
      "answers a request with a system instruction, several turns and settings",
    ],
  ])("finds a function that %s", async (_, call, broken) => {
    const found = functionContract(call).find(({ name }) => name === broken);
    await expect(found?.run()).rejects.toThrow();
  });
});
