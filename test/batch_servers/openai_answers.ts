/** What OpenAI's endpoints read of a request, and the bodies that they answer with. Source: openai 6.49.0. */
import { hashOf } from "./chance.ts";
import { isObject, type JsonObject } from "./fake.ts";
import { type Asked, answerTo, askedOf } from "./prompt.ts";
import { type Slot, slot, templateOf } from "./template.ts";

/** Paths below `/v1` that answer requests, in realtime and in batches. */
export const OPENAI_ENDPOINTS: ReadonlySet<string> = new Set([
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/embeddings",
  "/v1/completions",
  "/v1/moderations",
]);

/** Between the texts of a request for embeddings or moderations in its prompt. */
const BETWEEN_INPUTS = "\n";

/** Its texts. */
export function inputsOf(prompt: string): readonly string[] {
  return prompt.split(BETWEEN_INPUTS);
}

/** The one right vector of a text. */
export function vectorOf(text: string): readonly number[] {
  return [hashOf(text) / 2 ** 32, 0.25, -1, 0];
}

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
  if (endpoint.endsWith("/embeddings") || endpoint.endsWith("/moderations")) {
    const { input } = body;
    if (typeof input !== "string" && !Array.isArray(input)) return undefined;
    const prompt = Array.isArray(input) ? input.join(BETWEEN_INPUTS) : input;
    return { ...askedOf(model, prompt, prompt.length, 0), isCut: false };
  }
  if (endpoint.endsWith("/v1/completions")) {
    const { prompt, max_tokens: most } = body;
    if (typeof prompt !== "string") return undefined;
    return askedOf(model, prompt, prompt.length, typeof most === "number" ? most : undefined);
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
  readonly prompt: string;
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
    prompt,
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
    const body = bodyOf(endpoint, { ...parts, id: slot(3), created, prompt: "", isCut, tier: "default" });
    const response = { status_code: 200, request_id: slot(2), body };
    return templateOf({ id: slot(0), custom_id: slot(1), response, error: null });
  };
  const whole = shape(false);
  const cut = shape(true);
  return ({ id, customId, name, asked }) => {
    if (hasResultsOfInputs(endpoint)) {
      const answered = openaiAnswered(endpoint, asked, { id: name, createdMs, tier: "default" });
      const body = miscounted(answered, asked.prompt);
      const response = { status_code: 200, request_id: name, body };
      return JSON.stringify({ id, custom_id: customId, response, error: null });
    }
    const { model, prompt, inputTokens, outputTokens, isCut } = asked;
    const total = inputTokens + outputTokens;
    const values = [id, customId, name, name, model, answerTo(prompt), inputTokens, outputTokens, total];
    return (isCut ? cut : whole)(values);
  };
}

function bodyOf(endpoint: string, said: Said): object {
  if (endpoint.endsWith("/embeddings")) return embedded(said);
  if (endpoint.endsWith("/moderations")) return moderated(said);
  if (endpoint.endsWith("/v1/completions")) return continued(said);
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

/** Whether an answer has as many parts as the request has inputs, so that no template fits. */
function hasResultsOfInputs(endpoint: string): boolean {
  return endpoint.endsWith("/embeddings") || endpoint.endsWith("/moderations");
}

/** An answer without its last output for FEWER, with the first once more for FURTHER. Of batches only. */
function miscounted(body: object, prompt: string): object {
  const counted = (value: unknown): unknown => {
    if (!Array.isArray(value)) return value;
    if (prompt.includes("FEWER")) return value.slice(0, -1);
    return prompt.includes("FURTHER") ? [...value, { ...value[0], index: value.length }] : value;
  };
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, counted(value)]));
}

function embedded({ model, prompt, input, total }: Said): object {
  return {
    object: "list",
    data: inputsOf(prompt).map((text, index) => ({ object: "embedding", index, embedding: vectorOf(text) })),
    model,
    usage: { prompt_tokens: input, total_tokens: total },
  };
}

function moderated({ id, model, prompt }: Said): object {
  return { id, model, results: inputsOf(prompt).map((text) => ({ flagged: text.includes("flagged") })) };
}

function continued({ id, created, model, text, isCut, input, output, total }: Said): object {
  return {
    ...{ id, object: "text_completion", created, model },
    choices: [{ index: 0, text, logprobs: null, finish_reason: isCut ? "length" : "stop" }],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: total },
  };
}
