/**
 * The values of references in a run: its input, and outputs, errors and states of members that have ended.
 *
 * Outputs are read from executions when they are wanted, and only what is referred to is kept.
 *
 * Limit: 1 MiB of JSON for one reference, and for all of a member, as an execution takes no more.
 */
import { ifFound } from "../../errors.ts";
import type { Executions } from "../../satellites/sdk/execution.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import { atMost, type LookUp, ReferenceFault } from "../declaration/fill.ts";
import {
  EVERY,
  type Found,
  follow,
  type PathStep,
  type Reference,
  referencesOf,
} from "../declaration/template.ts";
import { executionIdOf, type MemberState, type StoredCluster } from "./run_record.ts";

export const VALUE_CHARS_MAX: number = 1024 * 1024;

/** What a run knows of itself. */
export interface RunFacts {
  readonly cluster: Pick<StoredCluster, "id" | "project">;
  readonly input: JsonObject;
  readonly executions: Pick<Executions, "execution">;
  /** For `each` over the lines of a file. */
  readonly files: Pick<Files, "read" | "hold">;
  readonly stateOf: (identifier: string) => MemberState;
}

/** Reads what a part of a declaration refers to, once. Throws `ReferenceFault`. */
export async function valuesOf(
  facts: RunFacts,
  part: Json,
  charsMax: number = VALUE_CHARS_MAX,
): Promise<LookUp> {
  const values = new Map<string, Json>();
  const counted = atMost(charsMax, (reference) => values.get(reference.text) ?? null);
  for (const { reference } of referencesOf(part)) {
    if (reference.root === "each" || reference.root === "secrets" || values.has(reference.text)) continue;
    values.set(reference.text, await readValue(facts, reference));
    counted(reference);
  }
  return (reference) => {
    const value = values.get(reference.text);
    if (value === undefined) throw new ReferenceFault(`${reference.text}: is not there`);
    return value;
  };
}

/** The value of a reference now. Throws `ReferenceFault`. */
export async function readValue(facts: RunFacts, reference: Reference): Promise<Json> {
  const { root, steps, text } = reference;
  if (root === "cluster") return facts.cluster.id;
  if (root === "input") return valueIn(follow(facts.input, steps, text));
  const state = facts.stateOf(root);
  const [field, ...rest] = steps;
  if (field === "status") return state.status;
  if (field === "error") return valueIn(follow(errorOf(state), rest, text));
  if (state.fanOut !== undefined) return fanOutValue(facts, reference, state.fanOut.total, rest);
  const output = await outputOf(facts, root);
  return bounded(valueIn(follow(output, rest, text)), reference);
}

/** Element by element, so that what is not referred to is not kept. */
async function fanOutValue(
  facts: RunFacts,
  reference: Reference,
  total: number,
  steps: readonly PathStep[],
): Promise<Json> {
  const [first, ...rest] = steps;
  if (typeof first === "number" && first < total) return elementOutput(facts, reference, first, rest);
  if (first !== undefined && first !== EVERY)
    throw new ReferenceFault(`${reference.text}: there is no ${JSON.stringify(first)} in a list of ${total}`);
  const all: Json[] = [];
  let chars = 0;
  for (let index = 0; index < total; index += 1) {
    const value = await elementOutput(facts, reference, index, rest);
    chars += JSON.stringify(value).length;
    if (chars > VALUE_CHARS_MAX) throw tooLarge(reference);
    all.push(value);
  }
  return all;
}

/** Of one element of a fan-out. Throws `ReferenceFault`. */
export async function elementOutput(
  facts: RunFacts,
  reference: Reference,
  index: number,
  steps: readonly PathStep[],
): Promise<Json> {
  const output = await outputOf(facts, reference.root, index);
  return bounded(valueIn(follow(output, steps, `${reference.text} at element ${index}`)), reference);
}

/** Null without an output: it did not complete, or was never submitted. */
async function outputOf(facts: RunFacts, identifier: string, index?: number): Promise<Json> {
  const id = executionIdOf(facts.cluster, identifier, index);
  return (await ifFound(facts.executions.execution(facts.cluster.project, id)))?.output ?? null;
}

function errorOf({ error }: MemberState): Json {
  if (error === null) return null;
  const { code, message, retryable } = error;
  return { code, message, retryable };
}

/** Throws `ReferenceFault`. */
export function valueIn(found: Found): Json {
  if (found.ok) return found.value;
  throw new ReferenceFault(found.message);
}

function bounded(value: Json, reference: Reference): Json {
  if (JSON.stringify(value).length > VALUE_CHARS_MAX) throw tooLarge(reference);
  return value;
}

function tooLarge({ text }: Reference): ReferenceFault {
  return new ReferenceFault(
    `${text}: is larger than ${VALUE_CHARS_MAX} characters; refer to what you need of it, such as ${text}[*].file_id of a list`,
  );
}
