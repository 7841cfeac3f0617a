/**
 * The answers of simulated providers, in the protocol in which they were asked: OpenAI's chat completions, Anthropic's messages,
 * Gemini's generateContent. Formats: docs/reference/providers.md.
 */
import type { ProviderSettings } from "../../providers/provider.ts";

/** What a request asks for. */
export interface AskedAnswer {
  readonly body: { readonly [name: string]: unknown };
  readonly model: string;
  readonly isFlex: boolean;
  /** About four bytes of the body to a token. */
  readonly inputTokens: number;
  /** The request's own limit; Infinity without one. */
  readonly outputTokensMax: number;
}

/** What a provider answers with. */
export interface GivenAnswer {
  readonly text: string;
  readonly outputTokens: number;
}

const LIMIT_NAMES = ["max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens"];

/** Reads a request. `path`: Gemini has the model in it. */
export function askedIn(text: string, path: string): AskedAnswer {
  const body = objectIn(text);
  const generation = objectOf(body["generationConfig"]);
  const limit = LIMIT_NAMES.map((name) => body[name] ?? generation[name]).find(
    (value) => typeof value === "number",
  );
  const inPath = /\/models\/([^:/]+)/.exec(path)?.[1];
  return {
    body,
    model: typeof body["model"] === "string" ? body["model"] : (inPath ?? ""),
    isFlex: /"service_?[tT]ier": ?"flex"/.test(text),
    inputTokens: Math.ceil(text.length / 4),
    outputTokensMax: typeof limit === "number" ? limit : Number.POSITIVE_INFINITY,
  };
}

/** The body of a response with 200. */
export function answerBody(
  protocol: ProviderSettings["protocol"],
  { model, inputTokens, isFlex }: AskedAnswer,
  { text, outputTokens }: GivenAnswer,
): object {
  if (protocol === "anthropic")
    return {
      ...{ id: "msg_simulated", type: "message", role: "assistant", model },
      content: [{ type: "text", text }],
      stop_reason: "end_turn",
      usage: { input_tokens: inputTokens, output_tokens: outputTokens },
    };
  if (protocol === "gemini")
    return {
      candidates: [{ content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }],
      usageMetadata: {
        promptTokenCount: inputTokens,
        candidatesTokenCount: outputTokens,
        totalTokenCount: inputTokens + outputTokens,
        ...(isFlex ? { trafficType: "ON_DEMAND_FLEX" } : {}),
      },
      modelVersion: model,
    };
  return {
    ...{ id: "chatcmpl-simulated", object: "chat.completion", created: 0, model },
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
    usage: {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
    },
    ...(isFlex ? { service_tier: "flex" } : {}),
  };
}

function objectIn(text: string): AskedAnswer["body"] {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return {};
  }
}

function objectOf(value: unknown): AskedAnswer["body"] {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
