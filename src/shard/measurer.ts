/**
 * The port for measuring blocks: in threads for files (`pool.ts`), or in this thread for lists and simulations.
 *
 * Both run the same code and return the same answers, but that work in this thread makes the caller wait for it.
 */
import { PerigeeError } from "../errors.ts";
import type { Block } from "../jsonl/block.ts";
import { type KeyColumns, type KeyScanOptions, scanKeys } from "../jsonl/keys.ts";
import { BlockMeasurer, type MeasureOptions, type MeasureSettings } from "./measure.ts";
import type { MeasuredBlock } from "./measured.ts";

/**
 * Port. Calls may overlap; each takes over the block, whose bytes must not be used any more. A call waits while
 * `concurrency` others are under way. No block is refused, for any lines: what kills a thread twice ends as
 * a rejected line. Calls reject with `closed` after `close`, and when threads cannot be started at all.
 */
export interface Measurer {
  measure(block: Block, options: MeasureOptions): Promise<MeasuredBlock>;
  /** The keys of a block's lines, hashed; see `jsonl/keys.ts`. */
  scanKeys(block: Block, options?: KeyScanOptions): Promise<KeyColumns>;
  /** Calls that a caller should have under way for full speed. */
  readonly concurrency: number;
  /** Ends the threads; calls under way reject with `closed`. May be called twice. */
  close(): Promise<void>;
}

/** The part of a measurer that a search for duplicate keys needs. */
export type KeyScanner = Pick<Measurer, "scanKeys" | "concurrency">;

/** Scans keys in this thread: for inputs that are read before a thread has started. */
export const inlineScanner: KeyScanner = {
  concurrency: 1,
  scanKeys: (block, options) => Promise.resolve(scanKeys(block, options)),
};

/** A measurer without threads: each call does its work before it returns. */
export function createInlineMeasurer(settings: MeasureSettings): Measurer {
  return new InlineMeasurer(settings);
}

class InlineMeasurer implements Measurer {
  readonly concurrency = 1;
  readonly #measurer: BlockMeasurer;
  #isClosed = false;

  constructor(settings: MeasureSettings) {
    this.#measurer = new BlockMeasurer(settings);
  }

  async measure(block: Block, options: MeasureOptions): Promise<MeasuredBlock> {
    if (this.#isClosed) throw measurerClosed();
    return this.#measurer.measure(block, options);
  }

  async scanKeys(block: Block, options?: KeyScanOptions): Promise<KeyColumns> {
    if (this.#isClosed) throw measurerClosed();
    return scanKeys(block, options);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }
}

/** The error of a call after `close`; `cause` is set when it closed because of a failure. */
export function measurerClosed(cause?: unknown): PerigeeError {
  if (cause === undefined) return new PerigeeError("closed", "the measurer was closed");
  return new PerigeeError("closed", "the threads that read the input could not be started", { cause });
}
