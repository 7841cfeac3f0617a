/** What OpenAI's endpoints read of a request, and the bodies that they answer with. Source: openai 6.49.0. */
import { isObject, type JsonObject } from "./fake.ts";
import { type Asked, answerTo, askedOf } from "./prompt.ts";

/** Paths below `/v1` that answer requests, in realtime and in batches. */
export const OPENAI_ENDPOINTS: ReadonlySet<string> = new Set([
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/embeddings",
]);

/** The text of a content: a string or parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .join("");
}

/** The text of the last turn, and the characters of all turns. */
export function turnsOf(turns: unknown): { readonly prompt: string; readonly characters: number } {
  if (typeof turns === "string") return { prompt: turns, characters: turns.length };
  if (!Array.isArray(turns)) return { prompt: "", characters: 0 };
  const texts = turns.map((turn) => (isObject(turn) ? textOf(turn["content"]) : textOf([turn])));
  return { prompt: texts.at(-1) ?? "", characters: texts.reduce((sum, text) => sum + text.length, 0) };
}

/** What is asked by a body; undefined where it is not a request. */
export function openaiAsked(endpoint: string, body: JsonObject): Asked | undefined {
  const { model } = body;
  if (typeof model !== "string" || model === "") return undefined;
  if (endpoint.endsWith("/embeddings")) {
    const { input } = body;
    const prompt = Array.isArray(input) ? input.join(" ") : String(input);
    return { ...askedOf(model, prompt, prompt.length, 0), isCut: false };
  }
  const turns = endpoint.endsWith("/responses") ? body["input"] : body["messages"];
  if (typeof turns !== "string" && !Array.isArray(turns)) return undefined;
  const { prompt, characters } = turnsOf(turns);
  const limit = body["max_completion_tokens"] ?? body["max_output_tokens"] ?? body["max_tokens"];
  return askedOf(model, prompt, characters, typeof limit === "number" ? limit : undefined);
}

/** The answer of an endpoint. */
export function openaiAnswered(
  endpoint: string,
  asked: Asked,
  id: string,
  createdMs: number,
  tier: string,
): JsonObject {
  if (endpoint.endsWith("/embeddings")) return embedded(asked);
  if (endpoint.endsWith("/responses")) return responded(asked, id, createdMs, tier);
  const { model, prompt, inputTokens, outputTokens, isCut } = asked;
  return {
    id: `chatcmpl-${id}`,
    object: "chat.completion",
    created: Math.floor(createdMs / 1_000),
    model,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: answerTo(prompt), refusal: null, annotations: [] },
        logprobs: null,
        finish_reason: isCut ? "length" : "stop",
      },
    ],
    usage: {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
    service_tier: tier,
    system_fingerprint: null,
  };
}

function responded(asked: Asked, id: string, createdMs: number, tier: string): JsonObject {
  const { model, prompt, inputTokens, outputTokens, isCut } = asked;
  return {
    id: `resp_${id}`,
    object: "response",
    created_at: Math.floor(createdMs / 1_000),
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    error: null,
    model,
    output: [
      {
        type: "message",
        id: `msg_${id}`,
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: answerTo(prompt), annotations: [] }],
      },
    ],
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
    service_tier: tier,
  };
}

function embedded({ model, prompt, inputTokens }: Asked): JsonObject {
  const embedding = Array.from({ length: 4 }, (_, index) => ((prompt.length + index) % 10) / 10);
  return {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding }],
    model,
    usage: { prompt_tokens: inputTokens, total_tokens: inputTokens },
  };
}
