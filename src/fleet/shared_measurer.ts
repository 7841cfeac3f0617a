/**
 * The threads that measure for all partitions of a worker: started with the first, so that the next one opens without waiting for threads, and
 * a worker with two partitions has no more of them.
 */
import { type Measurer, measurerClosed } from "../shard/measurer.ts";

/** One for a worker, whose partitions have one configuration. Close it after them. */
export class SharedMeasurer {
  #measurer: Measurer | undefined;

  /** For one partition: its `close` ends what that one may ask, and no threads. `start` is called for the first. */
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
