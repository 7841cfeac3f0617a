/**
 * Checks a declaration before anything is made of it: shape, references, circles, who may use what, and types.
 *
 * All mistakes are reported at once, each with its place. What only a run can know (the values of references)
 * is checked again when a member is about to start.
 *
 * Number to hold: a cluster of 200 members within 50 ms (`bench/jobs/cluster_check.ts`).
 */
import { PerigeeError } from "../../errors.ts";
import type { ResolvedSatellite, SatelliteResolver } from "../../satellites/sdk/catalogue.ts";
import type { ExecutionCaller } from "../../satellites/sdk/execution.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import { checkFit } from "./check_fit.ts";
import { checkReferences } from "./check_references.ts";
import { warnOfPlainSecrets } from "./check_secrets.ts";
import { checkValues } from "./check_values.ts";
import { type ReadDeclaration, readDeclarationObject } from "./declaration.ts";
import { graphOf } from "./graph.ts";
import type { Issues } from "./issues.ts";
import { type Declaration, MEMBERS, shapeOf } from "./shape.ts";
import { follow, referencesOf } from "./template.ts";

/** A declaration that may be run; `value` is what it was read from. */
export interface CheckedDeclaration {
  readonly value: Json;
  readonly declaration: Declaration;
  readonly needs: ReadonlyMap<string, readonly string[]>;
}

export interface Checked {
  readonly issues: Issues;
  /** Whole only without errors. */
  readonly checked: CheckedDeclaration | undefined;
}

export interface CheckOptions {
  readonly caller: ExecutionCaller;
  readonly resolver: SatelliteResolver;
  /** For `${{ input.path }}`; without it such references are taken on trust. */
  readonly input?: JsonObject | undefined;
}

/** What needs no satellites: shape, names, circles, references. */
export function readShape(object: unknown): ReadShape {
  return shapeAndGraph(readDeclarationObject(object));
}

interface ReadShape {
  readonly issues: Issues;
  readonly value: Json | undefined;
  readonly declaration: Declaration;
  readonly needs: CheckedDeclaration["needs"];
}

function shapeAndGraph({ value, issues }: ReadDeclaration): ReadShape {
  const declaration = value === undefined ? NOTHING : shapeOf(value, issues);
  const { needs } = graphOf(declaration, issues);
  for (const member of declaration.members) checkReferences(member, issues);
  return { issues, value, declaration, needs };
}

const NOTHING: Declaration = { name: undefined, sla: "", members: [] };

/** A declaration that was checked before, as it was stored; undefined when it is not valid. */
export function readChecked(stored: Json): CheckedDeclaration | undefined {
  const { issues, value, declaration, needs } = readShape(stored);
  return issues.isEmpty && value !== undefined ? { value, declaration, needs } : undefined;
}

/** `checked` is there when there are no errors; `source` is YAML, JSON or an object. Throws nothing for what a user wrote. */
export async function checkDeclaration(
  source: string | JsonObject,
  { caller, resolver, input }: CheckOptions,
): Promise<Checked> {
  const read =
    typeof source === "string"
      ? (await import("./yaml_declaration.ts")).readDeclaration(source)
      : readDeclarationObject(source);
  const { issues, value, declaration, needs } = shapeAndGraph(read);
  if (value === undefined) return { issues, checked: undefined };
  if (input !== undefined) checkInput(declaration, input, issues);
  const satellites = await satellitesOf(declaration, { caller, resolver }, issues);
  for (const member of declaration.members) {
    const resolved = satellites.get(member.uses);
    if (resolved !== undefined) await checkValues(member, resolved, issues);
    checkFit(member, { declaration, satellites, resolved }, issues);
    if (resolved !== undefined) warnOfPlainSecrets(member, resolved, issues);
  }
  return { issues, checked: issues.isEmpty ? { value, declaration, needs } : undefined };
}

/** By `uses`; those that are not there, or not for this caller, are issues. */
async function satellitesOf(
  { members }: Declaration,
  { caller, resolver }: CheckOptions,
  issues: Issues,
): Promise<ReadonlyMap<string, ResolvedSatellite>> {
  const found = new Map<string, ResolvedSatellite>();
  const refused = new Map<string, string>();
  for (const { uses, satellite, index } of members) {
    if (satellite.name === "" || found.has(uses)) continue;
    if (!refused.has(uses)) {
      try {
        found.set(uses, await resolver.resolve(caller, satellite));
        continue;
      } catch (error) {
        refused.set(uses, refusal(error, uses));
      }
    }
    issues.add([...MEMBERS, index, "uses"], refused.get(uses) ?? "");
  }
  return found;
}

/** Another project's satellite is reported as one that does not exist. */
function refusal(error: unknown, uses: string): string {
  const code = error instanceof PerigeeError ? error.code : undefined;
  if (code === "not_found") return `there is no satellite ${uses} that this project may use`;
  if (code === "forbidden") return `${uses} needs a key with the beta flag`;
  throw error;
}

function checkInput({ members }: Declaration, input: JsonObject, issues: Issues): void {
  for (const member of members) {
    for (const key of ["each", "input", "config"] as const) {
      const value = member[key];
      if (value === undefined) continue;
      for (const { path, reference } of referencesOf(value, [...MEMBERS, member.index, key])) {
        if (reference.root !== "input") continue;
        const found = follow(input, reference.steps, reference.text);
        if (!found.ok) issues.add(path, found.message);
      }
    }
  }
}
