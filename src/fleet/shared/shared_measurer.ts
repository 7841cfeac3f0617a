/**
 * The threads that measure for all partitions of a worker. They start with the first partition, so that the next one opens without waiting for
 * threads, and a worker with two partitions has no more threads.
 */
import { type Measurer, measurerClosed } from "../../shard/measurer.ts";

/** One for a worker, whose partitions have the same configuration. Close it after them. */
export class SharedMeasurer {
  #measurer: Measurer | undefined;

  /** The measurer of one partition: its `close` refuses further calls of that partition, and stops no threads. `start` is called once, for the first. */
  readonly lend = (start: () => Measurer): Measurer => {
    this.#measurer ??= start();
    const shared = this.#measurer;
    let isClosed = false;
    const open = (): Measurer => {
      if (isClosed) throw measurerClosed();
      return shared;
    };
    return {
      concurrency: shared.concurrency,
      measure: async (block, options) => open().measure(block, options),
      scanKeys: async (block, options) => open().scanKeys(block, options),
      close: async () => {
        isClosed = true;
      },
    };
  };

  async close(): Promise<void> {
    await this.#measurer?.close();
  }
}
