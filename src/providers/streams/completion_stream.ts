/**
 * A streamed completion of OpenAI's protocol: its chunks are passed on as they are, and put together.
 *
 *   open -> ended: [DONE], an error, or a finish reason
 *
 * Source: https://platform.openai.com/docs/api-reference/completions, and `Completion` of openai 6
 */
import { arrayOf, firstByIndex, objectOf, stringOf, type Unchecked } from "../json.ts";
import { eventOf } from "./chunks.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";

/** Lists of log probabilities that arrive in parts. */
const LISTS = ["tokens", "token_logprobs", "top_logprobs", "text_offset"] as const;

export class CompletionStream implements EventReader {
  isEnded = false;
  isDone = false;
  #first: Unchecked = {};
  #text = "";
  #finish: unknown;
  #usage: unknown;
  #error: unknown;
  readonly #logprobs: Partial<Record<(typeof LISTS)[number], unknown[]>> = {};

  read(data: string): readonly StreamChunk[] {
    if (data === "[DONE]") {
      this.isEnded = true;
      this.isDone = true;
      return [];
    }
    const chunk = eventOf(data);
    if (chunk === undefined) return [];
    if (this.#first["id"] === undefined) this.#first = chunk;
    this.#usage = objectOf(chunk["usage"]) ?? this.#usage;
    if (chunk["error"] !== undefined && chunk["error"] !== null) {
      this.#error = chunk["error"];
      this.isEnded = true;
      this.isDone = true;
      return [];
    }
    const choices = arrayOf(chunk["choices"]) ?? [];
    this.#grow(objectOf(firstByIndex(choices)));
    const isUsage = choices.length === 0 && objectOf(chunk["usage"]) !== undefined;
    return [{ json: data.includes("\n") ? JSON.stringify(chunk) : data, isUsage }];
  }

  whole(): object {
    if (this.#error === undefined) return this.seen();
    const { id, model } = this.#first;
    return { id, model, error: this.#error, usage: this.#usage };
  }

  seen(): object {
    const { id, model, created } = this.#first;
    const logprobs = Object.keys(this.#logprobs).length === 0 ? null : this.#logprobs;
    const choices = [{ index: 0, text: this.#text, logprobs, finish_reason: this.#finish ?? null }];
    return { id, object: "text_completion", created, model, choices, usage: this.#usage };
  }

  #grow(choice: Unchecked | undefined): void {
    this.#text += stringOf(choice?.["text"]) ?? "";
    const logprobs = objectOf(choice?.["logprobs"]);
    for (const name of LISTS) {
      const more = arrayOf(logprobs?.[name]) ?? [];
      if (more.length === 0) continue;
      const known = this.#logprobs[name] ?? [];
      for (const each of more) known.push(each);
      this.#logprobs[name] = known;
    }
    this.#finish = choice?.["finish_reason"] ?? this.#finish;
    this.isEnded ||= this.#finish !== undefined;
  }
}
