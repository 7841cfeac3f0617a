/**
 * Members of batches as providers write them, read without trust: ids, times, states and counts.
 */
import { countOf, nameOf, objectOf, parseJson, type Unchecked } from "../json.ts";
import type { WireAnswer } from "../provider.ts";
import { rfc3339Ms } from "../retry_after.ts";
import type { BatchCounts } from "./batch_wire.ts";

/** The key of the tag in the metadata of a batch. */
export const TAG_KEY = "perigee_submission";

/** Seconds after this are read as milliseconds: the year 5138. */
const SECONDS_MAX = 1e11;

/** The value when it can name a batch or a file: printable, not empty, and no step in a path. */
export function idOf(value: unknown): string | undefined {
  const name = nameOf(value);
  return name === undefined || name === "." || name === ".." ? undefined : name;
}

/** A time as Unix time in ms: seconds, milliseconds or RFC 3339. */
export function wallMsOf(value: unknown): number | undefined {
  if (typeof value === "string") return rfc3339Ms(value);
  if (typeof value !== "number" || !(value > 0) || value > Number.MAX_SAFE_INTEGER) return undefined;
  return Math.round(value < SECONDS_MAX ? value * 1_000 : value);
}

/** A state in one spelling: lower case, without the prefix of enumerations. Empty for none. */
export function stateOf(value: unknown): string {
  return (nameOf(value) ?? "").toLowerCase().replace(/^(job|batch)_(state|status)_/, "");
}

/** The counts that are known. A total of 0 is not: no batch is empty, it has not been read yet. */
export function countsOf(total: unknown, succeeded: unknown, failed: unknown): BatchCounts {
  const counts = {
    total: countOf(total) || undefined,
    succeeded: countOf(succeeded),
    failed: countOf(failed),
  };
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined));
}

/** The ids that there are, each once. */
export function idsOf(...values: readonly unknown[]): readonly string[] {
  return [...new Set(values.map(idOf).filter((id) => id !== undefined))];
}

/** The object of a success; not one that is an error. */
export function successOf(answer: WireAnswer): Unchecked | undefined {
  if (answer.status < 200 || answer.status > 299) return undefined;
  return objectOf(parseJson(answer.body));
}
