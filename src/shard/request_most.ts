/**
 * The most tokens that one attempt of a request can use. A cost cap reserves them, and they are in doubt when the end of the
 * attempt is unknown.
 *
 *   text       exact tokenizers: the count + 16
 *              others: a token for each UTF-8 byte beyond ASCII (3 for a CJK character, 2 for a Cyrillic one). For ASCII,
 *              1.5 times the count and a token for each digit and sign (Gemini, Qwen and Mistral do not group digits), at most
 *              a token per byte: byte-level and byte-fallback vocabularies have no token for less than a byte
 *   tools,     the count of their JSON x 1.3 + 32, and 16 for each tool; 512 more for a response schema at Claude
 *   schemas
 *   media      the vendor's formulas (media_tokens.ts)
 *   output     the item's limit, or the limit that is sent if the item does not have one, times the number of answers, and a
 *              prediction's tokens
 *   tier       all of this times the price of the requested tier over the list price, if that is above 1
 *
 * Server tools, members that are not known to be free, and media without a formula have no such bound. `unbounded` then names the
 * first of them, and the cap refuses the request. Answers that exceed their bound raise it (engine/items/cost_bounds.ts).
 *
 * Hot path: once per item; reads each text once (bench/parts/pack.ts).
 */
import { laneFactorOf } from "../price/lane_factors.ts";
import type { Protocol, ProviderSettings } from "../providers/provider.ts";
import { countTokens } from "../tokens/count.ts";
import type { Tokenizer } from "../tokens/models.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import {
  hasOnlyTexts,
  type JsonValue,
  type MediaPart,
  type MediaType,
  type ModelRequest,
  type Turn,
  type TurnPart,
  textsOf,
} from "../work/request.ts";
import { imageSize, imageTokens, type MediaReader, mediaTokens, type PartTokens } from "./media_tokens.ts";

/** Tokens at the provider's list price. In a dearer tier a token counts as more than one. */
export interface RequestMost {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Input tokens that tools, schemas and images are expected to use, besides the texts. */
  readonly beyondTokens: number;
  /** The most input tokens that they can use. */
  readonly beyondTokensMost: number;
  /** Price of the requested tier over the list price. */
  readonly tierFactor: number;
  /** The first part of the request that has no bound, in words; undefined if all parts have one. */
  readonly unbounded: string | undefined;
}

export interface MeasuredRequest {
  readonly request: ModelRequest;
  readonly settings: ProviderSettings;
  /** The model's name at its provider. */
  readonly model: string;
  readonly tokenizer: Tokenizer;
  /** Tokens of the texts, with the tokenizer's factor. */
  readonly countedTokens: number;
  /** The output limit that is sent, in tokens; 0 without one. */
  readonly outputLimit: number;
}

/** Output tokens of an answer without a limit: no provider's model writes more. */
export const OUTPUT_TOKENS_MOST: number = 131_072;
const SLACK_TOKENS = 16;
const MESSAGE_TOKENS = 8;
const ESTIMATE_SLACK = 1.5;
const STRUCTURE_SLACK = 1.3;
const STRUCTURE_TOKENS = 32;
const TOOL_TOKENS = 16;
/** Tokens of the instructions that Claude adds for a response format, without the schema. */
const CLAUDE_FORMAT_TOKENS = 512;
/** Of those that it adds for functions: 313 to 530 by its table (docs.claude.com, tool use, pricing). */
const CLAUDE_TOOLS_TOKENS = 600;

/** Members of a chat completion that cost no tokens, or only those that are counted here. */
const FREE_MEMBERS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "max_tokens",
  "max_completion_tokens",
  "n",
  "stop",
  "stream",
  "stream_options",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "typical_p",
  "seed",
  "random_seed",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
  "logit_bias",
  "logprobs",
  "top_logprobs",
  "user",
  "safety_identifier",
  "safe_prompt",
  "prompt_cache_key",
  "metadata",
  "store",
  "response_format",
  "reasoning",
  "reasoning_effort",
  "reasoning_format",
  "include_reasoning",
  "verbosity",
  "service_tier",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "functions",
  "function_call",
  "prediction",
  "chat_template_kwargs",
]);

