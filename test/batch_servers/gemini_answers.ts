/** What Gemini's generateContent reads of a request, and the bodies that it answers with. Source: @google/genai 2.32.0. */
import { type FakeReply, isObject, type JsonObject, jsonReply } from "./fake.ts";
import { type Asked, answerTo, askedOf } from "./prompt.ts";
import { type Slot, slot, templateOf } from "./template.ts";

const STATUSES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

/** Codes of `google.rpc.Status` in results. */
const RPC_CODES: Readonly<Record<number, number>> = {
  400: 3,
  403: 7,
  404: 5,
  429: 8,
  500: 13,
  503: 14,
  504: 4,
};

/** `google.rpc.Status` of a request that failed in a batch. */
export function rpcStatusOf(status: number, isHold: boolean): object {
  const message = isHold ? "the account has no credit left" : `the prompt asked for ${status}`;
  return { code: RPC_CODES[status] ?? 2, message };
}

/** A key that is not valid is a 400. */
export function refuseGemini(status: number, code: string, message: string): FakeReply {
  if (status === 401) {
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
    return jsonReply(400, { error: { code: 400, message, status: "INVALID_ARGUMENT", details } });
  }
  const details = status === 429 ? quotaOf(code) : [];
  return jsonReply(status, {
    error: { code: status, message, status: STATUSES[status] ?? "UNKNOWN", details },
  });
}

function quotaOf(code: string): object[] {
  const isDay = code === "insufficient_quota";
  const quotaId = `GenerateRequestsPer${isDay ? "Day" : "Minute"}PerProjectPerModel`;
  return [
    { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId }] },
    ...(isDay ? [] : [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "1s" }]),
  ];
}

/** What is asked by a request of a model; undefined where it is not one. */
export function geminiAsked(model: string, request: JsonObject): Asked | undefined {
  const { contents } = request;
  if (!Array.isArray(contents) || contents.length === 0) return undefined;
  const texts = contents.map(textOf);
  const system = textOf(request["systemInstruction"] ?? request["system_instruction"]);
  const characters = texts.reduce((sum, text) => sum + text.length, system.length);
  const config = request["generationConfig"] ?? request["generation_config"];
  const limit = isObject(config) ? (config["maxOutputTokens"] ?? config["max_output_tokens"]) : undefined;
  return askedOf(model, texts.at(-1) ?? "", characters, typeof limit === "number" ? limit : undefined);
}

function textOf(content: unknown): string {
  const parts = isObject(content) ? content["parts"] : undefined;
  if (!Array.isArray(parts)) return "";
  return parts
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .join("");
}

export function geminiAnswered(
  { model, prompt, inputTokens, outputTokens, isCut }: Asked,
  id: string,
): object {
  const thoughts = thoughtsOf(outputTokens);
  const total = inputTokens + outputTokens;
  const said = { text: answerTo(prompt), isCut, input: inputTokens, thoughts, total, model, id };
  return responseOf({ ...said, output: outputTokens - thoughts });
}

/** The same as a line of a batch's results. */
export function geminiLines(model: string): (key: string, asked: Asked, id: string) => string {
  const shape = (isCut: boolean): ReturnType<typeof templateOf> => {
    const parts = {
      id: slot(1),
      text: slot(2),
      input: slot(3),
      output: slot(4),
      thoughts: slot(5),
      total: slot(6),
    };
    return templateOf({ key: slot(0), response: responseOf({ ...parts, isCut, model }) });
  };
  const whole = shape(false);
  const cut = shape(true);
  return (key, { prompt, inputTokens, outputTokens, isCut }, id) => {
    const thoughts = thoughtsOf(outputTokens);
    const total = inputTokens + outputTokens;
    return (isCut ? cut : whole)([
      key,
      id,
      answerTo(prompt),
      inputTokens,
      outputTokens - thoughts,
      thoughts,
      total,
    ]);
  };
}

/** Of the billed output, what are thoughts: beside the candidates' tokens, not within them. */
function thoughtsOf(outputTokens: number): number {
  return Math.floor(outputTokens / 4);
}

interface Said {
  readonly id: string | Slot;
  readonly model: string;
  readonly text: string | Slot;
  readonly isCut: boolean;
  readonly input: number | Slot;
  readonly output: number | Slot;
  readonly thoughts: number | Slot;
  readonly total: number | Slot;
}

function responseOf({ id, model, text, isCut, input, output, thoughts, total }: Said): object {
  return {
    candidates: [
      {
        content: { parts: [{ text }], role: "model" },
        finishReason: isCut ? "MAX_TOKENS" : "STOP",
        index: 0,
      },
    ],
    usageMetadata: {
      promptTokenCount: input,
      candidatesTokenCount: output,
      thoughtsTokenCount: thoughts,
      totalTokenCount: total,
    },
    modelVersion: model,
    responseId: id,
  };
}
