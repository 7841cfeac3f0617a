/**
 * Measuring ahead: a few blocks at a time, in threads, returned in their order.
 *
 * A block that is measured is passed on at once, whether or not another one follows: the source may wait for its
 * answer. Where the source may be slow, `pause` is called when nothing arrived for a while, so that nothing is held back.
 */
import type { Clock } from "../../clock.ts";
import type { Block } from "../../jsonl/block.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";

/** Blocks have 256 KiB, but for one long line. Of a line of 8 MiB a thread and its copies take some 60 MiB. */
const LARGE_BYTES = 1024 * 1024;

/** A source without data for this long is waited for with nothing held back. */
const PAUSE_MS = 10;

export interface MeasureAhead {
  readonly measure: (block: Block) => Promise<MeasuredBlock>;
  /** Blocks that are measured at a time; fewer where they are large: one that is longer than `LARGE_BYTES` is measured by itself. */
  readonly concurrency: number;
  /** Given for sources that may be slow. */
  readonly clock?: Clock | undefined;
}

type Event =
  | { readonly kind: "block"; readonly next: IteratorResult<Block> }
  | { readonly kind: "measured"; readonly measured: MeasuredBlock }
  | { readonly kind: "pause" };

/** Does not wait for the source when it is left. */
export async function* measureAhead(
  blocks: AsyncIterable<Block>,
  options: MeasureAhead,
): AsyncGenerator<MeasuredBlock | "pause"> {
  const source = blocks[Symbol.asyncIterator]();
  const waiting: Promise<Event>[] = [];
  let isLarge = false;
  let next: Promise<Event> | undefined;
  let isEnded = false;
  let isPaused = false;
  try {
    for (;;) {
      if (!isEnded && !isLarge && waiting.length <= options.concurrency)
        next ??= quiet(source.next().then(blockEvent));
      const [first] = waiting;
      const awaited = [next, first].filter((one) => one !== undefined);
      if (awaited.length === 0) return;
      const event = await raced(awaited, first === undefined && !isPaused ? options.clock : undefined);
      if (event.kind === "pause") {
        isPaused = true;
        yield "pause";
      } else if (event.kind === "measured") {
        waiting.shift();
        if (waiting.length === 0) isLarge = false;
        yield event.measured;
      } else {
        next = undefined;
        isPaused = false;
        if (event.next.done === true) isEnded = true;
        else {
          isLarge ||= event.next.value.bytes.byteLength > LARGE_BYTES;
          waiting.push(quiet(options.measure(event.next.value).then(measuredEvent)));
        }
      }
    }
  } finally {
    void source.return?.()?.catch(() => undefined); // it may wait for input that never arrives
  }
}

async function raced(awaited: readonly Promise<Event>[], clock: Clock | undefined): Promise<Event> {
  if (clock === undefined) return Promise.race(awaited);
  let resolvePause: (event: Event) => void = () => undefined;
  const pause = new Promise<Event>((resolve) => {
    resolvePause = resolve;
  });
  const timer = clock.timer(PAUSE_MS, () => resolvePause({ kind: "pause" }));
  try {
    return await Promise.race([...awaited, pause]);
  } finally {
    timer.cancel();
  }
}

function blockEvent(next: IteratorResult<Block>): Event {
  return { kind: "block", next };
}

function measuredEvent(measured: MeasuredBlock): Event {
  return { kind: "measured", measured };
}

/** A caller that awaits it gets its rejection. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}