/** Protocols that pass on all of a body in OpenAI's layout, with any members. */
const BODY_AS_GIVEN: ReadonlySet<Protocol> = new Set(["openai", "function", "own"]);

/** Returns the most tokens that one attempt of a request can use. */
export function requestMost(measured: MeasuredRequest): RequestMost {
  const { request, settings, outputLimit } = measured;
  const body = BODY_AS_GIVEN.has(settings.protocol) ? request.openaiBody : undefined;
  const given = body === undefined ? mostOfParts(measured) : mostOfBody(body, measured);
  const tierFactor = tierOf(body, settings);
  const tier = Math.max(1, tierFactor);
  const input = textTokens(measured) + given.inputTokens;
  const answers = request.config.candidateCount ?? 1;
  const output = (outputLimit > 0 ? outputLimit : OUTPUT_TOKENS_MOST) * answers + given.outputTokens;
  return {
    inputTokens: Math.ceil(input * tier),
    outputTokens: Math.ceil(output * tier),
    beyondTokens: given.expectedTokens,
    beyondTokensMost: given.inputTokens,
    tierFactor,
    unbounded: given.unbounded,
  };
}

/** Tokens of a request besides its texts: the most, and those expected. */
interface Beyond extends Pick<RequestMost, "inputTokens" | "outputTokens" | "unbounded"> {
  readonly expectedTokens: number;
}

const NOTHING_MORE: Beyond = { inputTokens: 0, expectedTokens: 0, outputTokens: 0, unbounded: undefined };

function textTokens({ request, tokenizer, countedTokens }: MeasuredRequest): number {
  if (!tokenizer.isEstimated) return textsMost([], tokenizer, countedTokens);
  const texts = [...request.system];
  for (const { parts } of request.turns) for (const text of textsOf(parts)) texts.push(text);
  return textsMost(texts, tokenizer, countedTokens) + MESSAGE_TOKENS * (request.turns.length + 1);
}

/** The most tokens of texts that were counted. */
export function textsMost(texts: readonly string[], tokenizer: Tokenizer, countedTokens: number): number {
  if (!tokenizer.isEstimated) return countedTokens + SLACK_TOKENS;
  let words = 0;
  let signs = 0;
  let beyondAscii = 0;
  for (const text of texts) {
    const found = bytesOf(text);
    words += found.words;
    signs += found.signs;
    if (found.words + found.signs < text.length)
      beyondAscii += Buffer.byteLength(text) - found.words - found.signs;
  }
  const ascii = Math.min(words + signs, Math.ceil(countedTokens * ESTIMATE_SLACK) + signs);
  return beyondAscii + ascii + SLACK_TOKENS;
}

/** By code: 1 for letters, spaces and control characters, 0 for other signs. */
const IN_WORDS: Uint8Array = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const lower = code | 0x20;
  return code <= 0x20 || (lower >= 0x61 && lower <= 0x7a) ? 1 : 0;
});

/** Of what is ASCII. Hot: a table is twice as fast as comparing. */
function bytesOf(text: string): { readonly words: number; readonly signs: number } {
  let words = 0;
  let ascii = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code >= 0x80) continue;
    words += IN_WORDS[code] as number;
    ascii += 1;
  }
  return { words, signs: ascii - words };
}

