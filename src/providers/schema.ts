/**
 * Output schemas: Gemini's subset of OpenAPI as plain JSON Schema, and whether a schema is fit for strict decoding.
 *
 *   types in capitals -> lower case        nullable: true -> "null" among the types
 *   propertyOrdering  -> left out          an object with properties -> additionalProperties: false
 *
 * The last is what Gemini does anyway: it generates the listed properties only.
 */
import { isObject } from "../work/json.ts";
import type { GenerationConfig, JsonValue } from "../work/request.ts";

/** A JSON Schema that is an object (not `true` or `false`). */
export type ObjectSchema = Record<string, JsonValue>;

/** The schema of the answer as JSON Schema: `undefined` without one, `null` when it is not an object. */
export function answerSchema(config: GenerationConfig): ObjectSchema | null | undefined {
  const given = config.responseJsonSchema ?? config.responseSchema;
  if (given === undefined) return undefined;
  if (!isObject(given)) return null;
  return config.responseJsonSchema === undefined ? jsonSchemaOf(given) : { ...given };
}

/**
 * Whether OpenAI's `strict` mode takes the schema: every object forbids other properties and requires all its own
 * (https://platform.openai.com/docs/guides/structured-outputs, supported schemas).
 */
export function isStrictSchema(schema: JsonValue): boolean {
  if (Array.isArray(schema)) return schema.every(isStrictSchema);
  if (!isObject(schema)) return true;
  const properties = schema["properties"];
  if (schema["type"] === "object" || isObject(properties)) {
    const names = isObject(properties) ? Object.keys(properties) : [];
    const required = schema["required"];
    if (schema["additionalProperties"] !== false) return false;
    if (!names.every((name) => Array.isArray(required) && required.includes(name))) return false;
  }
  return Object.values(schema).every(isStrictSchema);
}

/** Names of members that hold a schema, a list of schemas, or schemas by name. */
const HOLDS_SCHEMA: ReadonlySet<string> = new Set(["items", "additionalProperties"]);
const HOLDS_LIST: ReadonlySet<string> = new Set(["anyOf", "prefixItems"]);
const HOLDS_BY_NAME: ReadonlySet<string> = new Set(["properties", "$defs", "defs"]);

/** Gemini's subset of OpenAPI as JSON Schema; what is not an object is one without members. */
export function jsonSchemaOf(given: JsonValue): ObjectSchema {
  const schema = isObject(given) ? given : {};
  const result: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(schema)) {
    if (name === "propertyOrdering" || name === "property_ordering" || name === "nullable") continue;
    result.push([name, memberOf(name, value, schema["nullable"] === true)]);
  }
  if (isObject(schema["properties"]) && schema["additionalProperties"] === undefined) {
    result.push(["additionalProperties", false]);
  }
  return Object.fromEntries(result);
}

function memberOf(name: string, value: JsonValue, isNullable: boolean): JsonValue {
  if (name === "type" && typeof value === "string") {
    return isNullable ? [value.toLowerCase(), "null"] : value.toLowerCase();
  }
  if (name === "enum" && isNullable && Array.isArray(value) && !value.includes(null)) return [...value, null];
  if (HOLDS_SCHEMA.has(name)) return translated(value);
  if (HOLDS_LIST.has(name) && Array.isArray(value)) return value.map(translated);
  if (HOLDS_BY_NAME.has(name) && isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, translated(inner)]));
  }
  return value;
}

function translated(value: JsonValue): JsonValue {
  return isObject(value) ? jsonSchemaOf(value) : value;
}
