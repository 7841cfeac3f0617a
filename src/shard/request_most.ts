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
 *   images     the vendor's formula for the largest image that the vendor does not scale down (`imageTokens`)
 *   output     the item's limit (n is at most 1), or the limit that is sent if the item does not have one, and a prediction's tokens
 *   tier       all of this times the price of the requested tier over the list price, if that is above 1
 *
 * Audio, files, server tools, and members that are not known to be free have no such bound. `unbounded` then names the
 * first of them, and the cap refuses the request. Sources: platform.openai.com/docs/guides/images-vision and
 * docs.claude.com/en/docs/build-with-claude/vision, read in November 2026. Answers that exceed their bound raise it
 * (engine/items/cost_bounds.ts).
 *
 * Hot path: once per item; reads each text once (bench/parts/pack.ts).
 */
import { laneFactorOf } from "../price/lane_factors.ts";
import type { Protocol, ProviderSettings } from "../providers/provider.ts";
import { countTokens } from "../tokens/count.ts";
import type { Tokenizer } from "../tokens/models.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import type { JsonValue, ModelRequest } from "../work/request.ts";

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
  const { request, settings, tokenizer, outputLimit } = measured;
  const body = BODY_AS_GIVEN.has(settings.protocol) ? request.openaiBody : undefined;
  const given = body === undefined ? schemaMost(request, settings, tokenizer) : mostOfBody(body, measured);
  const tierFactor = tierOf(body, settings);
  const tier = Math.max(1, tierFactor);
  const input = textTokens(measured) + given.inputTokens;
  const output = (outputLimit > 0 ? outputLimit : OUTPUT_TOKENS_MOST) + given.outputTokens;
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
  const texts = [...request.system, ...request.turns.flatMap((turn) => turn.texts)];
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
    beyondAscii += Buffer.byteLength(text) - found.words - found.signs;
  }
  const ascii = Math.min(words + signs, Math.ceil(countedTokens * ESTIMATE_SLACK) + signs);
  return beyondAscii + ascii + SLACK_TOKENS;
}

/** Counts the ASCII bytes of a text: letters and white space as words, the others as signs. */
function bytesOf(text: string): { readonly words: number; readonly signs: number } {
  let words = 0;
  let signs = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code >= 0x80) continue;
    const lower = code | 0x20;
    if (code <= 0x20 || (lower >= 0x61 && lower <= 0x7a)) words += 1;
    else signs += 1;
  }
  return { words, signs };
}

/** The schema of a request in the neutral shape. */
function schemaMost({ config }: ModelRequest, { protocol }: ProviderSettings, tokenizer: Tokenizer): Beyond {
  const schema = config.responseJsonSchema ?? config.responseSchema;
  if (schema === undefined) return NOTHING_MORE;
  const { most, expected } = structureTokens(schema, tokenizer);
  const inputTokens = most + (protocol === "anthropic" ? CLAUDE_FORMAT_TOKENS : 0);
  return { ...NOTHING_MORE, inputTokens, expectedTokens: expected };
}

interface PartTokens {
  readonly most: number;
  readonly expected: number;
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
    const image = part["type"] === "image_url" ? imageTokens(settings.name, model, part) : undefined;
    if (image === undefined) unbounded ??= partName(part["type"]);
    else add(image);
  }
  return { inputTokens, expectedTokens, outputTokens: 0, unbounded };
}

function partName(type: JsonValue | undefined): string {
  const names = new Map<unknown, string>([
    ["image_url", "an image for a model whose formula is not known"],
    ["input_audio", "audio"],
    ["file", "a file"],
  ]);
  return names.get(type) ?? `a part of type ${JSON.stringify(type)?.slice(0, 40)}`;
}

/**
 * Tokens of one image, by the name of the model. `high` is the most: tiles of 512 pixels after scaling to 2,048 by 768 (8
 * tiles), or patches of 32 pixels up to the model's budget, times its multiplier. `low` is the most at low detail. `square` is an
 * image of 1,024 by 1,024 pixels (4 tiles, or 1,024 patches), which a quote expects because it does not know the size.
 */
const IMAGE_TOKENS: readonly (readonly [RegExp, ImageTokens])[] = [
  [/^gpt-4o-mini/, { high: 2_833 + 8 * 5_667, low: 2_833, square: 2_833 + 4 * 5_667 }],
  [/^gpt-4\.1-(mini|nano)|^o4-mini|^gpt-5-(mini|nano)/, { high: 3_780, low: 3_780, square: 2_520 }],
  [
    /^(gpt-4o|chatgpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-4-vision)/,
    { high: 85 + 8 * 170, low: 85, square: 85 + 4 * 170 },
  ],
  [/^o[1-9]/, { high: 75 + 8 * 150, low: 75, square: 75 + 4 * 150 }],
  [/^gpt-5(-chat|-\d{4}|$)/, { high: 70 + 8 * 140, low: 70, square: 70 + 4 * 140 }],
  // Later models read up to 10,000 patches at their original detail; the dearest multiplier that is known is 2.46.
  [/^gpt-[5-9]/, { high: 24_600, low: 24_600, square: 2_520 }],
  // Up to 1,568 pixels an edge, 2,576 from 4.7 on: width x height / 750, at most.
  [/claude/, { high: 9_000, low: 9_000, square: 1_399 }],
];

interface ImageTokens {
  readonly high: number;
  readonly low: number;
  readonly square: number;
}

/** Tokens of an image part; undefined if the vendor does not publish a formula. */
function imageTokens(provider: string, model: string, part: JsonObject): PartTokens | undefined {
  const name = model.slice(model.lastIndexOf("/") + 1).replace(/^ft:/, "");
  const image = part["image_url"];
  const detail = isObject(image) ? image["detail"] : undefined;
  const found = IMAGE_TOKENS.find(([pattern]) => pattern.test(name))?.[1];
  if (found === undefined || (provider !== "openai" && provider !== "openrouter" && provider !== "azure"))
    return undefined;
  const isLow = detail === "low";
  return {
    most: (isLow ? found.low : found.high) + MESSAGE_TOKENS,
    expected: isLow ? Math.min(found.low, found.square) : found.square,
  };
}

/** Price of the requested tier over the list price. */
export function tierOf(body: JsonObject | undefined, { name }: ProviderSettings): number {
  const tier = body?.["service_tier"];
  return typeof tier === "string" ? laneFactorOf(name, tier).factor : 1;
}

function isPresent(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null;
}
