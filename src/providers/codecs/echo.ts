/**
 * The embedded provider: it answers by itself, deterministically, without network or key. For first steps, for tests
 * of a pipeline, and for measuring what the engine itself costs.
 *
 * The answer is the text of the last user turn, cut after `max_output_tokens` x 4 UTF-16 units (never inside a
 * surrogate pair) and then marked `length`; a turn without text is answered by `(empty)`. Usage counts a token per
 * started four units, over all texts for the input.
 */
import { type ModelRequest, textsOf } from "../../work/request.ts";
import { success } from "../endings.ts";
import { echoEndpoint } from "../endpoints/echo_endpoints.ts";
import { encoded, inOtherWords } from "../exchange.ts";
import { countOf, objectOf, parseJson, stringOf } from "../json.ts";
import type { Decoded, Provider, ProviderSettings, WireAnswer } from "../provider.ts";
import { itemFailure, refusalOf } from "../refusals.ts";
import { answerSchema } from "../schema.ts";
import { candidatesName } from "../unsupported.ts";
import { Writing } from "./writing.ts";

const UNITS_PER_TOKEN = 4;
const NONE: readonly string[] = [];

/** The codec of the embedded provider. */
export function echoProvider(settings: ProviderSettings): Provider {
  const head = { origin: "", path: "", headers: {} };
  return {
    settings,
    endpoint: (kind) => echoEndpoint(settings, kind),
    head: () => head,
    encode: (request, model) => {
      const read = inOtherWords(request, settings.name);
      if ("ok" in read) return read;
      const writing = new Writing(request, settings.name, read.dropped);
      refuseMedia(request, writing);
      if (writing.refused !== undefined)
        return { ok: false, code: "unsupported_request", message: writing.refused };
      const dropped = notTaken(request, writing.dropped);
      const seedPlace = { name: undefined, depth: 1 } as const;
      return encoded(
        echoBody(request, model),
        { ...request, config: {} },
        dropped,
        { settings, model },
        seedPlace,
      );
    },
    decode: (answer) => decode(answer, settings.name),
    limits: () => undefined,
    answerLocally,
  };
}

/** What would change the answer and does not. It has one answer at every temperature and seed, so these are kept to. */
function notTaken({ config, ...request }: ModelRequest, others: readonly string[]): readonly string[] {
  const { stopSequences = [], responseMimeType = "text/plain", thinkingConfig } = config;
  const { thinkingLevel, thinkingBudget = -1, includeThoughts = false } = thinkingConfig ?? {};
  const isGiven: readonly (readonly [string, boolean])[] = [
    ["stop_sequences", stopSequences.length > 0],
    ["response_schema", answerSchema(config) !== undefined],
    ["response_mime_type", responseMimeType !== "text/plain"],
    ["logprobs", config.responseLogprobs !== undefined || config.logprobs !== undefined],
    ["thinking_config", thinkingConfig !== undefined && Object.keys(thinkingConfig).length === 0],
    ["thinking_level", thinkingLevel !== undefined],
    ["thinking_budget", thinkingBudget !== -1],
    ["include_thoughts", includeThoughts],
    [candidatesName(request), config.candidateCount !== undefined],
    ["tools", request.tools !== undefined],
    ["tool_choice", request.toolChoice !== undefined],
    ["parallel_tool_calls", request.parallelToolCalls !== undefined],
    ["safety_settings", request.safetySettings !== undefined],
    ["cached_content", request.cachedContent !== undefined],
    ["media_resolution", config.mediaResolution !== undefined],
  ];
  const names = isGiven.flatMap(([name, given]) => (given ? [name] : []));
  return names.length === 0 && others.length === 0 ? NONE : [...others, ...names];
}

/** It answers texts; a question without its image is another one. */
function refuseMedia({ turns }: ModelRequest, writing: Writing): void {
  for (const { parts } of turns)
    for (const part of parts)
      if (typeof part !== "string" && part.kind !== "text") writing.refuse(part, "takes only text");
}

function echoBody(request: ModelRequest, model: string): object {
  const asked = request.turns.findLast((turn) => turn.role === "user");
  const prompt = asked === undefined ? "" : textsOf(asked.parts).join("");
  const texts = [...request.system, ...request.turns.flatMap((turn) => textsOf(turn.parts))];
  const units = texts.reduce((sum, text) => sum + text.length, 0);
  const limit = request.config.maxOutputTokens;
  return {
    model,
    prompt,
    input_tokens: tokensOf(units),
    ...(limit === undefined ? {} : { max_output_tokens: limit }),
  };
}

function answerLocally(body: Uint8Array): { readonly status: number; readonly body: Uint8Array } {
  const request = objectOf(parseJson(body));
  const prompt = stringOf(request?.["prompt"]);
  if (prompt === undefined) return { status: 400, body: Buffer.from("{}") };
  const whole = prompt === "" ? "(empty)" : prompt;
  const limit = countOf(request?.["max_output_tokens"]);
  const text = limit === undefined ? whole : cut(whole, limit * UNITS_PER_TOKEN);
  const answer = {
    text,
    finish: text.length < whole.length ? "length" : "stop",
    input_tokens: countOf(request?.["input_tokens"]) ?? 0,
    output_tokens: tokensOf(text.length),
  };
  return { status: 200, body: Buffer.from(JSON.stringify(answer)) }; // small ones share a slab
}

function decode(answer: WireAnswer, name: string): Decoded {
  if (answer.status !== 200) return refusalOf(name, answer);
  const body = objectOf(parseJson(answer.body));
  const text = stringOf(body?.["text"]);
  if (text === undefined) return itemFailure("ambiguous", "invalid_response", `${name} answered no text`);
  const usage = {
    inputTokens: countOf(body?.["input_tokens"]) ?? 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: countOf(body?.["output_tokens"]) ?? 0,
    reasoningTokens: 0,
    isEstimated: false,
  };
  if (text === "")
    return itemFailure("permanent", "empty_output", `${name}: the token limit left no room`, usage);
  const finish = body?.["finish"] === "length" ? "length" : "stop";
  return success({ text, usage }, finish);
}

function tokensOf(units: number): number {
  return Math.ceil(units / UNITS_PER_TOKEN);
}

function cut(text: string, units: number): string {
  const last = text.charCodeAt(units - 1);
  const splitsPair = units < text.length && last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splitsPair ? units - 1 : units);
}
