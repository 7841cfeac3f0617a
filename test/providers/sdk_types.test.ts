/** The codecs' bodies against the official SDKs' own types: this file failing to compile is the failure. */
import type { MessageCreateParamsNonStreaming } from "@anthropic-ai/sdk/resources/messages";
import type { Content, GenerationConfig, Part } from "@google/genai";
import type { ChatCompletionCreateParamsNonStreaming } from "openai/resources/chat/completions";
import { expectTypeOf, it } from "vitest";
import type { AnthropicBody } from "../../src/providers/codecs/anthropic_body.ts";
import type { GeminiBody, GeminiConfig } from "../../src/providers/codecs/gemini.ts";
import type { GeminiPart } from "../../src/providers/codecs/gemini_content.ts";
import type { ChatBody } from "../../src/providers/codecs/openai_body.ts";

it("a chat completion's body is what the OpenAI SDK takes", () => {
  expectTypeOf<ChatBody>().toExtend<ChatCompletionCreateParamsNonStreaming>();
  // What the SDK does not know is only the family's.
  expectTypeOf<Exclude<keyof ChatBody, keyof ChatCompletionCreateParamsNonStreaming>>().toEqualTypeOf<
    "top_k" | "random_seed"
  >();
});

it("a message's body is what the Anthropic SDK takes, but for the sampling settings that its newest version lost", () => {
  expectTypeOf<AnthropicBody>().toExtend<MessageCreateParamsNonStreaming>();
  expectTypeOf<Exclude<keyof AnthropicBody, keyof MessageCreateParamsNonStreaming>>().toEqualTypeOf<
    "temperature" | "top_p" | "top_k"
  >();
});

it("a generateContent body is made of the Google SDK's contents and settings", () => {
  // Levels are an enum there, and film metadata are passed on as they are.
  type Medium = { inlineData: unknown } | { fileData: unknown };
  expectTypeOf<Exclude<GeminiPart, Medium>>().toExtend<Part>();
  expectTypeOf<Omit<Extract<GeminiPart, Medium>, "mediaResolution" | "videoMetadata">>().toExtend<Part>();
  expectTypeOf<NonNullable<GeminiBody["systemInstruction"]>>().toExtend<Content>();
  // The SDK types these by enums whose values are strings on the wire.
  type Plain = Omit<GeminiConfig, "responseSchema" | "thinkingConfig" | "mediaResolution">;
  expectTypeOf<Plain>().toExtend<GenerationConfig>();
  expectTypeOf<Exclude<keyof GeminiConfig, keyof GenerationConfig>>().toEqualTypeOf<never>();
});
