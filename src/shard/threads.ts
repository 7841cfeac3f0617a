/**
 * Worker threads that answer calls, each for life.
 *
 *   call -> the thread with the fewest calls under way -> answered
 *                                                       -> refused: its function threw; the thread continues
 *                                                       -> the thread died: all its calls reject, the next call starts another thread
 *
 * A thread answers its calls in their order. One with nothing under way does not keep the process alive; one that is being
 * ended does.
 */
import { type ResourceLimits, Worker } from "node:worker_threads";

/** To a thread. */
export interface ThreadCall {
  readonly id: number;
  readonly name: string;
  readonly task: unknown;
}

/** From a thread. */
export type ThreadAnswer =
  | { readonly id: number; readonly ok: true; readonly answer: unknown }
  | { readonly id: number; readonly ok: false; readonly error: unknown };

export interface ThreadsOptions {
  /** The module that each thread loads. */
  readonly file: URL;
  readonly count: number;
  /** Plain data for each thread. */
  readonly workerData: unknown;
  readonly resourceLimits: ResourceLimits;
  /** A thread died with nothing under way. */
  readonly onIdleDeath: (error: unknown) => void;
}

interface Pending {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Threads start with their first call. */
export class Threads {
  readonly #options: ThreadsOptions;
  readonly #threads: (Thread | undefined)[];
  #isDestroyed = false;

  constructor(options: ThreadsOptions) {
    this.#options = options;
    this.#threads = new Array<Thread | undefined>(options.count).fill(undefined);
  }

  /** Rejects with what the thread's function threw, or with how the thread died. `transfer` is taken from the caller. */
  run<T>(name: string, task: unknown, transfer: readonly ArrayBuffer[] = []): Promise<T> {
    if (this.#isDestroyed) return Promise.reject(new Error("the threads have been ended"));
    return this.#leastBusy().run(name, task, transfer) as Promise<T>;
  }

  /** Ends the threads; calls under way reject. */
  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    await Promise.all(this.#threads.map((thread) => thread?.end()));
  }

  #leastBusy(): Thread {
    let least = 0;
    for (const [index, thread] of this.#threads.entries())
      if ((thread?.underWay ?? 0) < (this.#threads[least]?.underWay ?? 0)) least = index;
    const found = this.#threads[least] ?? new Thread(this.#options, () => this.#forget(found));
    this.#threads[least] = found;
    return found;
  }

  #forget(dead: Thread): void {
    const index = this.#threads.indexOf(dead);
    if (index !== -1) this.#threads[index] = undefined;
  }
}

class Thread {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #isOver = false;

  constructor({ file, workerData, resourceLimits, onIdleDeath }: ThreadsOptions, onDeath: () => void) {
    // A loader given on the command line of this process is of no use to built files.
    this.#worker = new Worker(file, { workerData, resourceLimits, execArgv: [] });
    this.#worker.unref();
    const die = (error: unknown): void => {
      if (this.#isOver) return;
      this.#isOver = true;
      onDeath();
      if (this.#pending.size === 0) onIdleDeath(error);
      this.#rejectAll(error);
    };
    this.#worker.on("message", (answer: ThreadAnswer) => this.#settle(answer));
    this.#worker.on("error", die);
    this.#worker.on("messageerror", die);
    this.#worker.on("exit", (code) => die(new Error(`the thread exited with code ${code}`)));
  }

  get underWay(): number {
    return this.#pending.size;
  }

  run(name: string, task: unknown, transfer: readonly ArrayBuffer[]): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const call: ThreadCall = { id, name, task };
      this.#worker.postMessage(call, transfer); // throws for what cannot be cloned: then nothing is pending
      if (this.#pending.size === 0) this.#worker.ref();
      this.#pending.set(id, { resolve, reject });
    });
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#worker.terminate();
    this.#rejectAll(new Error("the threads have been ended"));
  }

  #settle(answer: ThreadAnswer): void {
    const call = this.#pending.get(answer.id);
    this.#pending.delete(answer.id);
    if (this.#pending.size === 0 && !this.#isOver) this.#worker.unref(); // else its end is waited for
    if (answer.ok) call?.resolve(answer.answer);
    else call?.reject(answer.error);
  }

  #rejectAll(error: unknown): void {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }
}
