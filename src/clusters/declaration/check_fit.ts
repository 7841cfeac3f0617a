/**
 * References against the schemas of what they refer to: members that cannot be there, lists where a text is wanted.
 */

import type { ResolvedSatellite } from "../../satellites/sdk/catalogue.ts";
import {
  type JsonSchema,
  type JsonType,
  jsonSchemaOf,
  SchemaReader,
} from "../../satellites/sdk/schema_reader.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import type { Issues, Path } from "./issues.ts";
import { type Declaration, type DeclaredMember, MEMBERS } from "./shape.ts";
import { EVERY, type FoundReference, type Reference, referencesOf } from "./template.ts";

export interface FitContext {
  readonly declaration: Declaration;
  /** By `uses`. */
  readonly satellites: ReadonlyMap<string, ResolvedSatellite>;
  /** Of the member that is checked. */
  readonly resolved: ResolvedSatellite | undefined;
}

/** What is known of the value of a reference. */
type Known = { readonly types: readonly JsonType[] } | { readonly fault: string } | undefined;

const ERROR_SCHEMA: JsonObject = {
  type: ["object", "null"],
  properties: { code: { type: "string" }, message: { type: "string" }, retryable: { type: "boolean" } },
  additionalProperties: false,
};
const NOUNS: Readonly<Record<JsonType, string>> = {
  null: "null",
  boolean: "true or false",
  number: "a number",
  string: "a text",
  array: "a list",
  object: "an object",
};

/** Adds an issue for each reference of the member to what cannot exist, or to what does not fit its place. */
export function checkFit(member: DeclaredMember, context: FitContext, issues: Issues): void {
  const path: Path = [...MEMBERS, member.index];
  for (const key of ["each", "input", "config"] as const) {
    const value = member[key];
    if (value === undefined) continue;
    for (const found of referencesOf(value, [...path, key])) {
      const known = knownOf(found.reference, context);
      if (known === undefined) continue;
      const fault = "fault" in known ? known.fault : misfit(found, known.types, key, context);
      if (fault !== undefined) issues.add(found.path, fault);
    }
  }
}

function knownOf(reference: Reference, { declaration, satellites }: FitContext): Known {
  const member = declaration.members.find(({ identifier }) => identifier === reference.root);
  const [field, ...steps] = reference.steps;
  if (member === undefined) return undefined;
  if (field === "status") return { types: ["string"] };
  if (field === "error") return typesAt(ERROR_SCHEMA, [ERROR_SCHEMA], steps, reference);
  if (field !== "output") return undefined; // reported by check_references.ts
  const output = jsonSchemaOf(satellites.get(member.uses)?.satellite.output, "output");
  if (member.each === undefined) return typesAt(output, [output], steps, reference);
  return typesAt(output, [{ type: "array", items: output ?? {} }], steps, reference);
}

/** `[*]` makes a list of all that the rest finds. */
function typesAt(
  root: JsonSchema,
  start: readonly JsonSchema[],
  steps: Reference["steps"],
  reference: Reference,
): Known {
  const reader = new SchemaReader(root);
  let at = start;
  for (const step of steps) {
    const next = reader.below(at, step === EVERY ? 0 : (step as string | number)); // the only other kind
    if (next === undefined)
      return { fault: `${reference.text}: there is no ${step === EVERY ? "[*]" : JSON.stringify(step)}` };
    at = next;
  }
  const types = steps.includes(EVERY) ? (["array"] as const) : reader.types(at);
  return types.length === 0 ? undefined : { types };
}

function misfit(
  { path, reference, isWhole }: FoundReference,
  types: readonly JsonType[],
  key: string,
  { resolved }: FitContext,
): string | undefined {
  const is = `${reference.text} is ${types.map((type) => NOUNS[type]).join(" or ")}`;
  if (!isWhole) {
    const isNever = types.every((type) => type === "array" || type === "object");
    return isNever ? `${is}: within a text it must be a text, a number, true or false` : undefined;
  }
  const below = path.slice(MEMBERS.length + 2);
  if (key === "each")
    return below.length > 0 || types.includes("array") || types.includes("object")
      ? undefined
      : `${is}: each needs a list`; // an object may be a reference to a file of lines
  const schema = jsonSchemaOf(
    key === "input" ? resolved?.satellite.input : resolved?.satellite.config,
    "input",
  );
  const wanted = wantedAt(schema, below);
  if (wanted === undefined || wanted.some((type) => types.includes(type))) return undefined;
  return `${is}: ${wanted.map((type) => NOUNS[type]).join(" or ")} is expected`;
}

/** Undefined when anything is, or when the place is one that the satellite does not know. */
function wantedAt(schema: JsonSchema, steps: Path): readonly JsonType[] | undefined {
  if (!isObject(schema)) return undefined;
  const reader = new SchemaReader(schema);
  let at: readonly JsonSchema[] = [schema];
  for (const step of steps) {
    const next = reader.below(at, step);
    if (next === undefined) return undefined;
    at = next;
  }
  const types = reader.types(at);
  return types.length === 0 ? undefined : types;
}
