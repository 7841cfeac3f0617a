/**
 * The body of a chat completion in OpenAI's layout: sent unchanged, except for settings that its model does not support.
 *
 *   a name that nobody knows, also in a message          refused (`chat_members.ts`)
 *   stream, n above 8                                    refused: whole answers are returned for a line
 *   safety settings, cached content beside messages      refused: only Gemini has them
 *   sampling settings that the model refuses             left out, by `unsupported.ts`
 *   no format, of an item whose answer is checked        the format that asks for its schema
 */
import type { JsonValue, ModelRequest } from "../../work/request.ts";
import { misspeltInMessages, misspeltMember } from "../chat_members.ts";
import type { Encoded } from "../provider.ts";
import { type Dialect, openaiModel } from "./dialects.ts";
import { type ChatBody, putFormat } from "./openai_body.ts";

type Body = Readonly<Record<string, JsonValue>>;

/** The body without its model, and the settings that were left out; or why it cannot be sent. */
export type GivenResult =
  | { readonly ok: true; readonly body: Body; readonly dropped: readonly string[] }
  | Extract<Encoded, { readonly ok: false }>;

/** Settings for which reasoning models accept only the default values, and these values. */
const SAMPLING_DEFAULTS: readonly (readonly [string, number])[] = [
  ["temperature", 1],
  ["top_p", 1],
  ["presence_penalty", 0],
  ["frequency_penalty", 0],
];
/** As in `jsonl/config.ts`. */
const CANDIDATES_MAX = 8;
const NONE: readonly string[] = [];

/** `isOpenai`: the server is OpenAI's own. The request has an `openaiBody`. */
export function givenBody(
  { openaiBody: body = {}, unknownFields, safetySettings, cachedContent, isChecked, config }: ModelRequest,
  model: string,
  dialect: Dialect,
  isOpenai: boolean,
): GivenResult {
  if (body["stream"] === true)
    return { ok: false, code: "unsupported_request", message: "stream: expected false or absent, got true" };
  const count = body["n"];
  if (typeof count === "number" && count > CANDIDATES_MAX)
    return {
      ok: false,
      code: "unsupported_request",
      message: `n: expected at most ${CANDIDATES_MAX}, got ${count}`,
    };
  if (safetySettings !== undefined || cachedContent !== undefined) {
    const what = safetySettings === undefined ? "cached_content" : "safety_settings";
    return { ok: false, code: "unsupported_request", message: `${what}: only Gemini has it` };
  }
  const misspelt = unknownFields.length === 0 ? undefined : misspeltMember(unknownFields, isOpenai);
  const fault = misspelt ?? misspeltInMessages(body["messages"], isOpenai);
  if (fault !== undefined) return { ok: false, code: "invalid_config", message: fault };
  const dropped = notTaken(body, model, dialect, isOpenai);
  const taken = dropped.length === 0 ? body : without(body, dropped);
  if (isChecked !== true) return { ok: true, body: taken, dropped };
  const format: Pick<ChatBody, "response_format"> = {};
  const left: string[] = [...dropped];
  putFormat(format, config, dialect, left);
  return { ok: true, body: { ...taken, ...format }, dropped: left };
}

function notTaken(body: Body, model: string, dialect: Dialect, isOpenai: boolean): readonly string[] {
  const dropped = SAMPLING_DEFAULTS.filter(
    ([name, value]) => body[name] !== undefined && body[name] !== null && body[name] !== value,
  ).map(([name]) => name);
  const takesSampling = dropped.length === 0 || !dialect.hasReasoningModels || isFree(body, model);
  const hasTopK = isOpenai && body["top_k"] !== undefined && body["top_k"] !== null;
  if (takesSampling) return hasTopK ? ["top_k"] : NONE;
  return hasTopK ? [...dropped, "top_k"] : dropped;
}

function isFree(body: Body, model: string): boolean {
  const { sampling } = openaiModel(model);
  return sampling === "always" || (sampling === "without_reasoning" && body["reasoning_effort"] === "none");
}

function without(body: Body, names: readonly string[]): Body {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !names.includes(name)));
}
