/**
 * Checks the input and config of a satellite in a declaration against the satellite's schemas.
 *
 * Values of references are not known yet: what a schema says of their places is left out, and so is what it says of
 * a whole that holds one, but for names that the satellite does not know.
 */

import { nearest } from "../../nearest.ts";
import type { ResolvedSatellite } from "../../satellites/sdk/catalogue.ts";
import type { Schema } from "../../satellites/sdk/satellite.ts";
import { isList, isObject, type Json, type JsonObject } from "../../work/json.ts";
import { namesSecret } from "./fill.ts";
import type { Issues, Path } from "./issues.ts";
import { type DeclaredMember, MEMBERS } from "./shape.ts";
import { partsOf } from "./template.ts";

/** Adds an issue for each field of input and config that the schemas refuse; both may be references, which are checked at the start. */
export async function checkValues(
  member: DeclaredMember,
  { satellite, fixedConfig }: ResolvedSatellite,
  issues: Issues,
): Promise<void> {
  const path: Path = [...MEMBERS, member.index];
  if (isObject(member.input)) await check(satellite.input, member.input, [...path, "input"], issues);
  if (!isObject(member.config)) return;
  const config = { ...member.config, ...fixedConfig };
  await check(satellite.config, config, [...path, "config"], issues);
}

/** What zod says of an issue beside what the standard has. */
interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
  readonly code?: unknown;
  readonly keys?: unknown;
}

async function check(schema: Schema<unknown>, value: JsonObject, path: Path, issues: Issues): Promise<void> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return;
  const unknown = new Set([...openPaths(value)]);
  for (const issue of result.issues as readonly SchemaIssue[]) {
    const steps = (issue.path ?? []).map((step) => stepOf(step));
    const at = [...path, ...steps];
    if (isAmong(steps, unknown)) continue;
    if (issue.code === "unrecognized_keys" && Array.isArray(issue.keys)) {
      for (const key of issue.keys) issues.add([...at, String(key)], unknownName(String(key), schema), true);
    } else if (isMissing(value, steps)) issues.add(at, "is missing");
    else if (!holdsOne(steps, unknown)) issues.add(at, issue.message.replace(/^Invalid input: /, ""));
  }
}

/** The object exists, and the member does not. */
function isMissing(value: Json, steps: Path): boolean {
  let at: Json | undefined = value;
  for (const [index, step] of steps.entries()) {
    if (!isObject(at) || typeof step === "number") {
      at = isList(at) ? at[Number(step)] : undefined;
      if (at === undefined) return false;
    } else if (!Object.hasOwn(at, step)) return index === steps.length - 1;
    else at = at[step];
  }
  return false;
}

function stepOf(step: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof step === "object" ? step.key : step;
  return typeof key === "number" ? key : String(key);
}

function unknownName(name: string, schema: Schema<unknown>): string {
  const shape = (schema as { readonly shape?: unknown }).shape; // zod's objects have their names
  const near = typeof shape === "object" && shape !== null ? nearest(name, Object.keys(shape)) : undefined;
  return `the satellite takes no ${JSON.stringify(name.slice(0, 64))}${near === undefined ? "" : `; did you mean ${near}?`}`;
}

/** Where texts are not what the satellite will see, as JSON. */
function* openPaths(value: Json, path: Path = []): Generator<string, void, undefined> {
  if (typeof value === "string") {
    const parts = partsOf(value);
    if ("fault" in parts || parts.length > 1 || typeof parts[0] !== "string" || namesSecret(parts))
      yield JSON.stringify(path);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* openPaths(item, [...path, index]);
  } else if (isObject(value)) {
    for (const [name, member] of Object.entries(value)) yield* openPaths(member, [...path, name]);
  }
}

/** At such a place, or below it. */
function isAmong(steps: Path, places: ReadonlySet<string>): boolean {
  return steps.some((_, index) => places.has(JSON.stringify(steps.slice(0, index + 1))));
}

function holdsOne(steps: Path, places: ReadonlySet<string>): boolean {
  const start = JSON.stringify(steps).slice(0, -1);
  return [...places].some((place) => place.startsWith(start) && place.length > start.length + 1);
}
