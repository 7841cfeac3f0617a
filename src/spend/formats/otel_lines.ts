/**
 * OpenTelemetry: spans of generative AI, in OTLP JSON or flat.
 *
 *   resourceSpans > scopeSpans > spans   what the file exporter of the Collector writes, many spans a line
 *   a span                               `attributes` as an array of `{key, value: {stringValue | intValue | ...}}`, or as an object
 *   attributes by themselves             an object with `gen_ai.` names
 *
 * Sources, read in November 2026: https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai), status
 * Development; OTLP's JSON encoding (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): 64-bit numbers are
 * texts, times are Unix nanoseconds. `gen_ai.usage.input_tokens` should include what the cache read and wrote; where it is less
 * than these, it is taken as Anthropic's own count, without them. Names of earlier versions are read too. Spans of agents and
 * workflows repeat the usage of the requests below them and are not counted.
 */
import { arrayOf, objectOf, stringOf, type Unchecked } from "../../providers/json.ts";
import { nameWithout, providerOf, providerOfModel } from "../log_providers.ts";
import type { Refusal, UsageSink } from "../logged_usage.ts";
import { wallMsOf } from "../times.ts";

const INPUT = ["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"] as const;
const OUTPUT = ["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"] as const;
const CACHED = [
  "gen_ai.usage.cache_read.input_tokens",
  "gen_ai.usage.cache_read_input_tokens",
  "gen_ai.usage.cached_tokens",
] as const;
const WRITTEN = [
  "gen_ai.usage.cache_creation.input_tokens",
  "gen_ai.usage.cache_write.input_tokens",
  "gen_ai.usage.cache_creation_input_tokens",
] as const;
const TIERS = ["openai.response.service_tier", "gen_ai.openai.response.service_tier"] as const;
/** Operations that are one request; others sum up requests, or are tools. */
const REQUESTS: readonly unknown[] = [
  "chat",
  "generate_content",
  "text_completion",
  "embeddings",
  "completion",
];

/** `resourceSpans` of a line. */
export function readResourceSpans(line: Unchecked, sink: UsageSink): Refusal {
  let refusal: Refusal;
  let number = 0;
  for (const resource of arrayOf(line["resourceSpans"]) ?? [])
    for (const scope of arrayOf(objectOf(resource)?.["scopeSpans"]) ?? [])
      for (const span of arrayOf(objectOf(scope)?.["spans"]) ?? []) {
        number += 1;
        const found = objectOf(span);
        const wrong = found === undefined ? "not an object" : readSpan(found, sink);
        refusal ??= wrong === undefined ? undefined : `span ${number}: ${wrong}`;
      }
  return refusal;
}

/** A span, or attributes by themselves. */
export function readSpan(span: Unchecked, sink: UsageSink): Refusal {
  const attributes = attributesOf(span);
  const operation = attributes["gen_ai.operation.name"];
  const input = countAt(attributes, INPUT);
  const output = countAt(attributes, OUTPUT);
  if (input === undefined && output === undefined) return without(sink, "other_spans");
  if (operation !== undefined && !REQUESTS.includes(operation)) return without(sink, "summing_spans");
  if (Number.isNaN(input) || Number.isNaN(output)) return "gen_ai.usage tokens are not whole numbers";
  const system = attributes["gen_ai.provider.name"] ?? attributes["gen_ai.system"];
  const model = stringOf(attributes["gen_ai.response.model"]) ?? stringOf(attributes["gen_ai.request.model"]);
  if (model === undefined) return "a GenAI span without gen_ai.request.model";
  const cachedTokens = countAt(attributes, CACHED) || 0;
  const cacheWriteTokens = countAt(attributes, WRITTEN) || 0;
  const apart = cachedTokens + cacheWriteTokens > (input ?? 0) ? cachedTokens + cacheWriteTokens : 0;
  sink.usage({
    format: "otel",
    provider: providerOf(system) || providerOfModel(model),
    model: nameWithout(system, model),
    tier: tierOf(attributes),
    requests: 1,
    isSum: false,
    fromMs: wallMsOf(span["startTimeUnixNano"] ?? span["start_time"] ?? span["startTime"]),
    toMs: wallMsOf(span["endTimeUnixNano"] ?? span["end_time"] ?? span["endTime"]),
    inputTokens: (input ?? 0) + apart,
    cachedTokens,
    cacheWriteTokens,
    hourWriteTokens: 0,
    outputTokens: output ?? 0,
    statedUsd: Number.NaN,
  });
  return undefined;
}

function without(sink: UsageSink, why: "other_spans" | "summing_spans"): undefined {
  sink.without(why);
  return undefined;
}

function tierOf(attributes: Unchecked): string | undefined {
  for (const name of TIERS) {
    const tier = stringOf(attributes[name]);
    if (tier !== undefined) return tier;
  }
  return undefined;
}

/** Attributes by name; a span's own members when it has none. */
function attributesOf(span: Unchecked): Unchecked {
  const given = span["attributes"];
  const list = arrayOf(given);
  if (list === undefined) return objectOf(given) ?? span;
  const found: Record<string, unknown> = {};
  for (const one of list) {
    const attribute = objectOf(one);
    const key = attribute?.["key"];
    if (typeof key !== "string" || !isRead(key)) continue;
    const value = objectOf(attribute?.["value"]);
    found[key] = value?.["stringValue"] ?? value?.["intValue"] ?? value?.["doubleValue"];
  }
  return found;
}

/** The messages of a span, which may be long, are not. */
function isRead(key: string): boolean {
  return key.startsWith("gen_ai.") || key.startsWith("openai.");
}

/** A whole number, also as a text; undefined where none of the names is there, NaN for anything else. */
function countAt(attributes: Unchecked, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = attributes[name];
    if (value === undefined || value === null || value === "") continue;
    const count = Number(value);
    return Number.isSafeInteger(count) && count >= 0 ? count : Number.NaN;
  }
  return undefined;
}
