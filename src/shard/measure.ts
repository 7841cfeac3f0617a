/**
 * From a block of lines to columns of numbers and prepared wire bodies: parse, count, encode, pack.
 *
 *   line -> blank | rejected (with its key where readable) | item (tokens, limit, group, key, body)
 *
 * UTF-8 is checked once for the block, and line by line only when that fails. An exception while a line is worked on
 * (a text that the tokenizer cannot take) rejects that line as `tokenizer_failed`; the others go on.
 *
 * Hot path: at most 12 us of CPU a line of 600 bytes, tokens included (bench/parts/pack.ts).
 */
import { isUtf8 } from "node:buffer";
import { PerigeeError } from "../errors.ts";
import type { Block } from "../jsonl/block.ts";
import { type LayoutOptions, type ParsedLine, parseLine } from "../jsonl/layout.ts";
import { contentEnd } from "../jsonl/lines.ts";
import { restoreNumbers } from "../jsonl/numbers.ts";
import { isFreeProvider } from "../price/rates.ts";
import { outputLimits } from "../providers/codecs/dialects.ts";
import { insertFault, sealed } from "../providers/inserts.ts";
import type { Encoded, Provider, ProviderSettings } from "../providers/provider.ts";
import { createProvider } from "../providers/registry.ts";
import { type ChatTokens, countChat, countTokens } from "../tokens/count.ts";
import { type Tokenizer, tokenizerOf } from "../tokens/models.ts";
import {
  type EndpointRequest,
  hasNoOutput,
  hasOnlyTexts,
  type JsonValue,
  type ModelRequest,
  type Turn,
} from "../work/request.ts";
import { warningsJson } from "../work/warning.ts";
import { isCertain, keyStart, requestKey } from "./answers/request_key.ts";
import { endpointMost, endpointTokens } from "./endpoint_most.ts";
import type { MeasuredBlock } from "./measured.ts";
import { MeasuredColumns, type MeasuredItem } from "./measured_columns.ts";
import { hashOfHashes, hashOfTexts, PREFIX_TOKENS_MIN } from "./prefix_ends.ts";
import { type RequestMost, requestMost } from "./request_most.ts";
import { askingFor, askingInWords, schemaFor } from "./schemas/answer_schema.ts";
import { isSkipped } from "./skip.ts";

/** Plain data: it crosses threads. */
/** What decides how a line is read and counted, the same for a whole run. */
export interface MeasureSettings {
  /** Without keys: nothing here sends. */
  readonly providers: readonly ProviderSettings[];
  /** Bytes of a line at most; a longer one is `line_too_long`. */
  readonly lineBytesMax: number;
  /** Objects and arrays around a value at most. */
  readonly depthMax: number;
  /** Bytes of a key in UTF-8 at most. */
  readonly keyBytesMax: number;
  /** Whether prefixes are found that requests share. Default true. */
  readonly findsPrefixes?: boolean | undefined;
  /** Whether they may be longer than the system instruction. Default true. */
  readonly findsTurns?: boolean | undefined;
}

export interface MeasureOptions {
  /** `<provider>:<name>` for every line, instead of its own. */
  readonly modelOverride?: string | undefined;
  /** Aliases that lines may name as their model, and the model, `<provider>:<name>`, that lines of each are measured for. */
  readonly aliases?: Readonly<Record<string, string>> | undefined;
  /** Of a run under a cost cap, which needs a bound for each item. */
  readonly cap?: CapOptions | undefined;
  /** A JSON Schema as text: what answers must fit of items without their own. */
  readonly schema?: string | undefined;
  /** One bit per line of the block, low bits first; lines whose bit is set are passed over unread. */
  readonly skip?: Uint8Array | undefined;
  /** False to only count: bodies are checked but not kept. */
  readonly wantBodies: boolean;
  /** Whether the block says which requests are the same (`MeasuredBlock.requests`). Default false. */
  readonly wantsKeys?: boolean | undefined;
  /** False to only read keys and find faults: token counts are 0. Default true. */
  readonly wantCounts?: boolean | undefined;
}

/** How a cap bounds what one attempt can cost. */
export interface CapOptions {
  /** The output limit, in tokens, of items without one. */
  readonly outputTokens: number;
  /** Whether what cannot be bounded is sent all the same; else such an item ends as `cost_unbounded`. */
  readonly allowsUnbounded: boolean;
}

type ItemLine = Extract<ParsedLine, { kind: "item" }>;

