/**
 * Generation settings, from either layout, checked and under one spelling.
 *
 * Fields and bounds follow Gemini's generationConfig (snake_case or camelCase, proto3 JSON reads both) and OpenAI's
 * chat completions body. Null counts as absent, as both say. A setting given under two spellings, of the wrong type
 * or out of its range is `invalid_config`; more than one candidate too, because it multiplies the cost of a line.
 */
import { isObject, type JsonObject } from "../work/json.ts";
import type { GenerationConfig, JsonValue } from "../work/request.ts";
import { givenTwice, LineFault, shown } from "./fault.ts";
import { digitsOf, isText } from "./numbers.ts";

/** Settings with the names of fields that are not understood. */
export interface ReadConfig {
  readonly config: GenerationConfig;
  readonly unknownFields: readonly string[];
}

/** Returns the checked value, undefined when there is nothing to keep; may add to the fields not understood. */
type ReadField = (value: JsonValue, name: string, unknownFields: string[]) => unknown;

/** From names as written to fields. A Map, because the names come from the input. */
type Fields = ReadonlyMap<string, { readonly field: string; readonly read: ReadField }>;

/** int32 in Gemini's API, and no model writes more tokens. */
const INT32_MAX = 2 ** 31 - 1;

const THINKING_FIELDS: Fields = bothSpellings({
  thinkingBudget: integerBetween(-1, INT32_MAX), // -1: the model decides
  thinkingLevel: text,
  includeThoughts: boolean,
});

const GENERATION_FIELDS: Fields = bothSpellings({
  temperature: numberBetween(0, 2),
  topP: numberBetween(0, 1),
  topK: integerBetween(1, INT32_MAX),
  maxOutputTokens: integerBetween(1, INT32_MAX),
  stopSequences: texts,
  seed,
  presencePenalty: numberBetween(-2, 2),
  frequencyPenalty: numberBetween(-2, 2),
  candidateCount: one,
  responseMimeType: text,
  responseSchema: schema,
  responseJsonSchema: schema,
  thinkingConfig: thinking,
});

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
  ["n", { field: "candidateCount", read: one }],
  ["reasoning_effort", { field: "thinkingConfig", read: reasoningEffort }],
]);

const NONE: ReadonlySet<string> = new Set();

/** Reads `request.generation_config`. */
export function readGenerationConfig(given: JsonValue | undefined): ReadConfig | LineFault {
  if (given === undefined || given === null) return { config: {}, unknownFields: [] };
  if (!isObject(given)) return mustBe("generation_config", "an object", given);
  return readFields(given, GENERATION_FIELDS, NONE);
}

/** Reads the settings in an OpenAI chat completions body; `otherNames` are its members that are no settings. */
export function readOpenaiConfig(body: JsonObject, otherNames: ReadonlySet<string>): ReadConfig | LineFault {
  const read = readFields(body, OPENAI_FIELDS, otherNames);
  if (read instanceof LineFault) return read;
  const format = readResponseFormat(body["response_format"]);
  if (format instanceof LineFault) return format;
  if (format === undefined) return read;
  return { config: { ...read.config, ...format }, unknownFields: read.unknownFields };
}

/** Reads the known fields of an object; the names of the others are told. */
function readFields(
  given: JsonObject,
  fields: Fields,
  otherNames: ReadonlySet<string>,
): ReadConfig | LineFault {
  const config: Record<string, unknown> = {};
  const unknownFields: string[] = [];
  for (const name of Object.keys(given)) {
    const value = given[name];
    if (value === undefined || value === null || otherNames.has(name)) continue;
    const known = fields.get(name);
    if (known === undefined) {
      unknownFields.push(name);
      continue;
    }
    const read = known.read(value, name, unknownFields);
    if (read instanceof LineFault) return read;
    if (read === undefined) continue;
    if (config[known.field] !== undefined) return givenTwice(otherSpelling(given, fields, name), name);
    config[known.field] = read;
  }
  return { config: config as GenerationConfig, unknownFields }; // every field holds what its reader checked
}

function otherSpelling(given: JsonObject, fields: Fields, name: string): string {
  const field = fields.get(name)?.field;
  return Object.keys(given).find((other) => other !== name && fields.get(other)?.field === field) ?? name;
}

function bothSpellings(readers: Readonly<Record<string, ReadField>>): Fields {
  return new Map(
    Object.entries(readers).flatMap(([field, read]) => {
      const snake = field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
      return [
        [field, { field, read }],
        [snake, { field, read }],
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

function one(value: JsonValue, name: string): unknown {
  return value === 1 ? undefined : mustBe(name, "1 (more would multiply the cost of the line)", value);
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

function schema(value: JsonValue, name: string): unknown {
  return isObject(value) ? value : mustBe(name, "an object", value);
}

function thinking(value: JsonValue, name: string, unknownFields: string[]): unknown {
  if (!isObject(value)) return mustBe(name, "an object", value);
  const read = readFields(value, THINKING_FIELDS, NONE);
  if (read instanceof LineFault) return read;
  for (const unknown of read.unknownFields) unknownFields.push(`${name}.${unknown}`);
  return read.config;
}

function reasoningEffort(value: JsonValue, name: string): unknown {
  return isText(value) ? { thinkingLevel: value } : mustBe(name, "a string", value);
}

/** OpenAI's response_format: `text`, `json_object`, or `json_schema` with `json_schema.schema`. */
function readResponseFormat(given: JsonValue | undefined): GenerationConfig | LineFault | undefined {
  if (given === undefined || given === null) return undefined;
  if (!isObject(given)) return mustBe("response_format", "an object", given);
  if (given["type"] === "text") return undefined;
  if (given["type"] === "json_object") return { responseMimeType: "application/json" };
  if (given["type"] !== "json_schema")
    return mustBe("response_format.type", "text, json_object or json_schema", given["type"]);
  const named = given["json_schema"];
  if (!isObject(named)) return mustBe("response_format.json_schema", "an object", named);
  const responseJsonSchema = named["schema"];
  if (responseJsonSchema === undefined) return { responseMimeType: "application/json" };
  if (!isObject(responseJsonSchema))
    return mustBe("response_format.json_schema.schema", "an object", responseJsonSchema);
  return { responseMimeType: "application/json", responseJsonSchema };
}

/** A finite number; also one with more digits than a double holds, rounded. */
function numeric(value: JsonValue): number | undefined {
  const number = Number(digitsOf(value) ?? (typeof value === "number" ? value : Number.NaN));
  return Number.isFinite(number) ? number : undefined;
}

function mustBe(name: string, expected: string, value: JsonValue | undefined): LineFault {
  return new LineFault("invalid_config", `${name} must be ${expected}, got ${shown(value)}`);
}
