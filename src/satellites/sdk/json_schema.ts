/**
 * JSON Schema 2020-12, as far as an engine checks values by schemas that others wrote: what is not checked here is
 * checked where the satellite runs, with its own schema.
 *
 * Checked: type, properties, required, additionalProperties, items, prefixItems, enum, const, the bounds of texts,
 * numbers, lists and objects, anyOf, oneOf, allOf, `$ref` into the same schema. Not checked: `pattern` and `format`
 * (an untrusted regular expression may take for ever), `not`, `if`, `$dynamicRef`, and all that is unknown.
 *
 * Limits: a schema has 64 KiB and 32 levels; a check takes 100,000 steps and 128 levels; it lets pass what it did not reach.
 * A step is one comparison, in the value or in the schema: a list of constants against an object counts for each pair,
 * since both are untrusted and their product could block the process.
 */
import { isList, isObject, type Json, type JsonObject, own } from "../../work/json.ts";
import type { Schema } from "./satellite.ts";

const SCHEMA_BYTES_MAX = 64 * 1024;
const SCHEMA_DEPTH_MAX = 32;
const STEPS_MAX = 100_000;
const CHECK_DEPTH_MAX = 128;
const ISSUES_MAX = 50;

interface Issue {
  readonly message: string;
  /** A value that distinguishes choices: another one is meant. */
  readonly isConstant?: boolean;
  readonly path: readonly (string | number)[];
}

/** What keeps a schema from being taken; undefined when nothing does. */
export function faultOfJsonSchema(schema: JsonObject): string | undefined {
  if (isDeep(schema)) return `is nested deeper than ${SCHEMA_DEPTH_MAX} levels`;
  if (Buffer.byteLength(JSON.stringify(schema)) > SCHEMA_BYTES_MAX)
    return `has more than ${SCHEMA_BYTES_MAX} bytes`;
  const type = own(schema, "type");
  if (type !== undefined && type !== "object") return 'describes no object: "type" must be "object"';
  return undefined;
}

/** A schema that checks values and leaves them as they are: defaults are filled in where the satellite runs. */
export function schemaOfJsonSchema<T = JsonObject>(jsonSchema: JsonObject): Schema<T> {
  const converter = (): Record<string, unknown> => ({ ...jsonSchema });
  const standard = {
    version: 1,
    vendor: "perigee",
    validate: (value: unknown) => {
      const issues = isJson(value)
        ? issuesOf(value, jsonSchema)
        : [{ message: "is not JSON", path: [] as readonly string[] }];
      return issues.length === 0 ? { value: value as T } : { issues };
    },
    jsonSchema: { input: converter, output: converter },
  } as const;
  return { "~standard": standard };
}

/** Where a value is not as the schema says, at most 50 places. */
export function issuesOf(value: Json, schema: JsonObject): readonly Issue[] {
  return new Check(schema).of(value, schema, []).slice(0, ISSUES_MAX);
}

type Path = Issue["path"];

class Check {
  readonly #root: JsonObject;
  #steps = 0;
  #depth = 0;

  constructor(root: JsonObject) {
    this.#root = root;
  }

