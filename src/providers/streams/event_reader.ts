/**
 * What the readers of all protocols make of the events of an answer.
 */

/** A chunk of an answer in OpenAI's form. */
export interface StreamChunk {
  /** A `chat.completion.chunk` as JSON. */
  readonly json: string;
  /** Whether it has only the usage, which only callers get that asked for it. */
  readonly isUsage: boolean;
}

/** Reads the events of one answer. */
export interface EventReader {
  /** What an event's data becomes; for data that is not a known event, nothing. */
  read(data: string): readonly StreamChunk[];
  /** Whether the provider said that the answer is whole, or that it failed. */
  readonly isEnded: boolean;
  /** Whether nothing follows, by what the provider said; false where its protocol has no word for it. */
  readonly isDone: boolean;
  /** The answer so far in the provider's own form without streaming; with the error that ended it. */
  whole(): object;
  /** The same without the error. */
  seen(): object;
}
