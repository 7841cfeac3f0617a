/**
 * From the bytes of one line to a request, or to the reason why it is not a request. Each line may have another layout: an item with
 * its key, the same with the item in `request` (interface 2.5), and OpenAI's batch layout (`custom_id`, `body`).
 *
 *   record (UTF-8, depth, JSON, object, members, key) -> names of members -> model -> settings -> contents
 *
 * A line with a readable key keeps it, whatever else is wrong. Never throws, for any bytes.
 *
 * Hot path: a line of 600 bytes in at most 4 us (`bench/parts/read.ts`).
 */
import type { FailureCode } from "../errors.ts";
import { nearest } from "../nearest.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import { meantModel } from "../work/model_owner.ts";
import { type JsonValue, type ModelId, type ModelRequest, parseModelId } from "../work/request.ts";
import { unknownProviderMessage } from "../work/unknown_provider.ts";
import { unknownField } from "./config.ts";
import { isItem, readItem } from "./contents.ts";
import { LineFault, shown, shownKind } from "./fault.ts";
import { isText } from "./numbers.ts";
import { readOpenaiRequest } from "./openai_batch.ts";
import { type RecordOptions, readRecord } from "./record.ts";

export { readKey } from "./record.ts";

export interface LayoutOptions extends RecordOptions, ModelOptions {}

/** What a line's model is read by. */
interface ModelOptions {
  /** Names that may be before the colon of a model. */
  readonly providers: ReadonlySet<string>;
  /** `<provider>:<name>` for every line, instead of its own. */
  readonly modelOverride?: string | undefined;
  /** The provider of models without one in OpenAI's layout. Default `openai`. */
  readonly defaultOpenaiProvider?: string | undefined;
  /** The model that is meant by a name without a provider; it has precedence over OpenAI's models. */
  readonly aliases?: Readonly<Record<string, string>> | undefined;
}

export type ParsedLine =
  | {
      readonly kind: "item";
      readonly key: string;
      readonly provider: string;
      /** The model's name, what follows the first colon. */
      readonly model: string;
      /** What the line calls it, where that is an alias. */
      readonly alias?: string;
      readonly request: ModelRequest;
      /** The caller's own, for its output line. */
      readonly metadata?: JsonObject;
      /** Some text was changed: half surrogate pairs became U+FFFD. */
      readonly hasReplacedText: boolean;
      /** Encoded bodies must pass through `restoreNumbers`, in the thread that parsed the line. */
      readonly hasExactNumbers: boolean;
    }
  | {
      readonly kind: "rejected";
      /** Null when the line has no readable key. */
      readonly key: string | null;
      readonly code: FailureCode;
      readonly message: string;
      /** For `provider_missing`: the name of the provider. */
      readonly provider?: string;
      /** The member of the item that is at fault, as the item calls it; absent where the code says it. */
      readonly field?: string;
    }
  | { readonly kind: "blank" };

/** Members that a line may have. `__proto__` carries nothing: writers that know no better leave it there. */
const LINE_FIELDS = {
  interface: ["key", "request", "metadata"],
  openai: ["custom_id", "method", "url", "body", "metadata", "schema"],
} as const;

/** Longest name of a model, in UTF-16 units; it becomes part of URLs and of every record. */
const MODEL_CHARS_MAX = 256;
/** Aliases that a message names at most. */
const ALIASES_SHOWN_MAX = 8;

/** Reads one line, with or without its line end. */
export function parseLine(bytes: Uint8Array, options: LayoutOptions): ParsedLine {
  const record = readRecord(bytes, options);
  if (record.kind !== "record") return record;
  const { key, object, layout } = record;
  const isFlat = layout === "interface" && object["request"] === undefined && isItem(object);
  const unknown = isFlat ? slaFault(object) : unknownMember(object, LINE_FIELDS[layout]);
  if (unknown !== undefined) return rejected(key, unknown);
  const source = isFlat ? withoutKey(object) : object[layout === "openai" ? "body" : "request"];
  if (!isObject(source)) {
    const name = layout === "openai" ? "body" : "request";
    return rejected(
      key,
      new LineFault("invalid_line", `${name} must be an object, got ${shownKind(source)}`),
    );
  }
  const metadata = readMetadata(object, layout);
  if (metadata instanceof LineFault) return rejected(key, metadata);
  const model = readModel(source["model"], layout, options);
  if (model instanceof LineFault) return rejected(key, model);
  const read = layout === "openai" ? readOpenaiRequest(object) : readItem(source, isFlat ? "" : "request");
  if (read instanceof LineFault) return rejected(key, read);
  const request = withSchema(read, (layout === "openai" ? object : source)["schema"]);
  if (request instanceof LineFault) return rejected(key, request);
  return {
    kind: "item",
    key,
    provider: model.provider,
    model: model.name,
    ...(model.alias === undefined ? {} : { alias: model.alias }),
    request,
    ...(metadata === undefined ? {} : { metadata }),
    hasReplacedText: record.hasReplacedText,
    hasExactNumbers: record.hasExactNumbers || request.hasExactNumbers === true,
  };
}

/** `null`: its answer is not checked. */
function withSchema(request: ModelRequest, schema: JsonValue | undefined): ModelRequest | LineFault {
  if (schema === undefined) return request;
  if (schema !== null && request.endpoint !== undefined)
    return new LineFault(
      "unsupported_request",
      `schema is for answers of chats, and this is an item of the kind ${request.endpoint.kind}: leave it out`,
    );
  if (schema === null || typeof schema === "boolean" || isObject(schema)) return { ...request, schema };
  return new LineFault("invalid_config", `schema must be a JSON Schema, got ${shownKind(schema)}`).in(
    "schema",
  );
}

