/**
 * Times the codecs: `npx tsx bench/providers.ts`.
 *
 * Bounds: decode of a 700-byte OpenAI success 4 us, encode of a 600-byte prompt 4 us, limits 1 us. `JSON.parse` alone
 * of the same bytes is timed beside them, as the floor.
 */
import { createProvider, defaultSettings, type Provider } from "../src/providers/index.ts";
import type { ModelRequest } from "../src/work/request.ts";

const ROUNDS = 200_000;

const chat = JSON.stringify({
  id: "chatcmpl-CeY1bDq3v0000000000000000000",
  object: "chat.completion",
  created: 1_795_172_400,
  model: "gpt-4o-mini-2024-07-18",
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: "Janet sells 9 eggs a day. ".repeat(9),
        refusal: null,
        annotations: [],
      },
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
});
const message = JSON.stringify({
  model: "claude-haiku-4-5-20251001",
  id: "msg_01XFDUDYJgAACzvnptvVoYEL",
  type: "message",
  role: "assistant",
  content: [{ type: "text", text: "Janet sells 9 eggs a day. ".repeat(12) }],
  stop_reason: "end_turn",
  usage: { input_tokens: 129, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 58 },
});
const candidates = JSON.stringify({
  candidates: [
    {
      content: { parts: [{ text: "Janet sells 9 eggs a day. ".repeat(15) }], role: "model" },
      finishReason: "STOP",
    },
  ],
  usageMetadata: { promptTokenCount: 129, candidatesTokenCount: 58, totalTokenCount: 187 },
});
const headers = {
  "content-type": "application/json",
  "x-ratelimit-limit-requests": "5000",
  "x-ratelimit-limit-tokens": "4000000",
  "x-ratelimit-remaining-requests": "4999",
  "x-ratelimit-remaining-tokens": "3999871",
  "x-ratelimit-reset-requests": "12ms",
  "x-ratelimit-reset-tokens": "1.935s",
};
const request: ModelRequest = {
  system: ["You are a careful tutor of school mathematics."],
  turns: [{ role: "user", texts: ["Janet’s ducks lay 16 eggs per day. ".repeat(16)] }],
  config: { temperature: 0, maxOutputTokens: 256 },
  unknownFields: [],
};

const openaiBytes = new TextEncoder().encode(chat);
time(`JSON.parse alone of ${openaiBytes.length} bytes`, () => {
  const text = Buffer.from(openaiBytes.buffer, openaiBytes.byteOffset, openaiBytes.byteLength).toString(
    "utf8",
  );
  return JSON.parse(text).choices.length;
});
for (const [name, text] of [
  ["openai", chat],
  ["anthropic", message],
  ["gemini", candidates],
] as const) {
  const codec = providerOf(name);
  const body = new TextEncoder().encode(text);
  const answer = { status: 200, headers, body, wallMs: 1_795_172_400_000 };
  if (codec.decode(answer).class !== "success") throw new Error(`${name} must succeed`);
  time(`${name} decode of ${body.length} bytes`, () => codec.decode(answer).class.length);
  time(`${name} encode of a 600-byte prompt`, () => {
    const encoded = codec.encode(request, "gpt-4o-mini");
    return encoded.ok ? encoded.body.length : 0;
  });
}
const openai = providerOf("openai");
time("openai limits", () => openai.limits(headers)?.requestsPerMinute ?? 0);
time(
  "openai limits, none told",
  () => openai.limits({ "content-type": "application/json" })?.remainingTokens ?? 1,
);

function providerOf(name: string): Provider {
  const settings = defaultSettings(name);
  if (settings === undefined) throw new Error(`${name} must be known`);
  return createProvider(settings);
}

function time(name: string, run: () => number): void {
  let sink = 0;
  for (let round = 0; round < ROUNDS / 10; round++) sink += run();
  const start = performance.now();
  for (let round = 0; round < ROUNDS; round++) sink += run();
  const us = ((performance.now() - start) * 1_000) / ROUNDS;
  console.log(`${name}: ${us.toFixed(2)} us${sink === 0 ? "!" : ""}`);
}
