/** Which tokenizer a model gets: by its own name first, by its provider second. */
import { describe, expect, it } from "vitest";
import { tokenizerOf } from "../../src/tokens/models.ts";

const EXACT: readonly (readonly [string, string, string])[] = [
  ["openai", "gpt-4o-mini-2024-07-18", "o200k_base"],
  ["openai", "gpt-4.1", "o200k_base"],
  ["openai", "gpt-4.5-preview", "o200k_base"],
  ["openai", "chatgpt-4o-latest", "o200k_base"],
  ["openai", "o1", "o200k_base"],
  ["openai", "o3-mini", "o200k_base"],
  ["openai", "o4-mini", "o200k_base"],
  ["openai", "gpt-5-nano", "o200k_base"],
  ["openai", "gpt-5.4", "o200k_base"],
  ["openai", "gpt-6.1-sol", "o200k_base"],
  ["openai", "some-model-of-next-year", "o200k_base"],
  ["openai", "ft:gpt-4o-mini-2024-07-18:org::id", "o200k_base"],
  ["openai", "gpt-4", "cl100k_base"],
  ["openai", "gpt-4-turbo-2024-04-09", "cl100k_base"],
  ["openai", "gpt-4-0613", "cl100k_base"],
  ["openai", "gpt-4-1106-preview", "cl100k_base"],
  ["openai", "gpt-3.5-turbo-0125", "cl100k_base"],
  ["openai", "ft:gpt-3.5-turbo-0125:org::id", "cl100k_base"],
  ["azure", "gpt-35-turbo", "cl100k_base"],
  ["groq", "openai/gpt-oss-120b", "o200k_base"],
  ["vllm", "gpt-oss-20b", "o200k_base"],
  ["openrouter", "openai/gpt-5:free", "o200k_base"],
  ["echo", "anything", "o200k_base"],
  ["echo", "claude-opus-4-7", "o200k_base"],
];

const ESTIMATED: readonly (readonly [string, string, string, number])[] = [
  ["anthropic", "claude-3-5-sonnet-20241022", "o200k_base", 1.2],
  ["anthropic", "claude-3-haiku-20240307", "o200k_base", 1.2],
  ["anthropic", "claude-opus-4-20250514", "o200k_base", 1.2],
  ["anthropic", "claude-sonnet-4-5-20250929", "o200k_base", 1.2],
  ["anthropic", "claude-opus-4-6", "o200k_base", 1.2],
  ["anthropic", "claude-opus-4-7", "o200k_base", 1.55],
  ["anthropic", "claude-sonnet-5", "o200k_base", 1.55],
  ["anthropic", "claude-haiku-5-20261001", "o200k_base", 1.55],
  ["anthropic", "claude-fable", "o200k_base", 1.55],
  ["openrouter", "anthropic/claude-sonnet-4.5", "o200k_base", 1.2],
  ["openrouter", "anthropic/claude-opus-4.7:beta", "o200k_base", 1.55],
  ["bedrock", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "o200k_base", 1.2],
  ["gemini", "gemini-2.5-flash", "o200k_base", 1.1],
  ["together", "google/gemma-3-27b-it", "o200k_base", 1.1],
  ["groq", "llama-3.3-70b-versatile", "cl100k_base", 1.1],
  ["fireworks", "accounts/fireworks/models/llama-v3p1-70b-instruct", "cl100k_base", 1.1],
  ["groq", "deepseek-r1-distill-llama-70b", "cl100k_base", 1.1],
  ["deepseek", "deepseek-chat", "o200k_base", 1.1],
  ["mistral", "mistral-large-latest", "o200k_base", 1.1],
  ["together", "mistralai/Mistral-7B-Instruct-v0.1", "cl100k_base", 1.3],
  ["together", "Qwen/Qwen3-235B-A22B", "cl100k_base", 1.15],
  ["vllm", "my-own-model", "o200k_base", 1.2],
];

describe("the tokenizer of a model", () => {
  it.each(EXACT)("%s:%s is exact in %s", (provider, model, encoding) => {
    expect(tokenizerOf(provider, model)).toEqual({ encoding, factor: 1, isEstimated: false });
  });

  it.each(ESTIMATED)("%s:%s is estimated by %s x %d", (provider, model, encoding, factor) => {
    expect(tokenizerOf(provider, model)).toEqual({ encoding, factor, isEstimated: true });
  });
});