  of(value: Json, schema: Json | undefined, path: Path): readonly Issue[] {
    this.#steps += 1;
    if (this.#steps > STEPS_MAX || this.#depth >= CHECK_DEPTH_MAX) return [];
    if (schema === false) return [{ message: "is not known here", path }];
    if (!isObject(schema)) return [];
    this.#depth += 1;
    const issues = this.#ofObject(value, schema, path);
    this.#depth -= 1;
    return issues;
  }

  #ofObject(value: Json, schema: JsonObject, path: Path): readonly Issue[] {
    const ofType = this.#typeIssues(value, schema, path);
    if (ofType.length > 0) return ofType;
    return [
      ...(this.#isWithinSteps(boundCost(value, schema)) ? boundIssues(value, schema, path) : []),
      ...(isObject(value) ? this.#members(value, schema, path) : []),
      ...(isList(value) ? this.#elements(value, schema, path) : []),
      ...this.#combined(value, schema, path),
    ];
  }

  #typeIssues(value: Json, schema: JsonObject, path: Path): readonly Issue[] {
    const type = own(schema, "type");
    const types = typeof type === "string" ? [type] : listOf(type);
    if (!this.#isWithinSteps(types.length)) return [];
    if (types.length > 0 && !types.some((one) => typeof one === "string" && isOfType(value, one)))
      return [{ message: `must be ${types.join(" or ")}`, path }];
    const constant = own(schema, "const");
    if (constant !== undefined && !this.#isEqual(value, constant))
      return [{ message: `must be ${this.#shown(constant)}`, path, isConstant: true }];
    const known = own(schema, "enum");
    if (known !== undefined && !listOf(known).some((one) => this.#isEqual(value, one)))
      return [{ message: `must be one of ${this.#shown(known)}`, path }];
    return [];
  }

  /** By value; true once the steps are used up. */
  #isEqual(value: Json, constant: Json): boolean {
    if (!this.#isWithinSteps(1) || value === constant) return true;
    if (isList(value) && Array.isArray(constant))
      return (
        value.length === constant.length &&
        value.every((one: Json, index) => this.#isEqual(one, constant[index] as Json)) // of one length
      );
    if (!isObject(value) || !isObject(constant)) return false;
    const names = Object.keys(value);
    if (!this.#isWithinSteps(names.length)) return true;
    return (
      names.length === Object.keys(constant).length &&
      names.every(
        (name) => Object.hasOwn(constant, name) && this.#isEqual(value[name] as Json, constant[name] as Json),
      )
    );
  }

  #shown(constant: Json): string {
    const text = JSON.stringify(constant);
    this.#steps += text.length >> 4;
    return text.slice(0, 200);
  }

  #isWithinSteps(taken: number): boolean {
    this.#steps += taken;
    return this.#steps <= STEPS_MAX;
  }

  #members(value: JsonObject, schema: JsonObject, path: Path): readonly Issue[] {
    const properties = objectOf(own(schema, "properties"));
    const rest = own(schema, "additionalProperties");
    const hasPatterns = own(schema, "patternProperties") !== undefined;
    const required = listOf(own(schema, "required"));
    const missing = (this.#isWithinSteps(required.length) ? required : [])
      .filter((name) => typeof name === "string" && !Object.hasOwn(value, name))
      .map((name) => ({ message: "is required", path: [...path, String(name)] }));
    const wrong = Object.entries(value).flatMap(([name, member]) => {
      if (Object.hasOwn(properties, name)) return this.of(member, properties[name], [...path, name]);
      return hasPatterns ? [] : this.of(member, rest, [...path, name]);
    });
    return [...missing, ...wrong];
  }

  #elements(value: readonly Json[], schema: JsonObject, path: Path): readonly Issue[] {
    const first = listOf(own(schema, "prefixItems"));
    const rest = own(schema, "items");
    const issues: Issue[] = [];
    for (const [index, element] of value.entries()) {
      if (issues.length >= ISSUES_MAX || this.#steps > STEPS_MAX) break;
      const at = index < first.length ? first[index] : rest;
      issues.push(...this.of(element, at, [...path, index]));
    }
    return issues;
  }

  #combined(value: Json, schema: JsonObject, path: Path): readonly Issue[] {
    const target = own(schema, "$ref");
    const referred = typeof target === "string" ? this.of(value, this.#referred(target), path) : [];
    const all = listOf(own(schema, "allOf")).flatMap((one) => this.of(value, one, path));
    const any = [own(schema, "anyOf"), own(schema, "oneOf")].flatMap((choices) =>
      this.#oneOf(value, listOf(choices), path),
    );
    return [...referred, ...all, ...any];
  }

  /** Of choices that all do not fit, the issues of the one that fits best. */
  #oneOf(value: Json, choices: readonly Json[], path: Path): readonly Issue[] {
    let best: readonly Issue[] | undefined;
    for (const choice of choices) {
      const issues = this.of(value, choice, path);
      if (issues.length === 0) return [];
      if (best === undefined || fitOf(issues) > fitOf(best)) best = issues;
    }
    return best ?? [];
  }

  /** `#` and `#/a/b`; what leads nowhere or elsewhere allows everything. */
  #referred(target: string): Json | undefined {
    if (!/^#(\/|$)/.test(target)) return undefined;
    let at: Json | undefined = this.#root;
    for (const part of target.split("/").slice(1)) {
      const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
      if (Array.isArray(at)) at = at[Number(name)];
      else at = isObject(at) ? own(at, name) : undefined;
    }
    return at;
  }
}

/** Steps that the bounds take. */
function boundCost(value: Json, schema: JsonObject): number {
  if (typeof value === "string") return own(schema, "maxLength") === undefined ? 0 : value.length >> 6;
  if (!isObject(value)) return 0;
  const isSized = own(schema, "minProperties") !== undefined || own(schema, "maxProperties") !== undefined;
  return isSized ? Object.keys(value).length : 0;
}

function boundIssues(value: Json, schema: JsonObject, path: Path): readonly Issue[] {
  const issues: Issue[] = [];
  const bound = (name: string, isWithin: (bound: number) => boolean, message: string): void => {
    const found = own(schema, name);
    if (typeof found === "number" && !isWithin(found)) issues.push({ message: `${message} ${found}`, path });
  };
  if (typeof value === "string") {
    // Characters outside the first plane count once or twice, depending on the library: what either takes is let pass.
    bound("minLength", (least) => value.length >= least, "must be no shorter than");
    bound(
      "maxLength",
      (most) => value.length <= most || (value.length <= 2 * most && [...value].length <= most),
      "must be no longer than",
    );
  } else if (typeof value === "number") {
    bound("minimum", (least) => value >= least, "must be no less than");
    bound("maximum", (most) => value <= most, "must be no more than");
    bound("exclusiveMinimum", (least) => value > least, "must be more than");
    bound("exclusiveMaximum", (most) => value < most, "must be less than");
  } else if (isList(value)) {
    bound("minItems", (least) => value.length >= least, "must have no fewer elements than");
    bound("maxItems", (most) => value.length <= most, "must have no more elements than");
  } else if (isObject(value)) {
    const members = Object.keys(value).length;
    bound("minProperties", (least) => members >= least, "must have no fewer members than");
    bound("maxProperties", (most) => members <= most, "must have no more members than");
  }
  return issues;
}

function isOfType(value: Json, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return isList(value);
  return type === "object" ? isObject(value) : typeof value === type;
}

/** The properties of an object with their schemas, those of all choices as well; whether there may be others. */
export function propertiesOf(schema: JsonObject): {
  readonly properties: ReadonlyMap<string, Json>;
  readonly isOpen: boolean;
} {
  const choices = choicesOf(schema).map(propertiesOf);
  const properties = new Map(Object.entries(objectOf(own(schema, "properties"))));
  for (const choice of choices)
    for (const [name, property] of choice.properties)
      if (!properties.has(name)) properties.set(name, property);
  const hasOwn = own(schema, "properties") !== undefined || choices.length === 0;
  const isOpen =
    (hasOwn && own(schema, "additionalProperties") !== false) || choices.some((one) => one.isOpen);
  return { properties, isOpen };
}

/** A schema of an object without some of its properties, in all choices. */
export function withoutProperties(schema: JsonObject, names: readonly string[]): JsonObject {
  const isLeft = (name: Json): boolean => !names.some((fixed) => fixed === name);
  const members = Object.entries(schema).map(([keyword, value]): [string, Json] => {
    if (keyword === "properties" && isObject(value))
      return [keyword, Object.fromEntries(Object.entries(value).filter(([name]) => isLeft(name)))];
    if (keyword === "required") return [keyword, listOf(value).filter(isLeft)];
    if (!CHOICES.includes(keyword)) return [keyword, value];
    return [keyword, listOf(value).map((one) => (isObject(one) ? withoutProperties(one, names) : one))];
  });
  return Object.fromEntries(members);
}

const CHOICES: readonly string[] = ["anyOf", "oneOf", "allOf"];

/** The forms of which a value may have one, or has all: `anyOf`, `oneOf`, `allOf`. */
export function choicesOf(schema: JsonObject): readonly JsonObject[] {
  return CHOICES.flatMap((keyword) => listOf(own(schema, keyword))).filter(isObject);
}

/** By value, in any order of members. */
export function isEqual(one: Json, other: Json): boolean {
  return one === other || (typeof one === typeof other && canonical(one) === canonical(other));
}

/** The same text for the same value; what is deeper than 128 levels is left out. */
export function canonical(value: Json, depth = 0): string {
  if (depth > CHECK_DEPTH_MAX) return "null";
  if (isList(value)) return `[${value.map((one: Json) => canonical(one, depth + 1)).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one, depth + 1)}`).join(",")}}`;
}

function objectOf(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

/** More for a choice that is meant by its constants, then for one that fits down to a deeper place. */
function fitOf(issues: readonly Issue[]): number {
  const isMeant = !issues.some(({ isConstant }) => isConstant === true);
  return Math.max(...issues.map(({ path }) => path.length)) + (isMeant ? 1_000 : 0);
}

/** Values that were read from JSON, or could be written as JSON. */
function isJson(value: unknown): value is Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  return typeof value === "number" ? Number.isFinite(value) : isList(value) || isObject(value);
}

/** Whether it is nested deeper than 32 levels; looks no deeper. */
export function isDeep(value: unknown, depth = 1): boolean {
  if (typeof value !== "object" || value === null) return false;
  return depth > SCHEMA_DEPTH_MAX || Object.values(value).some((one) => isDeep(one, depth + 1));
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
