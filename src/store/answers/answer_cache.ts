/**
 * The cache of answers in a folder: its requests to the thread that has the database (answers_worker.ts).
 *
 *   open -> closed
 *   open -> off       its database failed: nothing is found in it or kept any more, and `onFailure` was called once
 *
 * Answers that are kept while the thread writes wait here and are written together. Limits: 16 MiB of them wait at most, further ones
 * are not kept; an answer has at most 4 MiB. Both are the cache's loss alone: the answers are in their runs' outputs.
 */
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { builtFile } from "../../built_files.ts";
import type {
  AnswersReply,
  AnswersRequest,
  AnswersThreadData,
  CachedAnswer,
  NewAnswer,
} from "./answers_requests.ts";

export type { CachedAnswer } from "./answers_requests.ts";

/** Bytes of a key: SHA-256. */
export const ANSWER_KEY_BYTES = 32;

const WAITING_BYTES_MAX = 16 << 20;
const ANSWER_BYTES_MAX = 4 << 20;

/** Port. No call rejects: what fails is not found, or not kept. Calls after `close` find nothing. */
export interface AnswerCache {
  /** The answers of so many keys, end to end, that were kept at `sinceWallMs` (Unix time) or later; undefined where there is none. */
  find(
    keys: Uint8Array,
    moments: { readonly wallMs: number; readonly sinceWallMs: number },
  ): Promise<readonly (CachedAnswer | undefined)[]>;
  /** Keeps an answer; a later `find` finds it. Not waited for. */
  keep(answer: NewAnswer, wallMs: number): void;
  /** Resolves when what was kept is written. May be called twice. */
  close(): Promise<void>;
}

export interface AnswerCacheOptions {
  /** The folder of the cache; made when it does not exist. */
  readonly dir: string;
  /** Bytes of all answers; those not used for longest are deleted beyond. */
  readonly maxBytes: number;
  /** Called with what went wrong, and what that means for the cache; the run continues. */
  readonly onNotice: (message: string) => void;
}

/** Opens the cache. Never rejects: one that cannot be opened is off, and `onNotice` says why. */
export type OpenAnswerCache = (options: AnswerCacheOptions) => Promise<AnswerCache>;

/** That of a folder, shared with other processes. */
export const openAnswerCache: OpenAnswerCache = async ({ dir, maxBytes, onNotice }) => {
  const workerData: AnswersThreadData = { dir: resolve(dir), maxBytes };
  let cache: ThreadedCache;
  try {
    const worker = new Worker(builtFile("answers_thread.mjs"), { execArgv: [], workerData });
    cache = new ThreadedCache(worker, dir, onNotice);
  } catch (error) {
    onNotice(offText(dir, error instanceof Error ? error.message : String(error)));
    return NO_CACHE;
  }
  await cache.opened;
  return cache;
};

/** One that could not be opened. */
const NO_CACHE: AnswerCache = {
  find: (keys) => Promise.resolve(nothingOf(keys)),
  keep: () => undefined,
  close: () => Promise.resolve(),
};

/** A request before it has its id. */
type Unnumbered<R> = R extends AnswersRequest ? Omit<R, "id"> : never;

class ThreadedCache implements AnswerCache {
  /** Settles when the thread has opened the database, or could not. */
  readonly opened: Promise<unknown>;
  readonly #worker: Worker;
  readonly #dir: string;
  readonly #onNotice: (message: string) => void;
  readonly #pending = new Map<number, (reply: AnswersReply | undefined) => void>();
  readonly #exited: Promise<void>;
  #lastId = 0;
  #isOff = false;
  #waiting: { answers: NewAnswer[]; bytes: number; wallMs: number } = { answers: [], bytes: 0, wallMs: 0 };
  #writing: Promise<unknown> | undefined;

  constructor(worker: Worker, dir: string, onNotice: (message: string) => void) {
    this.#worker = worker;
    this.#dir = dir;
    this.#onNotice = onNotice;
    worker.on("message", (reply: AnswersReply) => this.#settle(reply));
    worker.on("error", (error: Error) => this.#turnOff(error.message));
    this.#exited = new Promise((resolveExit) => {
      worker.on("exit", () => {
        this.#turnOff("its thread ended");
        resolveExit();
      });
    });
    this.opened = new Promise((resolveOpened) => {
      this.#pending.set(0, resolveOpened);
    });
  }

  async find(
    keys: Uint8Array,
    moments: { readonly wallMs: number; readonly sinceWallMs: number },
  ): Promise<readonly (CachedAnswer | undefined)[]> {
    this.#write(); // first: what was kept before is found
    const reply = await this.#ask({ kind: "find", keys, ...moments });
    return reply?.kind === "found" ? reply.answers : nothingOf(keys);
  }

  keep(answer: NewAnswer, wallMs: number): void {
    const bytes = answer.answer.length;
    if (this.#isOff || bytes > ANSWER_BYTES_MAX || this.#waiting.bytes + bytes > WAITING_BYTES_MAX) return;
    this.#waiting.answers.push(answer);
    this.#waiting.bytes += bytes;
    this.#waiting.wallMs = wallMs;
    if (this.#writing === undefined) this.#write();
  }

  async close(): Promise<void> {
    while (this.#writing !== undefined || this.#waiting.answers.length > 0) {
      this.#write();
      await this.#writing;
    }
    this.#isOff = true;
    this.#worker.postMessage({ kind: "close", id: 0 } satisfies AnswersRequest); // also if it is off: the thread ends
    await this.#exited;
  }

  #write(): void {
    const { answers, wallMs } = this.#waiting;
    if (answers.length === 0) return;
    this.#waiting = { answers: [], bytes: 0, wallMs: 0 };
    const writing = this.#ask({ kind: "keep", answers, wallMs }).then(() => {
      if (this.#writing !== writing) return;
      this.#writing = undefined;
      this.#write();
    });
    this.#writing = writing;
  }

  #ask(request: Unnumbered<AnswersRequest>): Promise<AnswersReply | undefined> {
    if (this.#isOff) return Promise.resolve(undefined);
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolveReply) => {
      this.#pending.set(id, resolveReply);
      this.#worker.postMessage({ ...request, id });
    });
  }

  #settle(reply: AnswersReply): void {
    if (reply.kind === "failed") this.#turnOff(reply.message);
    if (reply.kind === "note") this.#onNotice(`cache: ${reply.message}`);
    else {
      this.#pending.get(reply.id)?.(reply);
      this.#pending.delete(reply.id);
    }
  }

  #turnOff(reason: string): void {
    if (!this.#isOff) this.#onNotice(offText(this.#dir, reason));
    this.#isOff = true;
    for (const resolveReply of this.#pending.values()) resolveReply(undefined);
    this.#pending.clear();
  }
}

function nothingOf(keys: Uint8Array): readonly undefined[] {
  return Array.from({ length: keys.byteLength / ANSWER_KEY_BYTES }, () => undefined);
}

function offText(dir: string, reason: string): string {
  return `cache: ${dir} is not used: ${reason}; requests are sent as without a cache`;
}
