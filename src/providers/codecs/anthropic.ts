/**
 * The codec of Anthropic's messages (`POST {base}/v1/messages`). Source: @anthropic-ai/sdk 1.11 and its API pages.
 *
 * Version: `2023-06-01` by default. From `2026-10-21` on no model takes `temperature`, `top_p` or `top_k` (400); the
 * older version still serves all models and lets those up to 4.6 take them. The key is `x-api-key` before that version
 * and a bearer token from it on, as in the SDKs of each. Models after 4.6 take default values only
 * in any version, so a setting other than the default is dropped by name, or refused.
 *
 * Reading an answer by `stop_reason`:
 *
 *   end_turn, stop_sequence, tool_use (or unknown)   text or tool calls -> success; none -> ambiguous `empty_output`
 *   max_tokens, model_context_window_exceeded        the same, marked `length`; none -> `empty_output`
 *   refusal                                          the same, marked; none -> permanent `filtered`
 *   pause_turn                                       the same, marked `length`; none -> permanent `unsupported_request`
 */
import { versionedPath, wireAddress } from "../address.ts";
import { anthropicMembers } from "../answer_members.ts";
import { cutOff, declined, ended, paused, type ReadAnswer } from "../endings.ts";
import { errorFacts } from "../error_body.ts";
import { encoded, isHtml, translated } from "../exchange.ts";
import { answerJson, arrayOf, nameOf, objectOf, stringOf } from "../json.ts";
import { anthropicLimits } from "../limits.ts";
import type { Decoded, Provider, ProviderSettings, WireAnswer } from "../provider.ts";
import { itemFailure, refusalInside, refusalOf } from "../refusals.ts";
import { anthropicUsage } from "../usage.ts";
import { anthropicBody, VERSION_2026 } from "./anthropic_body.ts";
import { TOOL_IDS } from "./anthropic_content.ts";
import { Writing } from "./writing.ts";

/** The version sent when the settings do not name one. */
export const ANTHROPIC_VERSION = "2023-06-01";

/** A codec for Anthropic's messages. */
export function anthropicProvider(settings: ProviderSettings): Provider {
  const version = settings.apiVersion ?? ANTHROPIC_VERSION;
  const address = wireAddress(settings, {
    ...credentials(settings.key, version),
    "anthropic-version": version,
  });
  const head = {
    origin: address.origin,
    path: `${versionedPath(address.path, "v1")}/messages${address.search}`,
    headers: address.headers,
  };
  return {
    settings,
    head: () => head,
    encode: (request, model, isCheckOnly) => {
      const read = translated(request, settings.name);
      if ("ok" in read) return read;
      const { defaultMaxOutputTokens: outputTokensDefault } = settings;
      const writing = new Writing(request, settings.name, read.dropped, TOOL_IDS);
      const result = anthropicBody(request, model, { version, outputTokensDefault }, writing);
      if ("message" in result) return { ok: false, code: result.code, message: result.message };
      const target = { settings, model, inserts: writing.inserts };
      const seedPlace = { name: undefined, depth: 1 } as const;
      const made = encoded(result.body, request, result.dropped, target, seedPlace, isCheckOnly);
      return made.ok ? { ...made, outputLimit: result.body.max_tokens } : made;
    },
    decode: (answer) => decode(answer, settings.name),
    limits: anthropicLimits,
  };
}

/** The key is in the header that the SDK of the version uses; sending both headers is refused. */
function credentials(key: string | undefined, version: string): Readonly<Record<string, string>> {
  if (key === undefined) return {};
  return version < VERSION_2026 ? { "x-api-key": key } : { authorization: `Bearer ${key}` };
}

function decode(answer: WireAnswer, name: string): Decoded {
  if (answer.status < 200 || answer.status > 299) return refusalOf(name, answer);
  const body = isHtml(answer) ? undefined : objectOf(answerJson(answer));
  if (body === undefined)
    return itemFailure("ambiguous", "invalid_response", `${name} answered no JSON object`);
  const usage = anthropicUsage(body["usage"]);
  const error = body["error"] ?? undefined;
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  const blocks = arrayOf(body["content"]);
  if (blocks === undefined) {
    return itemFailure("ambiguous", "invalid_response", `${name} answered without content`, usage);
  }
  const tier = nameOf(objectOf(body["usage"])?.["service_tier"]);
  const text = textOf(blocks);
  return outcomeOf(body["stop_reason"], {
    name,
    text,
    members: anthropicMembers(blocks),
    usage,
    tier,
    model: nameOf(body["model"]),
    requestId: nameOf(answer.headers["request-id"] ?? body["id"]),
  });
}

function outcomeOf(reason: unknown, answer: ReadAnswer): Decoded {
  switch (reason) {
    case "max_tokens":
    case "model_context_window_exceeded":
      return cutOff(answer);
    case "refusal":
      return declined(answer);
    case "pause_turn":
      return paused(answer);
    default:
      return ended(answer);
  }
}

/** The text blocks joined; thinking blocks are not the answer. */
function textOf(blocks: readonly unknown[]): string {
  let text = "";
  for (const value of blocks) {
    const block = objectOf(value);
    if (block?.["type"] === "text") text += stringOf(block["text"]) ?? "";
  }
  return text;
}
