/**
 * What a JSON Schema says of the types at a place: enough to find references that cannot fit.
 *
 * Where a schema leaves something open, everything is possible: what it returns is certain. Schemas come from any
 * library with Standard JSON Schema, such as zod 4.
 */
import { isList, isObject, type Json, type JsonObject } from "../../work/json.ts";

/** A type of JSON Schema; `integer` is `number` here. */
export type JsonType = "null" | "boolean" | "number" | "string" | "array" | "object";

/** Undefined: anything. */
export type JsonSchema = JsonObject | undefined;

const ALL: readonly JsonType[] = ["null", "boolean", "number", "string", "array", "object"];
/** Of one place: `$ref`, `anyOf` and the like. Schemas are untrusted, and may refer to themselves a thousand times over. */
const LOOKED_AT_MAX = 128;

const known = new WeakMap<object, Map<string, JsonSchema>>();

/** The JSON Schema of a Standard Schema; undefined without one. */
export function jsonSchemaOf(schema: object | undefined, side: "input" | "output"): JsonSchema {
  if (schema === undefined) return undefined;
  const sides = known.get(schema) ?? new Map<string, JsonSchema>();
  known.set(schema, sides);
  if (!sides.has(side)) sides.set(side, converted(schema, side));
  return sides.get(side);
}

interface WithJsonSchema {
  readonly "~standard"?: {
    readonly jsonSchema?: Record<string, (options: { readonly target: string }) => unknown>;
  };
}

function converted(schema: object, side: "input" | "output"): JsonSchema {
  const standard = (schema as WithJsonSchema)["~standard"];
  try {
    const found = standard?.jsonSchema?.[side]?.({ target: "draft-2020-12" });
    return found === undefined ? undefined : (JSON.parse(JSON.stringify(found)) as JsonObject); // an object, as the specification says
  } catch {
    return undefined; // a schema with what JSON JsonSchema cannot say
  }
}

/** Schemas as they are read: with the document that `$ref` points into. */
export class SchemaReader {
  readonly #root: JsonSchema;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  /** What may be at a step below: undefined when nothing can be there; `[undefined]` for anything. */
  below(schemas: readonly JsonSchema[], step: string | number): readonly JsonSchema[] | undefined {
    const found = new Set<JsonSchema>();
    for (const schema of this.#branches(schemas)) {
      const next = this.#stepOf(schema, step);
      if (next === "anything") return [undefined];
      if (next !== "nothing") found.add(next);
    }
    return found.size === 0 ? undefined : [...found];
  }

  /** The types that are possible. */
  types(schemas: readonly JsonSchema[]): readonly JsonType[] {
    const types = new Set(this.#branches(schemas).flatMap((one) => typesOf(one)));
    return ALL.filter((type) => types.has(type));
  }

  /** Alternatives without `$ref`, `anyOf` and `oneOf`, each once; anything where they are too many. */
  #branches(schemas: readonly JsonSchema[]): readonly JsonSchema[] {
    const lookedAt = new Set<JsonSchema>(schemas);
    const found: JsonSchema[] = [];
    for (const schema of lookedAt) {
      if (schema === undefined || lookedAt.size > LOOKED_AT_MAX) return [undefined];
      const next = this.#alternatives(schema);
      if (next === undefined) found.push(schema);
      else for (const one of next) lookedAt.add(one); // the loop reaches it
    }
    return found.length === 0 ? [undefined] : found;
  }

  /** Undefined for a schema that does not combine others. */
  #alternatives(schema: JsonObject): readonly JsonSchema[] | undefined {
    if (Object.hasOwn(schema, "allOf")) return [undefined];
    const target = schema["$ref"];
    if (typeof target === "string") return [this.#resolve(target)];
    const either = schema["anyOf"] ?? schema["oneOf"];
    if (!isList(either)) return undefined;
    return either.slice(0, LOOKED_AT_MAX + 1).map((one) => (isObject(one) ? one : undefined));
  }

  #resolve(target: string): JsonSchema {
    if (!target.startsWith("#")) return undefined;
    let at: Json | undefined = this.#root;
    for (const step of target.slice(1).split("/").slice(1)) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
    }
    return isObject(at) ? at : undefined;
  }

  #stepOf(schema: JsonSchema, step: string | number): JsonSchema | "anything" | "nothing" {
    if (schema === undefined) return "anything";
    const types = typesOf(schema);
    // What is below null is null.
    if (types.length === 1 && types[0] === "null") return schema;
    if (typeof step === "number") {
      if (!types.includes("array")) return "nothing";
      return schema["prefixItems"] === undefined ? open(schema["items"]) : "anything";
    }
    if (!types.includes("object")) return "nothing";
    const properties = schema["properties"];
    if (isObject(properties) && Object.hasOwn(properties, step)) return open(properties[step]);
    if (schema["patternProperties"] !== undefined) return "anything";
    return schema["additionalProperties"] === false ? "nothing" : open(schema["additionalProperties"]);
  }
}

function open(schema: Json | undefined): JsonSchema | "anything" {
  return isObject(schema) ? schema : "anything";
}

function typesOf(schema: JsonSchema): readonly JsonType[] {
  if (schema === undefined) return ALL;
  const { type } = schema;
  if (type !== undefined) {
    const names = [type].flat();
    return ALL.filter((name) => names.includes(name) || (name === "number" && names.includes("integer")));
  }
  if (Object.hasOwn(schema, "const")) return [typeOf(schema["const"] as Json)];
  const values = schema["enum"];
  if (isList(values)) return [...new Set(values.map(typeOf))];
  return ALL;
}

function typeOf(value: Json): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value as JsonType; // what JSON has besides
}