/** What a request in the neutral shape holds besides its texts: a schema, functions, calls, results and media. */
function mostOfParts({ request, settings, model, tokenizer }: MeasuredRequest): Beyond {
  const { config, tools, turns } = request;
  const schema = config.responseJsonSchema ?? config.responseSchema;
  if (schema === undefined && tools === undefined && areTexts(turns)) return NOTHING_MORE; // most items
  const isClaude = settings.protocol === "anthropic";
  const sum = new PartSum();
  if (schema !== undefined) {
    sum.add(structureTokens(schema, tokenizer));
    if (isClaude) sum.addMost(CLAUDE_FORMAT_TOKENS);
  }
  if (tools !== undefined) {
    sum.add(structureTokens(tools as unknown as JsonValue, tokenizer)); // plain data
    sum.addMost(TOOL_TOKENS * tools.length + (isClaude ? CLAUDE_TOOLS_TOKENS : 0));
  }
  const { name: provider, protocol, mediaBytesMax } = settings;
  const reader = { provider, model, protocol, mediaBytesMax, mediaResolution: config.mediaResolution };
  for (const { parts } of turns)
    for (const part of parts) if (typeof part !== "string") addPart(sum, part, tokenizer, reader);
  return sum.beyond();
}

function areTexts(turns: readonly Turn[]): boolean {
  for (const { parts } of turns) if (!hasOnlyTexts(parts)) return false; // hot: no function a request
  return true;
}

function addPart(
  sum: PartSum,
  part: Exclude<TurnPart, string>,
  tokenizer: Tokenizer,
  reader: MediaReader,
): void {
  if (part.kind === "text") return; // counted with the texts
  if (part.kind === "media") {
    const tokens = mediaTokens(part, reader);
    if (tokens === undefined)
      sum.setUnbounded(`${NAMES[part.type]} whose tokens are not known before it is sent`);
    else sum.add(tokens);
    return;
  }
  if (part.kind === "tool_call") {
    sum.add(structureTokens(part as unknown as JsonValue, tokenizer)); // plain data, signatures included
    return;
  }
  const { content, media = [] } = part;
  const list = Array.isArray(content) ? (content as readonly (string | MediaPart)[]) : undefined;
  sum.add(
    structureTokens(list?.filter((one) => typeof one === "string") ?? (content as JsonValue), tokenizer),
  );
  for (const one of [...(list ?? []), ...media])
    if (typeof one !== "string") addPart(sum, one, tokenizer, reader);
}

const NAMES: Readonly<Record<MediaType, string>> = {
  image: "an image",
  document: "a document",
  audio: "audio",
  video: "a video",
};

/** Tokens of parts, added up. */
class PartSum {
  #most = 0;
  #expected = 0;
  #unbounded: string | undefined;

  add({ most, expected }: PartTokens): void {
    this.#most += most;
    this.#expected += expected;
  }

  addMost(tokens: number): void {
    this.#most += tokens;
  }

  /** The first counts. */
  setUnbounded(what: string): void {
    this.#unbounded ??= what;
  }

  beyond(): Beyond {
    return {
      inputTokens: this.#most,
      expectedTokens: this.#expected,
      outputTokens: 0,
      unbounded: this.#unbounded,
    };
  }
}

/** Tokens of JSON that the provider writes into the prompt in its own format. */
export function structureTokens(value: JsonValue, tokenizer: Tokenizer): PartTokens {
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  const counted = countTokens(tokenizer.encoding, text) * tokenizer.factor;
  const slack = tokenizer.isEstimated ? ESTIMATE_SLACK : 1;
  const most = bytes > text.length ? bytes : Math.min(bytes, counted * slack);
  return { most: Math.ceil(most * STRUCTURE_SLACK) + STRUCTURE_TOKENS, expected: Math.ceil(counted) };
}

