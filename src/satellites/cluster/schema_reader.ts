/**
 * What a JSON Schema says of the types at a place: enough to find references that cannot fit.
 *
 * Where a schema leaves something open, everything is possible: what is told is told for certain. Schemas come from any
 * library with Standard JSON Schema, such as zod 4.
 */
import type { Json, JsonObject } from "../../work/json.ts";
import { isObject } from "./template.ts";

/** A type of JSON Schema; `integer` is `number` here. */
export type JsonType = "null" | "boolean" | "number" | "string" | "array" | "object";

/** Undefined: anything. */
export type Schema = JsonObject | undefined;

const ALL: readonly JsonType[] = ["null", "boolean", "number", "string", "array", "object"];
/** Levels of `$ref`, `anyOf` and the like. */
const NESTED_MAX = 16;

const known = new WeakMap<object, Map<string, Schema>>();

/** The JSON Schema of a Standard Schema; undefined when it has none. */
export function jsonSchemaOf(schema: object | undefined, side: "input" | "output"): Schema {
  if (schema === undefined) return undefined;
  const sides = known.get(schema) ?? new Map<string, Schema>();
  known.set(schema, sides);
  if (!sides.has(side)) sides.set(side, converted(schema, side));
  return sides.get(side);
}

interface WithJsonSchema {
  readonly "~standard"?: {
    readonly jsonSchema?: Record<string, (options: { readonly target: string }) => unknown>;
  };
}

function converted(schema: object, side: "input" | "output"): Schema {
  const standard = (schema as WithJsonSchema)["~standard"];
  try {
    const found = standard?.jsonSchema?.[side]?.({ target: "draft-2020-12" });
    return found === undefined ? undefined : (JSON.parse(JSON.stringify(found)) as JsonObject); // an object, as the specification says
  } catch {
    return undefined; // a schema with what JSON Schema cannot say
  }
}

/** Schemas as they are read: with the document that `$ref` points into. */
export class SchemaReader {
  readonly #root: Schema;

  constructor(root: Schema) {
    this.#root = root;
  }

  /** What may be at a step below: undefined when nothing can be there; `[undefined]` for anything. */
  below(schemas: readonly Schema[], step: string | number): readonly Schema[] | undefined {
    const found: Schema[] = [];
    for (const schema of schemas.flatMap((one) => this.#branches(one))) {
      const next = this.#stepOf(schema, step);
      if (next === "anything") return [undefined];
      if (next !== "nothing") found.push(next);
    }
    return found.length === 0 ? undefined : found;
  }

  /** The types that are possible. */
  types(schemas: readonly Schema[]): readonly JsonType[] {
    const types = new Set(schemas.flatMap((one) => this.#branches(one)).flatMap((one) => typesOf(one)));
    return ALL.filter((type) => types.has(type));
  }

  /** Alternatives without `$ref`, `anyOf` and `oneOf`. */
  #branches(schema: Schema, nested = 0): readonly Schema[] {
    if (schema === undefined || nested > NESTED_MAX || Object.hasOwn(schema, "allOf")) return [undefined];
    const target = schema["$ref"];
    if (typeof target === "string") return this.#branches(this.#resolve(target), nested + 1);
    const either = schema["anyOf"] ?? schema["oneOf"];
    if (!Array.isArray(either)) return [schema];
    return (either as readonly Json[]).flatMap((one) =>
      this.#branches(isObject(one) ? one : undefined, nested + 1),
    );
  }

  #resolve(target: string): Schema {
    if (!target.startsWith("#")) return undefined;
    let at: Json | undefined = this.#root;
    for (const step of target.slice(1).split("/").slice(1)) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
    }
    return isObject(at) ? at : undefined;
  }

  #stepOf(schema: Schema, step: string | number): Schema | "anything" | "nothing" {
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

function open(schema: Json | undefined): Schema | "anything" {
  return isObject(schema) ? schema : "anything";
}

function typesOf(schema: Schema): readonly JsonType[] {
  if (schema === undefined) return ALL;
  const { type } = schema;
  if (type !== undefined) {
    const names = [type].flat();
    return ALL.filter((name) => names.includes(name) || (name === "number" && names.includes("integer")));
  }
  if (Object.hasOwn(schema, "const")) return [typeOf(schema["const"] as Json)];
  const values = schema["enum"];
  if (Array.isArray(values)) return [...new Set((values as readonly Json[]).map(typeOf))];
  return ALL;
}

function typeOf(value: Json): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value as JsonType; // what JSON has besides
}
