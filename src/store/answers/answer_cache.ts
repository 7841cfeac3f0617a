/**
 * The cache of answers in a folder: its requests to the thread that has the database (answers_worker.ts).
 *
 *   open -> closed
 *   open -> off       its database failed: nothing is found in it or kept any more, and `onNotice` was called once
 *
 * Answers are written in groups (unwritten_answers.ts), a quarter of a second after the first of a group at the latest; a process that is
 * killed loses those. Limits: an answer has at most 4 MiB. What the cache loses is in the outputs of the runs.
 */

import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { builtFile } from "../../built_files.ts";
import type { Clock, Timer } from "../../clock.ts";
import { messageOf } from "../../errors.ts";
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";
import {
  type AnswersReply,
  type AnswersRequest,
  type AnswersThreadData,
  type CachedAnswer,
  type NewAnswer,
  nothingFor,
} from "./answers_requests.ts";
import { UnwrittenAnswers } from "./unwritten_answers.ts";

export type { CachedAnswer } from "./answers_requests.ts";

const WRITTEN_AFTER_MS = 250;
const ANSWER_BYTES_MAX = 4 << 20;

/** Port. No call rejects: what fails is not found, or not kept. Calls after `close` find nothing. */
export interface AnswerCache {
  /** The answers of so many keys, end to end, that were kept at `sinceWallMs` (Unix time) or later; undefined for those that were not kept. */
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
  readonly clock: Pick<Clock, "timer">;
  /** Called with what went wrong, and what that means for the cache; the run continues. */
  readonly onNotice: (message: string) => void;
}

/** Opens the cache. Never rejects: one that cannot be opened is off, and `onNotice` says why. */
export type OpenAnswerCache = (options: AnswerCacheOptions) => Promise<AnswerCache>;

/** That of a folder, shared with other processes. */
export const openAnswerCache: OpenAnswerCache = async ({ dir, maxBytes, clock, onNotice }) => {
  const workerData: AnswersThreadData = { dir: resolve(dir), maxBytes };
  let thread: AnswersThread;
  try {
    const worker = new Worker(builtFile("answers_thread.mjs"), { execArgv: [], workerData });
    thread = new AnswersThread(worker, dir, onNotice);
  } catch (error) {
    onNotice(offText(dir, messageOf(error)));
    return NO_CACHE;
  }
  await thread.opened;
  return new ThreadedCache(thread, clock);
};

/** One that could not be opened. */
const NO_CACHE: AnswerCache = {
  find: (keys) => Promise.resolve(nothingFor(keys)),
  keep: () => undefined,
  close: () => Promise.resolve(),
};

/** A request before it has its id. */
type Unnumbered<R> = R extends AnswersRequest ? Omit<R, "id"> : never;

class ThreadedCache implements AnswerCache {
  readonly #thread: AnswersThread;
  readonly #clock: Pick<Clock, "timer">;
  readonly #unwritten = new UnwrittenAnswers();
  #due: Timer | undefined;
  #writing: Promise<void> | undefined;

  constructor(thread: AnswersThread, clock: Pick<Clock, "timer">) {
    this.#thread = thread;
    this.#clock = clock;
  }

  async find(
    keys: Uint8Array,
    { wallMs, sinceWallMs }: { readonly wallMs: number; readonly sinceWallMs: number },
  ): Promise<readonly (CachedAnswer | undefined)[]> {
    while (this.#writing !== undefined && this.#unwritten.isHalfFull) await this.#writing; // no faster than the disk
    const texts = Buffer.from(keys.buffer, keys.byteOffset, keys.byteLength).toString("latin1");
    const unwritten: (CachedAnswer | undefined)[] = [];
    for (let start = 0; start < texts.length; start += ANSWER_KEY_BYTES)
      unwritten.push(this.#unwritten.find(texts.slice(start, start + ANSWER_KEY_BYTES), sinceWallMs));
    if (unwritten.every((answer) => answer !== undefined)) return unwritten;
    const reply = await this.#thread.ask({ kind: "find", keys, wallMs, sinceWallMs });
    if (reply?.kind !== "found") return unwritten;
    return unwritten.map((answer, index) => answer ?? reply.answers[index]);
  }

  keep(answer: NewAnswer, wallMs: number): void {
    if (this.#thread.isOff || answer.answer.length > ANSWER_BYTES_MAX) return;
    if (!this.#unwritten.add(answer, wallMs)) return;
    if (this.#writing === undefined) this.#writeWhenDue();
  }

  async close(): Promise<void> {
    while (this.#writing !== undefined || !this.#unwritten.isEmpty) {
      if (this.#writing === undefined) this.#write();
      await this.#writing;
    }
    this.#due?.cancel();
    await this.#thread.close();
  }

  #writeWhenDue(): void {
    if (this.#unwritten.isDue) this.#write();
    else if (!this.#unwritten.isEmpty)
      this.#due ??= this.#clock.timer(WRITTEN_AFTER_MS, () => this.#write(), { keepsAlive: false });
  }

  #write(): void {
    this.#due?.cancel();
    this.#due = undefined;
    this.#writing = this.#thread.ask({ kind: "keep", ...this.#unwritten.take() }).then(() => {
      this.#unwritten.written();
      this.#writing = undefined;
      this.#writeWhenDue();
    });
  }
}

/** The requests to the thread, and whether it still takes them. */
class AnswersThread {
  /** Settles when the thread has opened the database, or could not. */
  readonly opened: Promise<unknown>;
  readonly #worker: Worker;
  readonly #dir: string;
  readonly #onNotice: (message: string) => void;
  readonly #pending = new Map<number, (reply: AnswersReply | undefined) => void>();
  readonly #exited: Promise<void>;
  #lastId = 0;
  #isOff = false;

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

  get isOff(): boolean {
    return this.#isOff;
  }

  /** Undefined once it is off. */
  ask(request: Unnumbered<AnswersRequest>): Promise<AnswersReply | undefined> {
    if (this.#isOff) return Promise.resolve(undefined);
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolveReply) => {
      this.#pending.set(id, resolveReply);
      this.#worker.postMessage({ ...request, id });
    });
  }

  /** Resolves when the thread has ended. */
  async close(): Promise<void> {
    this.#isOff = true;
    this.#worker.postMessage({ kind: "close", id: 0 } satisfies AnswersRequest); // also if it is off: the thread ends
    await this.#exited;
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

function offText(dir: string, reason: string): string {
  return `cache: ${dir} is not used: ${reason}; requests are sent as without a cache`;
}
