/**
 * What the main thread and the cache's thread say to each other: plain data. The thread answers in the order of the requests;
 * reply 0 is that of the opening.
 */
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";

/** What is known of a request. */
export interface CachedAnswer {
  /** As it was kept. */
  readonly answer: string;
  /** Who kept it. */
  readonly origin: string;
}

/** An answer to keep. */
export interface NewAnswer extends CachedAnswer {
  /** The 32 bytes, one a character. */
  readonly key: string;
}

/** Answers to keep, in columns: copying a thousand objects to another thread takes ten times as long. */
export interface KeptAnswers {
  /** End to end, 32 bytes each. */
  readonly keys: Uint8Array;
  readonly answers: readonly string[];
  readonly origins: readonly string[];
  /** When each was kept, Unix time. */
  readonly wallMs: Float64Array;
}

/** What the thread is started with. */
export interface AnswersThreadData {
  readonly dir: string;
  readonly maxBytes: number;
}

/** What the main thread asks. */
export type AnswersRequest =
  | {
      readonly kind: "find";
      readonly id: number;
      readonly keys: Uint8Array;
      readonly wallMs: number;
      readonly sinceWallMs: number;
    }
  | ({ readonly kind: "keep"; readonly id: number } & KeptAnswers)
  | { readonly kind: "close"; readonly id: number };

/** What the thread answers, with the id of the request. */
export type AnswersReply =
  | { readonly kind: "found"; readonly id: number; readonly answers: readonly (CachedAnswer | undefined)[] }
  | { readonly kind: "done"; readonly id: number }
  /** The cache is off from now on. */
  | { readonly kind: "failed"; readonly id: number; readonly message: string }
  /** Not a reply: what the operator should know. */
  | { readonly kind: "note"; readonly message: string };

/** The answers to keys of which none is found. */
export function nothingFor(keys: Uint8Array): readonly undefined[] {
  return Array.from({ length: keys.byteLength / ANSWER_KEY_BYTES }, () => undefined);
}
