/**
 * Generation settings, from either layout, checked and under one spelling.
 *
 * Fields and bounds follow Gemini's generationConfig (snake_case or camelCase, proto3 JSON reads both) and OpenAI's
 * chat completions body; names that OpenAI and Anthropic have for the same are read in both. Null counts as absent under a
 * known name, as both say. A setting given under two spellings, of the wrong type or out of its range is `invalid_config`, and so
 * is a name that perigee's layout does not have, even with null; in OpenAI's the codec decides, because servers have members of
 * their own.
 * Answers that this version cannot return are `unsupported_request`: audio, images.
 */
import { suggestion } from "../nearest.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import type { GenerationConfig, JsonValue } from "../work/request.ts";
import { givenTwice, LineFault, mustBe } from "./fault.ts";
import { digitsOf, isText } from "./numbers.ts";

/** Settings with the names of fields that are not understood. */
export interface ReadConfig {
  readonly config: GenerationConfig;
  readonly unknownFields: readonly string[];
}

/** Returns the checked value, undefined when there is nothing to keep. */
type ReadField = (value: JsonValue, name: string) => unknown;

/** From names as written to fields. A Map, because the names are those of the input. */
type Fields = ReadonlyMap<string, { readonly field: string; readonly read: ReadField }>;

/** int32 in Gemini's API, and no model writes more tokens. */
const INT32_MAX = 2 ** 31 - 1;
/** In OpenAI's and Gemini's API. */
const LOGPROBS_MAX = 20;
/** Answers to one item: OpenAI allows 128, Gemini 8. */
const CANDIDATES_MAX = 8;
/** Characters of a name that is not known which are shown. */
const NAME_CHARS_MAX = 64;

const THINKING_FIELDS: Fields = bothSpellings({
  thinkingBudget: integerBetween(-1, INT32_MAX), // -1: the model decides
  thinkingLevel: text,
  includeThoughts: boolean,
});

const GENERATION_FIELDS: Fields = bothSpellings(
  {
    temperature: numberBetween(0, 2),
    topP: numberBetween(0, 1),
    topK: integerBetween(1, INT32_MAX),
    maxOutputTokens: integerBetween(1, INT32_MAX),
    stopSequences: texts,
    seed,
    presencePenalty: numberBetween(-2, 2),
    frequencyPenalty: numberBetween(-2, 2),
    candidateCount: candidates,
    responseMimeType: text,
    responseSchema: schema,
    responseJsonSchema: schema,
    responseLogprobs: ifTrue,
    logprobs: integerBetween(0, LOGPROBS_MAX),
    thinkingConfig: thinking,
    mediaResolution: text,
    responseModalities: textAlone,
    audioTimestamp: unsupported,
    enableAffectiveDialog: unsupported,
    enableEnhancedCivicAnswers: unsupported,
    imageConfig: unsupported,
    modelSelectionConfig: unsupported,
    routingConfig: unsupported,
    speechConfig: unsupported,
  },
  {
    maxTokens: "maxOutputTokens",
    maxCompletionTokens: "maxOutputTokens",
    stop: "stopSequences",
    n: "candidateCount",
    topLogprobs: "logprobs",
  },
);

const OPENAI_FIELDS: Fields = new Map([
  ["temperature", { field: "temperature", read: numberBetween(0, 2) }],
  ["top_p", { field: "topP", read: numberBetween(0, 1) }],
  ["top_k", { field: "topK", read: integerBetween(1, INT32_MAX) }], // vLLM, Together, OpenRouter and others
  ["max_tokens", { field: "maxOutputTokens", read: integerBetween(1, INT32_MAX) }],
  ["max_completion_tokens", { field: "maxOutputTokens", read: integerBetween(1, INT32_MAX) }],
  ["stop", { field: "stopSequences", read: texts }],
  ["seed", { field: "seed", read: seed }],
  ["presence_penalty", { field: "presencePenalty", read: numberBetween(-2, 2) }],
  ["frequency_penalty", { field: "frequencyPenalty", read: numberBetween(-2, 2) }],
  ["n", { field: "candidateCount", read: candidates }],
  ["reasoning_effort", { field: "thinkingConfig", read: reasoningEffort }],
  ["logprobs", { field: "responseLogprobs", read: ifTrue }],
  ["top_logprobs", { field: "logprobs", read: integerBetween(0, LOGPROBS_MAX) }],
  ["modalities", { field: "responseModalities", read: textAlone }],
  ["audio", { field: "audio", read: unsupported }],
]);

/** Of settings that have the same values in both layouts. */
const OPENAI_NAMES: ReadonlyMap<string, string> = new Map([
  ["topP", "top_p"],
  ["topK", "top_k"],
  ["maxOutputTokens", "max_tokens"],
  ["stopSequences", "stop"],
  ["presencePenalty", "presence_penalty"],
  ["frequencyPenalty", "frequency_penalty"],
  ["responseLogprobs", "logprobs"],
  ["candidateCount", "n"],
]);

const NONE: ReadonlySet<string> = new Set();

