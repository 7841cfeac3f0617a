/**
 * Measuring in worker threads.
 *
 *   call -> waits for a slot -> in a thread -> answered
 *                                 thread died -> by itself in a fresh thread (salvage.ts) -> answered
 *
 * Bytes are passed in and arrays returned by transfer, which costs this thread about 1 us a line. A copy of each block under
 * way stays here, because a thread that dies takes its block with it. Threads are kept for life: starting one costs
 * 50 to 100 ms with its token tables. They are started at once, not with the first block.
 *
 * Limits: two blocks a thread are under way; more calls wait. The heap of a thread is at most `THREAD_HEAP_MB`.
 */

import { availableParallelism } from "node:os";
import { builtFile } from "../built_files.ts";
import type { Block } from "../jsonl/block.ts";
import type { KeyColumns, KeyScanOptions } from "../jsonl/keys.ts";
import { readKey } from "../jsonl/record.ts";
import { allocate, noteLargeBytes } from "../large_bytes.ts";
import { Semaphore } from "../semaphore.ts";
import type { MeasureOptions, MeasureSettings } from "./measure.ts";
import type { MeasuredBlock } from "./measured.ts";
import { type Measurer, measurerClosed } from "./measurer.ts";
import { salvageBlock } from "./salvage.ts";
import { Threads } from "./threads.ts";

export { createInlineMeasurer, type Measurer } from "./measurer.ts";

/** How a test makes a thread die: when it meets a line that holds `text`, or as soon as it starts. */
export type Poison =
  | { readonly death: "exit" | "out_of_memory" | "throw_late"; readonly text: string }
  | { readonly death: "at_start" };

/** What a thread is started with: plain data. */
export interface WorkerSettings extends MeasureSettings {
  readonly poison?: Poison | undefined;
}

export interface ThreadSettings extends WorkerSettings {
  /** Whole number from 1; default: one less than the processors, at least 1, at most 4. */
  readonly threads?: number | undefined;
}

/** Blocks under way for each thread: one being measured, one that is ready when it ends. */
const BLOCKS_PER_THREAD = 2;
const THREADS_MAX = 4;
/** A line of 10 MiB of small arrays takes about 150 MB when parsed. */
const THREAD_HEAP_MB = 192;
const THREAD_YOUNG_HEAP_MB = 8;
/** Threads that may die one after another, without any answer between, before the pool counts as broken. */
const DEATHS_IN_A_ROW_MAX = 8;

/** Starts the threads; the settings' keys and headers are not passed to them. */
export function createThreadMeasurer(settings: ThreadSettings): Measurer {
  return new ThreadMeasurer(settings);
}

class ThreadMeasurer implements Measurer {
  readonly concurrency: number;
  readonly #settings: WorkerSettings;
  readonly #pool: Threads;
  readonly #places: Semaphore;
  /** Salvage runs one block at a time, so that no innocent block shares a thread with poison. */
  #salvage: Promise<unknown> = Promise.resolve();
  #deathsInARow = 0;
  #closed: { readonly cause?: unknown } | undefined;

  constructor({ threads, ...settings }: ThreadSettings) {
    const threadCount = threads ?? Math.min(THREADS_MAX, Math.max(1, availableParallelism() - 1));
    this.#settings = { ...settings, providers: settings.providers.map(withoutSecrets) };
    this.concurrency = threadCount * BLOCKS_PER_THREAD;
    this.#places = new Semaphore(this.concurrency);
    this.#pool = threadsFor(this.#settings, threadCount, (error) => this.#noteDeath(error));
    for (let thread = 0; thread < threadCount; thread += 1) void this.#warm();
  }

