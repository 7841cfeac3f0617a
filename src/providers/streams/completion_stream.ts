/**
 * A streamed completion of OpenAI's protocol: its chunks are passed on as they are, and put together.
 *
 *   open -> ended: [DONE], an error, or a finish reason
 *
 * Source: https://platform.openai.com/docs/api-reference/completions, and `Completion` of openai 6
 */
import { arrayOf, firstByIndex, objectOf, stringOf, type Unchecked } from "../json.ts";
import type { EventReader, StreamChunk } from "./event_reader.ts";
import { OpenaiChunks } from "./openai_chunks.ts";

/** Lists of log probabilities that arrive in parts. */
const LISTS = ["tokens", "token_logprobs", "top_logprobs", "text_offset"] as const;

export class CompletionStream implements EventReader {
  readonly #chunks = new OpenaiChunks();
  #text = "";
  #finish: unknown;
  readonly #logprobs: Partial<Record<(typeof LISTS)[number], unknown[]>> = {};

  get isEnded(): boolean {
    return this.#chunks.isEnded;
  }

  get isDone(): boolean {
    return this.#chunks.isDone;
  }

  read(data: string): readonly StreamChunk[] {
    return this.#chunks.read(data, (choices) => this.#grow(objectOf(firstByIndex(choices))));
  }

  whole(): object {
    return this.#chunks.whole(() => this.seen());
  }

  seen(): object {
    const { id, model, created } = this.#chunks.first;
    const logprobs = Object.keys(this.#logprobs).length === 0 ? null : this.#logprobs;
    const choices = [{ index: 0, text: this.#text, logprobs, finish_reason: this.#finish ?? null }];
    return { id, object: "text_completion", created, model, choices, usage: this.#chunks.usage };
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
    this.#chunks.isEnded ||= this.#finish !== undefined;
  }
}