/** Reads `request.generation_config`, and settings directly in the request. An unknown name is a fault. */
export function readGenerationConfig(
  given: JsonValue | undefined,
  beside: JsonObject | undefined,
): GenerationConfig | LineFault {
  if (given !== undefined && given !== null && !isObject(given))
    return mustBe("generation_config", "an object", given);
  const settings = beside === undefined ? (given ?? {}) : { ...given, ...beside };
  const twice = beside === undefined ? undefined : Object.keys(beside).find((name) => isGiven(given, name));
  if (twice !== undefined) return givenTwice(`generation_config.${twice}`, twice);
  const read = readFields(settings, GENERATION_FIELDS, NONE);
  if (read instanceof LineFault) {
    const { field = "" } = read;
    return beside?.[field] === undefined ? read.in(`generation_config.${field}`) : read;
  }
  const [unknown] = read.unknownFields;
  return unknown === undefined ? read.config : unknownField("generation_config", unknown, SETTING_NAMES);
}

function isGiven(settings: JsonObject | null | undefined, name: string): boolean {
  return settings?.[name] !== undefined && settings[name] !== null;
}

/** Whether it is the name of a setting, under any spelling. */
export function isSetting(name: string): boolean {
  return GENERATION_FIELDS.has(name);
}

/** Names of settings, under all spellings. */
export const SETTING_NAMES: readonly string[] = [...GENERATION_FIELDS.keys()];

/** What OpenAI's body calls a setting; undefined for one that it does not have in this form. */
export function openaiName(name: string): string | undefined {
  if (OPENAI_FIELDS.has(name)) return name;
  const field = GENERATION_FIELDS.get(name)?.field;
  return field === "logprobs" ? "top_logprobs" : OPENAI_NAMES.get(field ?? "");
}

/** A member that is not known, by the path of its object (empty for a line), with the one that was meant. */
export function unknownField(path: string, name: string, known: readonly string[]): LineFault {
  const hint = suggestion(name, known);
  const shown = JSON.stringify(name.length <= NAME_CHARS_MAX ? name : `${name.slice(0, NAME_CHARS_MAX)}...`);
  const place = path === "" ? "the line" : path;
  return new LineFault(
    path === "" ? "invalid_line" : "invalid_config",
    `${shown} is not a known member of ${place}${hint === "" ? "" : `; ${hint}`}`,
  );
}

/** Reads the settings in an OpenAI chat completions body; `otherNames` are its members that are not settings. */
export function readOpenaiConfig(body: JsonObject, otherNames: ReadonlySet<string>): ReadConfig | LineFault {
  const read = readFields(body, OPENAI_FIELDS, otherNames);
  if (read instanceof LineFault) return read;
  const format = readResponseFormat(body["response_format"]);
  if (format instanceof LineFault) return format.in("response_format");
  if (format === undefined) return read;
  return {
    config: { ...read.config, ...format.config },
    unknownFields: [...read.unknownFields, ...format.unknownFields],
  };
}

/** Reads the known fields of an object; the names of the others are returned. A fault names the field. */
function readFields(
  given: JsonObject,
  fields: Fields,
  otherNames: ReadonlySet<string>,
): ReadConfig | LineFault {
  const config: Record<string, unknown> = {};
  const unknownFields: string[] = [];
  for (const name of Object.keys(given)) {
    const value = given[name];
    if (value === undefined || otherNames.has(name)) continue;
    const known = fields.get(name);
    if (known === undefined) {
      unknownFields.push(name);
      continue;
    }
    if (value === null) continue;
    const read = known.read(value, name);
    if (read instanceof LineFault) return read.in(name);
    if (read === undefined) continue;
    if (config[known.field] !== undefined)
      return givenTwice(otherSpelling(given, fields, name), name).in(name);
    config[known.field] = read;
  }
  return { config: config as GenerationConfig, unknownFields }; // every field holds what its reader checked
}

function otherSpelling(given: JsonObject, fields: Fields, name: string): string {
  const field = fields.get(name)?.field;
  return Object.keys(given).find((other) => other !== name && fields.get(other)?.field === field) ?? name;
}

/** `otherNames` are further names of fields. */
function bothSpellings(
  readers: Readonly<Record<string, ReadField>>,
  otherNames: Readonly<Record<string, string>> = {},
): Fields {
  const named = [
    ...Object.entries(readers).map(([field, read]) => ({ name: field, field, read })),
    ...Object.entries(otherNames).map(([name, field]) => ({
      name,
      field,
      read: readers[field] ?? unsupported,
    })),
  ];
  return new Map(
    named.flatMap(({ name, field, read }) => {
      const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
      return [
        [snake, { field, read }],
        [name, { field, read }],
      ];
    }),
  );
}

function numberBetween(min: number, max: number): ReadField {
  return (value, name) => {
    const number = numeric(value);
    return number !== undefined && number >= min && number <= max
      ? number
      : mustBe(name, `a number from ${min} to ${max}`, value);
  };
}