function unknownMember(line: JsonObject, known: readonly string[]): LineFault | undefined {
  for (const name of Object.keys(line)) {
    if (known.includes(name) || name === "__proto__") continue;
    return slaFault(line) ?? unknownField("", name, known);
  }
  return undefined;
}

function slaFault(line: JsonObject): LineFault | undefined {
  if (!Object.hasOwn(line, "sla")) return undefined;
  return new LineFault("invalid_line", '"sla" is not a known member of the line; set it for the whole run');
}

/** A line that is an item by itself, as that item. */
function withoutKey({ key: _, metadata: __, ...item }: JsonObject): JsonObject {
  return item;
}

/** Of the line; in OpenAI's layout else that of the body, which is sent as well. */
function readMetadata(line: JsonObject, layout: "interface" | "openai"): JsonObject | LineFault | undefined {
  const { metadata } = line;
  if (metadata === undefined || metadata === null) {
    const body = layout === "openai" ? line["body"] : undefined;
    const inBody = isObject(body) ? body["metadata"] : undefined;
    return isObject(inBody) ? inBody : undefined;
  }
  if (isObject(metadata)) return metadata;
  return new LineFault("invalid_line", `metadata must be an object, got ${shownKind(metadata)}`);
}

function readModel(
  given: JsonValue | undefined,
  layout: "interface" | "openai",
  options: ModelOptions,
): (ModelId & { readonly alias?: string }) | LineFault {
  const text = options.modelOverride ?? given;
  if (!isText(text)) return unknownModel(text, layout, options);
  const aliased = aliasedModel(text, options);
  if (aliased !== undefined) return { ...aliased, alias: text };
  const model = parseModelId(text);
  if (model !== undefined && options.providers.has(model.provider)) return checkedName(model);
  const isNameAlone =
    layout === "openai" &&
    options.modelOverride === undefined &&
    text !== "" &&
    !isHalf(text, options) &&
    !isMistyped(model, options);
  if (isNameAlone) {
    const provider = options.defaultOpenaiProvider ?? "openai";
    if (options.providers.has(provider)) return checkedName({ provider, name: text });
    return providerMissing(provider, options);
  }
  if (model === undefined) return unknownModel(text, layout, options);
  return providerMissing(model.provider, options);
}

function providerMissing(name: string, { providers }: ModelOptions): LineFault {
  return new LineFault("provider_missing", unknownProviderMessage(name, providers), name);
}

/** Why an inline item of this model would fail as it is read; undefined when somebody serves it. */
export function modelFault(model: string, providers: ReadonlySet<string>): string | undefined {
  const found = readModel(model, "interface", { providers });
  return found instanceof LineFault ? found.message : undefined;
}

/** `openai:` names a provider and no model; it is not a model of that name. */
function isHalf(text: string, options: ModelOptions): boolean {
  return text.startsWith(":") || (text.endsWith(":") && options.providers.has(text.slice(0, -1)));
}

/** A model's own name may hold colons (`ft:gpt-4o:org`, `llama3:8b`), so only one wrong letter of a provider counts. */
function isMistyped(model: ModelId | undefined, { providers }: ModelOptions): boolean {
  return model !== undefined && nearest(model.provider, providers, 1) !== undefined;
}

/** Undefined for a text that is not an alias, or the alias of a provider that is not configured. */
function aliasedModel(text: string, { aliases, providers }: ModelOptions): ModelId | undefined {
  if (aliases === undefined || !Object.hasOwn(aliases, text)) return undefined;
  const model = parseModelId(aliases[text] ?? "");
  return model !== undefined && providers.has(model.provider) ? model : undefined;
}

function unknownModel(
  found: JsonValue | undefined,
  layout: "interface" | "openai",
  { aliases = {} }: ModelOptions,
): LineFault {
  const names = Object.keys(aliases);
  const expected = layout === "openai" ? "a model's name" : '"<provider>:<name>"';
  const near = isText(found) ? nearest(found, names) : undefined;
  const meant = near === undefined ? meantModel(found) : `; did you mean ${JSON.stringify(near)}?`;
  return new LineFault(
    "unknown_model",
    `model must be ${expected}${orAliases(names)}, got ${shown(found)}${meant}`,
  );
}

/** ` or an alias ("llama-70b")`; empty without any. */
function orAliases(names: readonly string[]): string {
  if (names.length === 0) return "";
  const shownNames = names.slice(0, ALIASES_SHOWN_MAX).map((name) => JSON.stringify(name));
  const more = names.length > ALIASES_SHOWN_MAX ? ", ..." : "";
  return ` or an alias (${shownNames.join(", ")}${more})`;
}

function checkedName(model: ModelId): ModelId | LineFault {
  if (model.name.length > MODEL_CHARS_MAX)
    return new LineFault("unknown_model", `the model's name is longer than ${MODEL_CHARS_MAX} characters`);
  for (let index = 0; index < model.name.length; index++) {
    const code = model.name.charCodeAt(index);
    if (code < 0x20 || code === 0x7f)
      return new LineFault("unknown_model", "the model's name holds a control character");
  }
  return model;
}

function rejected(key: string, { code, message, provider, field }: LineFault): ParsedLine {
  return {
    ...{ kind: "rejected", key, code, message },
    ...(provider === undefined ? {} : { provider }),
    ...(field === undefined ? {} : { field }),
  };
}
