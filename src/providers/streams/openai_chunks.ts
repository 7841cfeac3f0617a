/**
 * What all streams of OpenAI's chunks have in common: their end, an error in the middle, the usage, and what is passed on.
 *
 *   open -> ended: [DONE] or an error; its reader ends it with its choices
 */
import { arrayOf, objectOf, type Unchecked } from "../json.ts";
import { eventOf } from "./chunks.ts";
import type { StreamChunk } from "./event_reader.ts";

/** One for a stream. */
export class OpenaiChunks {
  /** Whether the answer has arrived. */
  isEnded = false;
  /** Whether nothing more arrives. */
  isDone = false;
  /** The first chunk with an id. */
  first: Unchecked = {};
  usage: unknown;
  tier: unknown;
  #error: unknown;

  /** Reads an event's data; `note` is called with the choices of a chunk. Returns what is passed on. */
  read(data: string, note: (choices: readonly unknown[]) => void): readonly StreamChunk[] {
    const chunk = data === "[DONE]" ? undefined : eventOf(data);
    if (data === "[DONE]") this.#end();
    if (chunk === undefined) return [];
    if (this.first["id"] === undefined) this.first = chunk;
    this.usage = objectOf(chunk["usage"]) ?? this.usage;
    this.tier = chunk["service_tier"] ?? this.tier;
    if (chunk["error"] !== undefined && chunk["error"] !== null) {
      this.#error = chunk["error"];
      this.#end();
      return [];
    }
    const choices = arrayOf(chunk["choices"]) ?? [];
    note(choices);
    const isUsage = choices.length === 0 && objectOf(chunk["usage"]) !== undefined;
    return [{ json: data.includes("\n") ? JSON.stringify(chunk) : data, isUsage }];
  }

  /** The answer as it was seen, or in its place the error that the stream ended with. */
  whole(seen: () => object): object {
    if (this.#error === undefined) return seen();
    const { id, model } = this.first;
    return { id, model, error: this.#error, usage: this.usage };
  }

  #end(): void {
    this.isEnded = true;
    this.isDone = true;
  }
}
