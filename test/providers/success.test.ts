import { describe, expect, it } from "vitest";
import { decodeFixture } from "./answers.ts";

const usage = (inputTokens: number, outputTokens: number, more: object = {}): object => ({
  inputTokens,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens,
  reasoningTokens: 0,
  isEstimated: false,
  ...more,
});

describe("a recorded success", () => {
  it.each([
    [
      "openai/success",
      {
        class: "success",
        model: "gpt-4o-mini-2024-07-18",
        requestId: "req_1f2e3d4c5b6a",
        text: "Janet sells 9 eggs.\nAnswer: 18",
        finish: "stop",
        usage: usage(129, 58, { cachedTokens: 64, reasoningTokens: 32 }),
        servedTier: "default",
      },
    ],
    [
      "anthropic/success",
      {
        class: "success",
        model: "claude-sonnet-5-5",
        requestId: "req_011CSHoEeqs5C35K2UUqR7Fy",
        text: "Janet sells 9 eggs.\nAnswer: 18",
        finish: "stop",
        members: { reasoning: "9 eggs" },
        usage: usage(100, 41, { cachedTokens: 50, cacheWriteTokens: 30, reasoningTokens: 12 }),
        servedTier: "standard",
      },
    ],
    [
      "anthropic/nulls_in_usage",
      {
        class: "success",
        model: "claude-sonnet-5-5",
        requestId: "req_011CSHoEeqs5C35K2UUqR7Fy",
        text: "18",
        finish: "stop",
        usage: usage(20, 4),
      },
    ],
    [
      "gemini/success",
      {
        class: "success",
        model: "gemini-3.8-flash",
        requestId: "kPgeaZ",
        text: "Janet sells 9 eggs.\nAnswer: 18",
        finish: "stop",
        members: { reasoning: "counting eggs" },
        usage: usage(70, 58, { cachedTokens: 16, reasoningTokens: 40 }),
        servedTier: "standard",
      },
    ],
    [
      "deepseek/success",
      {
        class: "success",
        model: "deepseek-v4-flash",
        requestId: "chatcmpl-CeY1bDq3v",
        text: "Answer: 18",
        finish: "stop",
        members: { reasoning: "9 eggs at 2 dollars" },
        usage: usage(128, 44, { cachedTokens: 64, reasoningTokens: 30 }),
      },
    ],
    [
      "groq/success",
      {
        class: "success",
        model: "openai/gpt-oss-120b",
        requestId: "chatcmpl-CeY1bDq3v",
        text: "Answer: 18",
        finish: "stop",
        members: { reasoning: "9 eggs" },
        usage: usage(80, 20),
        servedTier: "on_demand",
      },
    ],
    [
      "openrouter/success",
      {
        class: "success",
        model: "anthropic/claude-haiku-4.5",
        requestId: "chatcmpl-CeY1bDq3v",
        text: "Answer: 18",
        finish: "stop",
        usage: usage(80, 20, { cachedTokens: 10, cacheWriteTokens: 5, chargedUsd: 0.000123 }),
      },
    ],
    [
      "mistral/success",
      {
        class: "success",
        model: "mistral-small-2603",
        requestId: "chatcmpl-CeY1bDq3v",
        text: "Answer: 18",
        finish: "stop",
        members: { reasoning: "9 eggs" },
        usage: usage(80, 20),
      },
    ],
    [
      "mistral/model_length",
      {
        class: "success",
        model: "mistral-small-2603",
        requestId: "chatcmpl-CeY1bDq3v",
        text: "Answer",
        finish: "length",
        usage: usage(80, 1),
      },
    ],
    [
      "llamacpp/success",
      {
        class: "success",
        model: "gpt-3.5-turbo",
        requestId: "chatcmpl-1",
        text: "Answer: 18",
        finish: "stop",
        usage: usage(20, 4, { cachedTokens: 8 }),
      },
    ],
    [
      "vllm/success_without_usage",
      {
        class: "success",
        model: "m",
        requestId: "chatcmpl-1",
        text: "Answer: 18",
        finish: "stop",
        usage: undefined,
      },
    ],
    [
      "ollama/success",
      {
        class: "success",
        model: "llama3",
        requestId: "chatcmpl-1",
        text: "Answer: 18",
        finish: "stop",
        usage: usage(26, 5),
      },
    ],
    [
      "together/success",
      {
        class: "success",
        model: "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        requestId: "o1",
        text: "Answer: 18",
        finish: "stop",
        usage: usage(30, 6),
      },
    ],
    [
      "fireworks/success",
      {
        class: "success",
        model: "accounts/fireworks/models/x",
        requestId: "chatcmpl-CeY1bDq3v",
        text: "Answer: 18",
        finish: "stop",
        usage: usage(30, 6),
      },
    ],
  ])(
    "of %s gives its text, its model, its id, its thoughts, its finish and its token counts",
    (path, expected) => {
      expect(decodeFixture(path)).toEqual(expected);
    },
  );
});
