/**
 * The events in which a streamed call is answered: by its endpoint.
 *
 *   begun -> parts, as the provider's arrive -> ended (its item is durable) | failed
 *   begun -> whole (a provider without streams)
 */
import type { StreamChunk } from "../../providers/streams/event_reader.ts";
import type { CallAnswer } from "./calls.ts";

/** An event as its reader gets it. */
export interface StreamEvent {
  /** In JSON. */
  readonly data: string;
  /** Its name, where events of the endpoint have names. */
  readonly name?: string;
}

/** Why a call has no answer, in the words of an error's body. */
export interface StreamFailure {
  readonly code: string;
  readonly message: string;
}

/** The events of one call, in order. */
export interface StreamShape {
  /** Those that a part of the provider's answer becomes. */
  part(chunk: StreamChunk): readonly StreamEvent[];
  /** Those of an answer that did not arrive in parts. */
  whole(answer: CallAnswer): readonly StreamEvent[];
  /** The last ones, once the answer is recorded. */
  ended(answer: CallAnswer): readonly StreamEvent[];
  /** The last ones, in place of an answer. */
  failed(failure: StreamFailure): readonly StreamEvent[];
}

/** The end of chats and completions. */
const DONE: readonly StreamEvent[] = [{ data: "[DONE]" }];

/** Chats and completions: chunks without names, and `[DONE]`; those who did not ask for the usage do not get it. */
export class ChunkShape implements StreamShape {
  readonly #chunksOf: (answer: CallAnswer) => readonly StreamChunk[];
  readonly #wantsUsage: boolean;

  /** `chunksOf`: the chunks of an answer that is whole. */
  constructor(chunksOf: (answer: CallAnswer) => readonly StreamChunk[], wantsUsage: boolean) {
    this.#chunksOf = chunksOf;
    this.#wantsUsage = wantsUsage;
  }

  part({ json, isUsage }: StreamChunk): readonly StreamEvent[] {
    return isUsage && !this.#wantsUsage ? [] : [{ data: json }];
  }

  whole(answer: CallAnswer): readonly StreamEvent[] {
    return [...this.#chunksOf(answer).flatMap((chunk) => this.part(chunk)), ...DONE];
  }

  ended(): readonly StreamEvent[] {
    return DONE;
  }

  failed(error: StreamFailure): readonly StreamEvent[] {
    return [{ data: JSON.stringify({ error }) }];
  }
}