  async measure(block: Block, options: MeasureOptions): Promise<MeasuredBlock> {
    const kept = copyOf(block.bytes);
    try {
      return await this.#run<MeasuredBlock>("measure", block, options);
    } catch {
      if (this.#closed !== undefined) throw measurerClosed(this.#closed.cause);
      return await this.#inTurn(() => this.#measureAlone({ ...block, bytes: kept }, options));
    }
  }

  async scanKeys(block: Block, options?: KeyScanOptions): Promise<KeyColumns> {
    const kept = copyOf(block.bytes);
    try {
      return await this.#run<KeyColumns>("scanKeys", block, options);
    } catch {
      if (this.#closed !== undefined) throw measurerClosed(this.#closed.cause);
      return await this.#run<KeyColumns>("scanKeys", { ...block, bytes: kept }, options);
    }
  }

  async close(): Promise<void> {
    this.#closed ??= {};
    await this.#pool.destroy();
    await this.#salvage.catch(() => undefined);
  }

  async #run<T>(name: string, block: Block, options: unknown): Promise<T> {
    const blockBytes = block.bytes.byteLength;
    return this.#places
      .run(() => this.#runNow<T>(name, block, options))
      .finally(() => noteLargeBytes(blockBytes));
  }

  async #runNow<T>(name: string, block: Block, options: unknown): Promise<T> {
    try {
      if (this.#closed !== undefined) throw measurerClosed(this.#closed.cause);
      const answer = await runIn<T>(this.#pool, name, block, options);
      this.#deathsInARow = 0;
      return answer;
    } catch (error) {
      this.#noteDeath(error);
      throw error;
    }
  }

  /** Asks for an answer that needs no block: starts a thread and waits until its tables are loaded. */
  async #warm(): Promise<void> {
    try {
      await this.#pool.run("warm", undefined);
      this.#deathsInARow = 0;
    } catch (error) {
      this.#noteDeath(error);
    }
  }

  #noteDeath(cause: unknown): void {
    if (this.#closed !== undefined) return;
    this.#deathsInARow += 1;
    if (this.#deathsInARow > DEATHS_IN_A_ROW_MAX) this.#break(cause);
    else void this.#warm();
  }

  /** Ends the measurer because threads do not start. */
  #break(cause: unknown): void {
    if (this.#closed !== undefined) return;
    this.#closed = { cause };
    void this.#pool.destroy();
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#salvage.then(action, action);
    this.#salvage = turn.catch(() => undefined);
    return turn;
  }

  async #measureAlone(block: Block, options: MeasureOptions): Promise<MeasuredBlock> {
    const lone = threadsFor(this.#settings, 1, () => undefined);
    try {
      // A thread that cannot even start says nothing about the block.
      await lone.run("warm", undefined).catch((error: unknown) => this.#break(error));
      const measured = await salvageBlock(
        block,
        options,
        (whole, some) => {
          if (this.#closed !== undefined) throw measurerClosed();
          return runIn<MeasuredBlock>(lone, "measure", { ...whole, bytes: whole.bytes.slice() }, some);
        },
        (line) => {
          const key = readKey(line, this.#settings);
          return key.ok ? key.key : null;
        },
      );
      if (this.#closed !== undefined) throw measurerClosed(this.#closed.cause);
      return measured;
    } finally {
      await lone.destroy();
    }
  }
}

function runIn<T>(pool: Threads, name: string, block: Block, options: unknown): Promise<T> {
  return pool.run<T>(name, { block, options }, [block.bytes.buffer]);
}

function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = allocate(bytes.byteLength);
  copy.set(bytes);
  return new Uint8Array(copy.buffer);
}

function threadsFor(settings: WorkerSettings, count: number, onIdleDeath: (error: unknown) => void): Threads {
  return new Threads({
    file: builtFile("measuring_thread.mjs"),
    count,
    workerData: settings,
    resourceLimits: {
      maxOldGenerationSizeMb: THREAD_HEAP_MB,
      maxYoungGenerationSizeMb: THREAD_YOUNG_HEAP_MB,
    },
    onIdleDeath,
  });
}

function withoutSecrets(
  provider: MeasureSettings["providers"][number],
): MeasureSettings["providers"][number] {
  const { key: _key, headers: _headers, ...plain } = provider;
  return plain;
}
