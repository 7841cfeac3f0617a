/**
 * What the main thread and the cache's thread say to each other: plain data. The thread answers in the order of the requests;
 * reply 0 is that of the opening.
 */

/** What is known of a request. */
export interface CachedAnswer {
  /** As it was kept. */
  readonly answer: string;
  /** Who kept it. */
  readonly origin: string;
}

/** An answer to keep. */
export interface NewAnswer extends CachedAnswer {
  readonly key: Uint8Array;
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
  | {
      readonly kind: "keep";
      readonly id: number;
      readonly answers: readonly NewAnswer[];
      readonly wallMs: number;
    }
  | { readonly kind: "close"; readonly id: number };

/** What the thread answers, with the id of the request. */
export type AnswersReply =
  | { readonly kind: "found"; readonly id: number; readonly answers: readonly (CachedAnswer | undefined)[] }
  | { readonly kind: "done"; readonly id: number }
  /** The cache is off from now on. */
  | { readonly kind: "failed"; readonly id: number; readonly message: string }
  /** Not a reply: what the operator should know. */
  | { readonly kind: "note"; readonly message: string };
