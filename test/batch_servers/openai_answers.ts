/** What OpenAI's endpoints read of a request, and the bodies that they answer with. Source: openai 6.49.0. */
import { isObject, type JsonObject } from "./fake.ts";
import { type Asked, answerTo, askedOf } from "./prompt.ts";
import { type Slot, slot, templateOf } from "./template.ts";

/** Paths below `/v1` that answer requests, in realtime and in batches. */
export const OPENAI_ENDPOINTS: ReadonlySet<string> = new Set([
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/embeddings",
]);

/** The text of a content: a string or parts. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .join("");
}

/** The text of the last turn, and the characters of all turns. */
export function turnsOf(turns: string | readonly unknown[]): {
  readonly prompt: string;
  readonly characters: number;
} {
  if (typeof turns === "string") return { prompt: turns, characters: turns.length };
  let prompt = "";
  let characters = 0;
  for (const turn of turns) {
    prompt = isObject(turn) ? textOf(turn["content"]) : "";
    characters += prompt.length;
  }
  return { prompt, characters };
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

/** What an answer says; slots for a template. */
interface Said {
  readonly id: string | Slot;
  readonly created: number | Slot;
  readonly model: string | Slot;
  readonly text: string | Slot;
  readonly isCut: boolean;
  readonly input: number | Slot;
  readonly output: number | Slot;
  readonly total: number | Slot;
  readonly tier: string;
}

/** The answer of an endpoint. */
export function openaiAnswered(
  endpoint: string,
  asked: Asked,
  { id, createdMs, tier }: { readonly id: string; readonly createdMs: number; readonly tier: string },
): object {
  const { model, prompt, inputTokens: input, outputTokens: output, isCut } = asked;
  const created = Math.floor(createdMs / 1_000);
  const said = {
    id,
    created,
    model,
    text: answerTo(prompt),
    isCut,
    input,
    output,
    total: input + output,
    tier,
  };
  return bodyOf(endpoint, said);
}

/** The same as a line of a batch: its id, the request's id in it, the asked, and how the answer is named. */
export function openaiLines(
  endpoint: string,
  createdMs: number,
): (line: {
  readonly id: string;
  readonly customId: string;
  readonly name: string;
  readonly asked: Asked;
}) => string {
  const created = Math.floor(createdMs / 1_000);
  const shape = (isCut: boolean): ReturnType<typeof templateOf> => {
    const parts = { model: slot(4), text: slot(5), input: slot(6), output: slot(7), total: slot(8) };
    const body = bodyOf(endpoint, { ...parts, id: slot(3), created, isCut, tier: "default" });
    const response = { status_code: 200, request_id: slot(2), body };
    return templateOf({ id: slot(0), custom_id: slot(1), response, error: null });
  };
  const whole = shape(false);
  const cut = shape(true);
  return ({ id, customId, name, asked }) => {
    const { model, prompt, inputTokens, outputTokens, isCut } = asked;
    const total = inputTokens + outputTokens;
    const values = [id, customId, name, name, model, answerTo(prompt), inputTokens, outputTokens, total];
    return (isCut ? cut : whole)(values);
  };
}

function bodyOf(endpoint: string, said: Said): object {
  if (endpoint.endsWith("/embeddings")) return embedded(said);
  return endpoint.endsWith("/responses") ? responded(said) : completed(said);
}

function completed({ id, created, model, text, isCut, input, output, total, tier }: Said): object {
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: text, refusal: null, annotations: [] },
        logprobs: null,
        finish_reason: isCut ? "length" : "stop",
      },
    ],
    usage: {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: total,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
    service_tier: tier,
    system_fingerprint: null,
  };
}

function responded({ id, created, model, text, isCut, input, output, total, tier }: Said): object {
  const content = [{ type: "output_text", text, annotations: [] }];
  return {
    id,
    object: "response",
    created_at: created,
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    error: null,
    model,
    output: [{ type: "message", id: "msg_1", status: "completed", role: "assistant", content }],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: total,
    },
    service_tier: tier,
  };
}

function embedded({ model, input, total }: Said): object {
  return {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [0.1, 0.2, 0.3, 0.4] }],
    model,
    usage: { prompt_tokens: input, total_tokens: total },
  };
}