interface Model {
  /** `<provider>:<name>`. */
  readonly id: string;
  readonly name: string;
  readonly provider: Provider;
  readonly tokenizer: Tokenizer;
  /** Where its provider's prompt cache may have the beginning of a request; of its name: no two models share one. */
  readonly cache:
    | { readonly hash: number; readonly endsAnywhere: boolean; readonly findsTurns: boolean }
    | undefined;
}

const NO_INSERTS: readonly never[] = [];
const UNCOUNTED = { inputTokens: 0, prefixTokens: 0 };

/** Models that are kept ready; a file that names more makes them again. */
const MODELS_KEPT_MAX = 1_000;

/** One per thread: it holds token tables and buffers that are used again. Not for overlapping use. */
export class BlockMeasurer {
  readonly #settings: MeasureSettings;
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #providerNames: ReadonlySet<string>;
  readonly #models = new Map<string, Model>();
  readonly #columns = new MeasuredColumns();
  #schema: { readonly json: string; readonly value: JsonValue } | undefined;

  /** Loads the table of the most frequent encoding; throws `store_damaged` when it cannot be read. */
  constructor(settings: MeasureSettings) {
    countTokens("o200k_base", "warm");
    this.#settings = settings;
    this.#providers = new Map(settings.providers.map((each) => [each.name, createProvider(each)]));
    this.#providerNames = new Set(this.#providers.keys());
  }

  /** Measures every line of the block that is not skipped. The block is only read. Never throws for what a line holds. */
  measure(block: Block, options: MeasureOptions): MeasuredBlock {
    const { bytes, lineCount, firstLine } = block;
    const columns = this.#columns;
    columns.begin(lineCount, options.wantsKeys === true && options.wantBodies);
    const layout = this.#layoutOptions(bytes, options);
    let start = 0;
    for (let index = 0; index < lineCount; index += 1) {
      const found = bytes.indexOf(0x0a, start);
      const end = found === -1 ? bytes.length : found;
      if (!isSkipped(options.skip, index)) {
        const length = contentEnd(bytes, start, end, found !== -1) - start;
        columns.beginLine(firstLine + index, block.offset + start, length);
        this.#measureLine(bytes.subarray(start, start + length), layout, options);
      }
      start = end + 1;
    }
    return columns.finish();
  }