function integerBetween(min: number, max: number): ReadField {
  const range = max === INT32_MAX ? `${min} or more` : `from ${min} to ${max}`;
  return (value, name) => {
    const number = numeric(value);
    return number !== undefined && Number.isInteger(number) && number >= min && number <= max
      ? number
      : mustBe(name, `a whole number, ${range}`, value);
  };
}

/** A seed may be any integer; one that a double cannot hold keeps its digits. */
function seed(value: JsonValue, name: string): unknown {
  const digits = digitsOf(value);
  if (digits !== undefined && /^-?\d+$/.test(digits)) return { digits };
  return typeof value === "number" && Number.isInteger(value) ? value : mustBe(name, "a whole number", value);
}

/** One is the default. */
function candidates(value: JsonValue, name: string): unknown {
  const count = integerBetween(1, CANDIDATES_MAX)(value, name);
  return count === 1 ? undefined : count;
}

function text(value: JsonValue, name: string): unknown {
  return isText(value) ? value : mustBe(name, "a string", value);
}

function texts(value: JsonValue, name: string): unknown {
  if (isText(value)) return [value];
  return Array.isArray(value) && value.every(isText)
    ? value
    : mustBe(name, "a string or an array of strings", value);
}

function boolean(value: JsonValue, name: string): unknown {
  return typeof value === "boolean" ? value : mustBe(name, "true or false", value);
}

/** False is the default of what it is for. */
function ifTrue(value: JsonValue, name: string): unknown {
  return value === false ? undefined : value === true ? true : mustBe(name, "true or false", value);
}

/** `["TEXT"]` is the default; nothing else can be returned. */
function textAlone(value: JsonValue, name: string): unknown {
  const isText = Array.isArray(value) && value.every((one) => String(one).toLowerCase() === "text");
  return isText ? undefined : new LineFault("unsupported_request", `${name}: only text can be returned`);
}

function unsupported(_: JsonValue, name: string): unknown {
  return new LineFault("unsupported_request", `${name} is not supported`);
}

function schema(value: JsonValue, name: string): unknown {
  return isObject(value) ? value : mustBe(name, "an object", value);
}

function thinking(value: JsonValue, name: string): unknown {
  if (!isObject(value)) return mustBe(name, "an object", value);
  const read = readFields(value, THINKING_FIELDS, NONE);
  if (read instanceof LineFault) return read;
  const [unknown] = read.unknownFields;
  if (unknown !== undefined)
    return unknownField(`generation_config.${name}`, unknown, [...THINKING_FIELDS.keys()]);
  return read.config;
}

function reasoningEffort(value: JsonValue, name: string): unknown {
  return isText(value) ? { thinkingLevel: value } : mustBe(name, "a string", value);
}

/**
 * Reads OpenAI's response_format: `text`, `json_object`, or `json_schema` with `json_schema.schema`. Other protocols have no
 * name for a schema and always follow it, so `name` and `strict` are not passed on.
 */
function readResponseFormat(given: JsonValue | undefined): ReadConfig | LineFault | undefined {
  if (given === undefined || given === null) return undefined;
  if (!isObject(given)) return mustBe("response_format", "an object", given);
  const { type, json_schema: named } = given;
  if (type !== "text" && type !== "json_object" && type !== "json_schema")
    return mustBe("response_format.type", "text, json_object or json_schema", type);
  const known = type === "json_schema" ? ["type", "json_schema"] : ["type"];
  const unknownFields = otherNames(given, known, "response_format", "json_schema");
  if (type === "text") return { config: {}, unknownFields };
  if (type === "json_object") return { config: { responseMimeType: "application/json" }, unknownFields };
  if (!isObject(named)) return mustBe("response_format.json_schema", "an object", named);
  const { schema: asked, description } = named;
  if (asked !== undefined && !isObject(asked))
    return mustBe("response_format.json_schema.schema", "an object", asked);
  const inside = otherNames(
    named,
    ["name", "strict", "schema"],
    "response_format.json_schema",
    "description",
  );
  const isDescribed = asked === undefined || !isText(description) || asked["description"] !== undefined;
  const left = isDescribed ? inside : inside.filter((name) => !name.endsWith(".description"));
  const responseJsonSchema = isDescribed ? asked : { ...asked, description };
  return {
    config: {
      responseMimeType: "application/json",
      ...(responseJsonSchema === undefined ? {} : { responseJsonSchema }),
    },
    unknownFields: [...unknownFields, ...left],
  };
}

/** Paths of members with other names than these. The member `nullable` is left out if it is null. */
function otherNames(
  object: JsonObject,
  names: readonly string[],
  path: string,
  nullable: string,
): readonly string[] {
  return Object.keys(object).flatMap((name) =>
    names.includes(name) || (name === nullable && object[name] === null) ? [] : [`${path}.${name}`],
  );
}

/** A finite number; also one with more digits than a double holds, rounded. */
function numeric(value: JsonValue): number | undefined {
  const number = Number(digitsOf(value) ?? (typeof value === "number" ? value : Number.NaN));
  return Number.isFinite(number) ? number : undefined;
}