/** The bound for what an unchanged body holds besides its texts. */
function mostOfBody(body: JsonObject, measured: MeasuredRequest): Beyond {
  const { tokenizer } = measured;
  let unbounded = Object.keys(body).find((name) => isPresent(body[name]) && !FREE_MEMBERS.has(name));
  let inputTokens = 0;
  let expectedTokens = 0;
  for (const name of ["tools", "functions", "response_format"]) {
    const value = body[name];
    if (!isPresent(value)) continue;
    const structure = structureTokens(value as JsonValue, tokenizer);
    inputTokens += structure.most;
    expectedTokens += structure.expected;
    if (name === "response_format") continue;
    const tools = Array.isArray(value) ? value : [];
    inputTokens += TOOL_TOKENS * tools.length;
    if (name === "tools" && !tools.every(isFunction)) unbounded ??= "a tool that the provider runs";
  }
  for (const message of Array.isArray(body["messages"]) ? body["messages"] : []) {
    if (!isObject(message)) continue;
    const most = mostOfMessage(message, measured);
    inputTokens += most.inputTokens;
    expectedTokens += most.expectedTokens;
    unbounded ??= most.unbounded;
  }
  const predicted = isPresent(body["prediction"])
    ? structureTokens(body["prediction"] as JsonValue, tokenizer).most
    : 0;
  return { inputTokens, expectedTokens, outputTokens: predicted, unbounded };
}

function isFunction(tool: JsonValue): boolean {
  return isObject(tool) && (tool["type"] ?? "function") === "function";
}

/** Tokens of a message's tool calls and names, and of the parts of its content that are not text. */
function mostOfMessage(message: JsonObject, { model, settings, tokenizer }: MeasuredRequest): Beyond {
  let inputTokens = 0;
  let expectedTokens = 0;
  const add = ({ most, expected }: PartTokens): void => {
    inputTokens += most;
    expectedTokens += expected;
  };
  let unbounded: string | undefined;
  for (const name of Object.keys(message)) {
    if (name === "content" || name === "role" || !isPresent(message[name])) continue;
    if (name === "audio") unbounded ??= "audio";
    add(structureTokens(message[name] as JsonValue, tokenizer));
  }
  for (const part of Array.isArray(message["content"]) ? message["content"] : []) {
    if (!isObject(part) || part["type"] === "text") continue;
    if (part["type"] === "refusal") {
      add(structureTokens(part, tokenizer));
      continue;
    }
    const tokens = givenMedium(part, { provider: settings.name, model, protocol: settings.protocol });
    if (tokens === undefined) unbounded ??= partName(part["type"]);
    else add(tokens);
  }
  return { inputTokens, expectedTokens, outputTokens: 0, unbounded };
}

/** Tokens of a part of OpenAI's layout that is an image, audio or a file. */
function givenMedium(part: JsonObject, reader: MediaReader): PartTokens | undefined {
  const { type, image_url: image, input_audio: audio, file } = part;
  if (type === "image_url") {
    const url = isObject(image) ? image["url"] : image;
    const base64 = base64In(url);
    const size = base64 === undefined ? undefined : imageSize(base64);
    return imageTokens(reader, isObject(image) ? image["detail"] : undefined, size);
  }
  const isAudio = type === "input_audio";
  const held = isAudio ? audio : file;
  const data = isObject(held) ? held[isAudio ? "data" : "file_data"] : undefined;
  const base64 = isAudio ? data : base64In(data);
  if (typeof base64 !== "string") return undefined;
  return mediaTokens({ kind: "media", type: isAudio ? "audio" : "document", source: { base64 } }, reader);
}

function base64In(address: JsonValue | undefined): string | undefined {
  if (typeof address !== "string" || !address.startsWith("data:")) return undefined;
  return address.slice(address.indexOf(",") + 1);
}

function partName(type: JsonValue | undefined): string {
  const names = new Map<unknown, string>([
    ["image_url", "an image for a model whose formula is not known"],
    ["input_audio", "audio"],
    ["file", "a file"],
  ]);
  return names.get(type) ?? `a part of type ${JSON.stringify(type)?.slice(0, 40)}`;
}

/** Price of the requested tier over the list price. */
export function tierOf(body: JsonObject | undefined, { name }: ProviderSettings): number {
  const tier = body?.["service_tier"];
  return typeof tier === "string" ? laneFactorOf(name, tier).factor : 1;
}

function isPresent(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null;
}
