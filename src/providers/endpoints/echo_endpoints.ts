/**
 * Endpoints of the embedded provider, in OpenAI's form: deterministic, without network or key.
 *
 *   embedding    a unit vector for each input, from a hash of it: 8 numbers, or `dimensions`; equal inputs have equal vectors
 *   moderation   nothing is flagged
 *   completion, response    the prompt, or the text of the input
 *
 * Usage counts a token per started four UTF-16 units, and given token ids as they are.
 */
import type { EndpointKind } from "../../work/request.ts";
import { arrayOf, countOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";
import type { Provider, ProviderSettings } from "../provider.ts";
import { endpointAnswer } from "./endpoint_answer.ts";
import { endpointBodies } from "./endpoint_body.ts";
import { wrongEndpoint } from "./openai_endpoints.ts";

const UNITS_PER_TOKEN = 4;
const DIMENSIONS = 8;
const DIMENSIONS_MAX = 4_096;

/** The codec of the embedded provider for one kind. */
export function echoEndpoint(settings: ProviderSettings, kind: EndpointKind): Provider {
  const head = { origin: "", path: "", headers: {} };
  const encodeBody = endpointBodies({ settings, isOpenai: false });
  return {
    settings,
    head: () => head,
    encode: ({ endpoint }, model, isCheckOnly = false) =>
      endpoint?.kind === kind ? encodeBody(endpoint, model, isCheckOnly) : wrongEndpoint(kind),
    decode: (answer) => endpointAnswer(kind, answer, settings.name),
    limits: () => undefined,
    answerLocally: (body) => answerLocally(kind, body),
  };
}

function answerLocally(
  kind: EndpointKind,
  body: Uint8Array,
): ReturnType<NonNullable<Provider["answerLocally"]>> {
  const request = objectOf(parseJson(body));
  if (request === undefined) return { status: 400, body: Buffer.from("{}") };
  const inputs = inputsOf(request["input"] ?? request["prompt"]);
  const text = inputs.map(textIn).join("");
  const inputTokens = inputs.reduce<number>((sum, input) => sum + tokensOf(input), 0);
  const outputTokens = tokensOf(text);
  const model = stringOf(request["model"]) ?? "";
  const usage = { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens };
  const answers: Readonly<Record<EndpointKind, () => object>> = {
    embedding: () => ({
      object: "list",
      data: inputs.map((input, index) => ({
        object: "embedding",
        index,
        embedding: vectorOf(input, request),
      })),
      model,
      usage: { prompt_tokens: inputTokens, total_tokens: inputTokens },
    }),
    moderation: () => ({
      model,
      results: inputs.map(() => ({ flagged: false, categories: {}, category_scores: {} })),
    }),
    completion: () => ({ model, choices: [{ index: 0, text, finish_reason: "stop" }], usage }),
    response: () => ({
      object: "response",
      status: "completed",
      model,
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }],
      usage: { input_tokens: inputTokens, output_tokens: outputTokens },
    }),
  };
  return { status: 200, body: Buffer.from(JSON.stringify(answers[kind]())) };
}

/** A list of token ids is one input. */
function inputsOf(value: unknown): readonly unknown[] {
  const list = arrayOf(value);
  return list === undefined || list.every((each) => typeof each === "number") ? [value] : list;
}

function textIn(value: unknown): string {
  if (typeof value === "string") return value;
  const list = arrayOf(value);
  if (list !== undefined) return list.map(textIn).join("");
  const object = objectOf(value);
  return object === undefined ? "" : textIn(object["text"] ?? object["content"]);
}

function tokensOf(input: unknown): number {
  const ids = arrayOf(input);
  if (ids?.every((each) => typeof each === "number") === true) return ids.length;
  return Math.ceil(textIn(input).length / UNITS_PER_TOKEN);
}

function vectorOf(
  input: unknown,
  { dimensions, encoding_format: format }: Unchecked,
): readonly number[] | string {
  const length = Math.min(countOf(dimensions) ?? DIMENSIONS, DIMENSIONS_MAX);
  let hash = 2_166_136_261;
  for (const character of JSON.stringify(input)) hash = next(hash ^ (character.codePointAt(0) ?? 0));
  const raw = Array.from({ length: Math.max(1, length) }, () => {
    hash = next(hash ^ (hash >>> 15));
    return hash / 2 ** 31;
  });
  const norm = Math.hypot(...raw) || 1;
  const numbers = raw.map((each) => Math.fround(each / norm));
  return format === "base64" ? Buffer.from(new Float32Array(numbers).buffer).toString("base64") : numbers;
}

/** A step of FNV-1a, as a signed 32-bit number. */
function next(hash: number): number {
  return Math.imul(hash, 16_777_619);
}
