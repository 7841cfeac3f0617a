/** A request and an answer of each codec, for the benches of encoding and decoding. */
import { createProvider, defaultSettings, type Provider } from "../../src/providers/index.ts";
import type { ModelRequest } from "../../src/work/request.ts";

export const REQUEST: ModelRequest = {
  system: ["You are a careful tutor of school mathematics."],
  turns: [{ role: "user", parts: ["Janet’s ducks lay 16 eggs per day. ".repeat(16)] }],
  config: { temperature: 0, maxOutputTokens: 256 },
  unknownFields: [],
};

export const HEADERS = {
  "content-type": "application/json",
  "x-ratelimit-limit-requests": "5000",
  "x-ratelimit-limit-tokens": "4000000",
  "x-ratelimit-remaining-requests": "4999",
  "x-ratelimit-remaining-tokens": "3999871",
  "x-ratelimit-reset-requests": "12ms",
  "x-ratelimit-reset-tokens": "1.935s",
};

const TEXT = "Janet sells 9 eggs a day. ";

const ANSWERS = {
  openai: {
    id: "chatcmpl-CeY1bDq3v0000000000000000000",
    object: "chat.completion",
    created: 1_795_172_400,
    model: "gpt-4o-mini-2024-07-18",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: TEXT.repeat(9), refusal: null, annotations: [] },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: {
      prompt_tokens: 129,
      completion_tokens: 58,
      total_tokens: 187,
      prompt_tokens_details: { cached_tokens: 64 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
    service_tier: "default",
  },
  anthropic: {
    model: "claude-haiku-4-5-20251001",
    id: "msg_01XFDUDYJgAACzvnptvVoYEL",
    type: "message",
    role: "assistant",
    content: [{ type: "text", text: TEXT.repeat(12) }],
    stop_reason: "end_turn",
    usage: {
      input_tokens: 129,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: 58,
    },
  },
  gemini: {
    candidates: [{ content: { parts: [{ text: TEXT.repeat(15) }], role: "model" }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 129, candidatesTokenCount: 58, totalTokenCount: 187 },
  },
} as const;

export interface CodecCase {
  readonly name: string;
  readonly codec: Provider;
  /** Of a success, in JSON. */
  readonly body: Uint8Array;
}

export const CODECS: readonly CodecCase[] = Object.entries(ANSWERS).map(([name, answer]) => {
  const settings = defaultSettings(name);
  if (settings === undefined) throw new Error(`${name} must be known`);
  return { name, codec: createProvider(settings), body: Buffer.from(JSON.stringify(answer)) };
});
