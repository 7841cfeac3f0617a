/**
 * The key under which an answer is kept in a cache, and whether equal requests have equal answers.
 *
 *   SHA-256( [version, protocol, base URL, API version, own headers, model, endpoint] in JSON, line end, schema, line end, body as sent )
 *
 * Without members of the body that change the price, the speed or the prompt cache, and not the answer. Two requests with the same key are the
 * same request; the same request in another spelling (names in another order) has another key, which costs one more request. The provider's
 * name and its API key are not in it. Work of a project has keys of its own: SHA-256( project, line end, key ). The schema is what the answer is checked against, which the body need not have.
 */
import { createHash } from "node:crypto";
import type { ProviderSettings } from "../../providers/provider.ts";
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";
import { isObject, type Json, type JsonObject } from "../../work/json.ts";
import type { EndpointKind, ModelRequest } from "../../work/request.ts";

/** A higher one forgets all answers: raised when what is sent for a body changes. */
const VERSION = 1;

/** Members of a body beside the request: tiers and prompt caches (OpenAI, Anthropic). */
const OUTER_NAMES: readonly string[] = [
  "service_tier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "cache_control",
];
/** What a body with any of them has in it. */
const OUTER = /"(?:service_tier|prompt_cache_key|prompt_cache_retention|cache_control)"/;

/** What is the same in all keys of a model and endpoint; undefined for providers in this process, whose code may change. */
export function keyStart(
  { protocol, baseUrl, apiVersion, headers }: ProviderSettings,
  model: string,
  endpoint: EndpointKind | undefined,
): string | undefined {
  if (protocol === "own" || protocol === "function") return undefined;
  const own = Object.entries(headers ?? {}).sort(([left], [right]) => (left < right ? -1 : 1));
  return JSON.stringify([VERSION, protocol, baseUrl, apiVersion ?? null, own, model, endpoint ?? "chat"]);
}

/** What is asked. */
export interface AskedRequest {
  /** As it is sent. */
  readonly body: string;
  /** Whether numbers of the body are more exact than JavaScript's: then no member is left out. */
  readonly isExact: boolean;
  /** In JSON, what the answer must fit; empty text for nothing. */
  readonly schema: string;
}

/** The key's 32 bytes. */
export function requestKey(start: string, { body, isExact, schema }: AskedRequest): Uint8Array {
  const plain = isExact || !OUTER.test(body) ? body : withoutOuter(body);
  return createHash("sha256").update(`${start}\n${schema}\n`).update(plain).digest();
}

/** The keys of a project, end to end: others never find an answer under them. Without a project they are as they were. */
export function projectKeys(project: string, keys: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (project === "") return keys;
  const own = new Uint8Array(keys.byteLength);
  for (let start = 0; start < keys.byteLength; start += ANSWER_KEY_BYTES) {
    const key = keys.subarray(start, start + ANSWER_KEY_BYTES);
    if (key.every((byte) => byte === 0)) continue; // it has none
    own.set(createHash("sha256").update(`${project}\n`).update(key).digest(), start);
  }
  return own;
}

/** Whether the request says that its answer is not left to chance: temperature 0, and embeddings and moderations. */
export function isCertain({ config, openaiBody, endpoint }: ModelRequest): boolean {
  if (endpoint === undefined) return (openaiBody?.["temperature"] ?? config.temperature) === 0;
  const { kind, body } = endpoint;
  return kind === "embedding" || kind === "moderation" || body["temperature"] === 0;
}

/** Marks of prompt caches are in blocks of the system instruction, of messages and of tools. */
function withoutOuter(text: string): string {
  const body = JSON.parse(text) as Json;
  if (!isObject(body)) return text;
  const plain = unmarked(body, OUTER_NAMES);
  for (const name of ["system", "tools", "messages"]) {
    const list = plain[name];
    if (Array.isArray(list)) plain[name] = list.map((each) => unmarkedBlock(each));
  }
  return JSON.stringify(plain);
}

/** A block, or a message and the blocks of its content. */
function unmarkedBlock(block: Json): Json {
  if (!isObject(block)) return block;
  const plain = unmarked(block, ["cache_control"]);
  const { content } = plain;
  if (Array.isArray(content)) plain["content"] = content.map((each) => unmarkedBlock(each));
  return plain;
}

function unmarked(object: JsonObject, names: readonly string[]): { [name: string]: Json } {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}
