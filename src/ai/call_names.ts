/**
 * Names of calls: the same for the same call in each run of a program, so that a call that was answered or is under way is found again.
 *
 *   name = "ai:" SHA-256(name of the program's work, key)                      of a call with a key
 *          "ai:" SHA-256(name of the program's work, key, items)                      of an embedding call with one, because embedMany makes several
 *          "ai:" SHA-256(name of the program's work, item, how-manyth of its kind)    of any other
 *
 * The how-manyth counts identical calls within a process: a prompt that is sampled five times has five answers, and a program that is
 * started again finds them in the order of its calls.
 *
 * Limit: the counts of 200,000 different calls, some 30 MB; that of a call which was not made for longest is forgotten, and begins anew.
 */
import { hash } from "node:crypto";
import type { CalledItem } from "./called_item.ts";
import type { EmbeddedItems } from "./embedding_call.ts";

const CALLS_MAX = 200_000;

/** One for the calls of a process to one engine or service. */
export class CallNames {
  readonly #counts = new Map<string, number>();

  /** `work` is the program's name for its work. */
  nameOf(work: string, { item, key }: CalledItem): string {
    return key === undefined ? this.#counted(work, item) : named([work, "key", key]);
  }

  /** The same for the values of an embedding call. */
  nameOfValues(work: string, { items, key }: EmbeddedItems): string {
    if (key === undefined) return this.#counted(work, items);
    return named([work, "values", key, hash("sha256", JSON.stringify(items), "base64")]);
  }

  #counted(work: string, called: unknown): string {
    const call = hash("sha256", JSON.stringify([work, called]), "base64");
    const count = this.#counts.get(call) ?? 0;
    this.#counts.delete(call); // it is the last from now on
    this.#counts.set(call, count + 1);
    if (this.#counts.size > CALLS_MAX) this.#counts.delete(this.#counts.keys().next().value as string); // there is one
    return named([work, "call", call, count]);
  }
}

function named(parts: readonly (string | number)[]): string {
  return `ai:${hash("sha256", JSON.stringify(parts), "hex")}`;
}