  #layoutOptions(bytes: Uint8Array, options: MeasureOptions): LayoutOptions {
    return {
      providers: this.#providerNames,
      modelOverride: options.modelOverride,
      aliases: options.aliases,
      depthMax: this.#settings.depthMax,
      keyBytesMax: this.#settings.keyBytesMax,
      isUtf8: isUtf8(bytes),
    };
  }

  #measureLine(line: Uint8Array, layout: LayoutOptions, options: MeasureOptions): void {
    const { lineBytesMax } = this.#settings;
    if (line.length > lineBytesMax) {
      const message = `the line has ${line.length} bytes, at most ${lineBytesMax} are allowed`;
      this.#columns.reject(null, "line_too_long", message);
      return;
    }
    let key: string | null = null;
    try {
      const parsed = parseLine(line, layout);
      if (parsed.kind === "blank") {
        this.#columns.addBlank();
      } else if (parsed.kind === "rejected") {
        this.#columns.reject(parsed.key, parsed.code, parsed.message, parsed);
      } else {
        key = parsed.key;
        this.#measureItem(parsed, options);
      }
    } catch (error) {
      if (error instanceof PerigeeError) throw error; // a table is missing: not the line's fault
      const reason = error instanceof Error ? error.message : "unknown reason";
      this.#columns.reject(key, "tokenizer_failed", `the line could not be measured: ${reason}`);
    }
  }

  #measureItem(item: ItemLine, options: MeasureOptions): void {
    const model = this.#model(item);
    const { endpoint } = item.request;
    const codec = endpoint === undefined ? model.provider : model.provider.endpoint?.(endpoint.kind);
    if (codec === undefined) {
      this.#columns.reject(item.key, "unsupported_request", missingEndpoint(item, endpoint?.kind));
      return;
    }
    const { request, encoded } = this.#encoded(item.request, model, codec, options);
    if (!encoded.ok) {
      this.#columns.reject(item.key, encoded.code, encoded.message, encoded);
      return;
    }
    const { inserts = NO_INSERTS } = encoded;
    const fault = insertFault(inserts, model.provider.settings.protocol);
    if (fault !== undefined) {
      this.#columns.reject(item.key, "unsupported_request", fault);
      return;
    }
    const tokens = options.wantCounts === false ? UNCOUNTED : tokensOf(request, model.tokenizer);
    const most = mostOf(request, model, tokens.inputTokens, encoded.outputLimit);
    if (
      most.unbounded !== undefined &&
      options.cap?.allowsUnbounded === false &&
      !isFreeProvider(item.provider)
    ) {
      this.#columns.reject(item.key, "cost_unbounded", unboundedMessage(most.unbounded));
      return;
    }
    const isExact = options.wantBodies && item.hasExactNumbers;
    const body = isExact ? restoreNumbers(encoded.body) : options.wantBodies ? encoded.body : "";
    const hasInserts = inserts.length > 0;
    const isKeyed = options.wantsKeys === true && !hasInserts; // a file may have other content by then
    const { settings } = model.provider;
    const start = isKeyed ? keyStart(settings, model.name, endpoint?.kind) : undefined;
    this.#columns.addItem({
      key: item.key,
      metadata: metadataOf(item),
      schema: ownSchemaOf(item),
      model: model.id,
      alias: item.alias,
      endpoint: endpoint?.kind,
      hasInserts,
      joins: isExact ? undefined : encoded.joins,
      system: request.system,
      isEstimated: model.tokenizer.isEstimated,
      inputTokens: tokens.inputTokens,
      prefixTokens: tokens.prefixTokens,
      leading: options.wantBodies ? leadingOf(model, request, tokens, most.beyondTokens) : undefined,
      maxOutputTokens: request.config.maxOutputTokens ?? 0,
      most,
      warnings: warningsJson(encoded.dropped, item.hasReplacedText),
      body: hasInserts ? sealed(body, inserts) : body,
      requestKey:
        start === undefined
          ? undefined
          : requestKey(start, { body, isExact, schema: ownSchemaOf(item) || (options.schema ?? "") }),
      isCertain: start !== undefined && isCertain(request),
    });
  }

  /** With its schema in the provider's own form, or else in words. */
  #encoded(
    given: ModelRequest,
    { provider: { settings }, name }: Model,
    codec: Pick<Provider, "encode">,
    { cap, schema: common, wantBodies }: MeasureOptions,
  ): { readonly request: ModelRequest; readonly encoded: Encoded } {
    const isChat = given.endpoint === undefined;
    const schema = isChat
      ? schemaFor(given, common === undefined ? undefined : this.#common(common))
      : undefined;
    const asking = schema === undefined ? given : askingFor(given, schema);
    const request = limited(asking, cap, settings);
    const encoded = codec.encode(request, name, !wantBodies);
    if (schema === undefined || !encoded.ok || encoded.leavesSchema !== true) return { request, encoded };
    const inWords = askingInWords(request, schema);
    return { request: inWords, encoded: codec.encode(inWords, name, !wantBodies) };
  }

  /** The schema of a run, which every block has. */
  #common(json: string): JsonValue {
    if (this.#schema?.json !== json) this.#schema = { json, value: JSON.parse(json) as JsonValue };
    return this.#schema.value;
  }

  #model(item: ItemLine): Model {
    const id = `${item.provider}:${item.model}`;
    const known = this.#models.get(id);
    if (known !== undefined) return known;
    const provider = this.#providers.get(item.provider);
    if (provider === undefined) throw new TypeError(`no provider is named ${item.provider}`);
    const tokenizer = tokenizerOf(item.provider, item.model);
    const cache =
      this.#settings.findsPrefixes === false
        ? undefined
        : cacheOf(id, provider.settings, this.#settings.findsTurns ?? true);
    const model = { id, name: item.model, provider, tokenizer, cache };
    if (this.#models.size >= MODELS_KEPT_MAX) this.#models.clear();
    this.#models.set(id, model);
    return model;
  }
}

/**
 * The request as a cap needs it: with an output limit, in a body that is sent unchanged under the name that the provider's
 * dialect takes, and under both where the provider is not known.
 */
function limited(
  request: ModelRequest,
  cap: CapOptions | undefined,
  settings: ProviderSettings,
): ModelRequest {
  if (cap === undefined) return request;
  if (request.endpoint !== undefined) return limitedEndpoint(request, request.endpoint, cap);
  const maxOutputTokens = request.config.maxOutputTokens ?? cap.outputTokens;
  const config = { ...request.config, maxOutputTokens };
  if (settings.protocol !== "openai") return { ...request, config };
  if (request.openaiBody === undefined) return { ...request, config, isLimitSure: true };
  const { max_tokens: _, max_completion_tokens: __, ...body } = request.openaiBody;
  return { ...request, config, openaiBody: { ...body, ...outputLimits(settings.name, maxOutputTokens) } };
}

/** Those with an output have their limit in their body. */
function limitedEndpoint(
  request: ModelRequest,
  endpoint: EndpointRequest,
  { outputTokens }: CapOptions,
): ModelRequest {
  const { kind, body } = endpoint;
  if (hasNoOutput(kind) || request.config.maxOutputTokens !== undefined) return request;
  const limit = kind === "response" ? { max_output_tokens: outputTokens } : { max_tokens: outputTokens };
  return {
    ...request,
    config: { maxOutputTokens: outputTokens },
    endpoint: { ...endpoint, body: { ...body, ...limit } },
  };
}

/** Undefined where no prompt cache is paid for, or none is known. */
function cacheOf(model: string, { name, protocol }: ProviderSettings, findsTurns: boolean): Model["cache"] {
  if (isFreeProvider(name) || protocol === "own" || protocol === "function" || protocol === "echo")
    return undefined;
  return { hash: hashOfTexts([model]), endsAnywhere: protocol !== "anthropic", findsTurns };
}

/** Undefined for a request that is too short for any prompt cache. `beyondTokens`: of tools, schemas and images. */
function leadingOf(
  { cache }: Model,
  request: ModelRequest,
  { inputTokens, prefixTokens }: Pick<MeasuredItem, "inputTokens" | "prefixTokens">,
  beyondTokens: number,
): MeasuredItem["leading"] {
  if (cache === undefined || request.endpoint !== undefined || inputTokens + beyondTokens < PREFIX_TOKENS_MIN)
    return undefined;
  const { openaiBody } = request;
  const turns = cache.findsTurns ? leadingTexts(request.turns) : [];
  const tools = beyondTokens === 0 ? undefined : (openaiBody?.["tools"] ?? request.tools);
  const head = { headHash: cache.hash, headTokens: prefixTokens, tokens: inputTokens };
  const { endsAnywhere } = cache;
  if (!Array.isArray(tools)) return { ...head, turns, endsAnywhere };
  // What media in turns use is not in the head, and is not counted separately here.
  const ofTools = request.turns.every(({ parts }) => hasOnlyTexts(parts)) ? beyondTokens : 0;
  return {
    ...{ turns, endsAnywhere },
    headHash: hashOfHashes(cache.hash, hashOfTexts([JSON.stringify(tools)])),
    headTokens: prefixTokens + ofTools,
    tokens: inputTokens + ofTools,
  };
}

function tokensOf(request: ModelRequest, tokenizer: Tokenizer): ChatTokens {
  const { endpoint } = request;
  if (endpoint === undefined) return countChat(request, tokenizer);
  return { inputTokens: endpointTokens(endpoint, tokenizer), prefixTokens: 0 };
}

function mostOf(
  request: ModelRequest,
  { name, provider: { settings }, tokenizer }: Model,
  countedTokens: number,
  sentLimit: number | undefined,
): RequestMost {
  const { endpoint } = request;
  const outputLimit = sentLimit ?? request.config.maxOutputTokens ?? 0;
  if (endpoint !== undefined)
    return endpointMost({ endpoint, settings, tokenizer, countedTokens, outputLimit });
  return requestMost({ request, settings, model: name, tokenizer, countedTokens, outputLimit });
}

/** The message; the kinds that the provider has are not known here. */
function missingEndpoint({ provider }: ItemLine, kind: string | undefined): string {
  return `provider ${provider} has no endpoint for items of the kind ${kind}; use a model of a provider that has one`;
}

/** The turns before the first that has more than texts: a prefix may end in them. */
function leadingTexts(turns: readonly Turn[]): readonly { role: string; parts: readonly string[] }[] {
  const leading: { role: string; parts: readonly string[] }[] = [];
  for (const { role, parts } of turns) {
    if (!hasOnlyTexts(parts)) break;
    leading.push({ role, parts });
  }
  return leading;
}

function unboundedMessage(what: string): string {
  return `a cost cap cannot bound ${what}: leave it out, or allow unbounded requests`;
}

/** In JSON, with the numbers as in the input. */
function metadataOf({ metadata, hasExactNumbers }: ItemLine): string {
  if (metadata === undefined) return "";
  const json = JSON.stringify(metadata);
  return hasExactNumbers ? restoreNumbers(json) : json;
}

/** What the item says of its answer's schema, `null` included; empty text for nothing. */
function ownSchemaOf({ request: { schema }, hasExactNumbers }: ItemLine): string {
  if (schema === undefined) return "";
  const json = JSON.stringify(schema);
  return hasExactNumbers ? restoreNumbers(json) : json;
}
