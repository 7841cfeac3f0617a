/**
 * The heap of the command's process: settings of V8 that a library must not touch, but a program may.
 *
 * Measured on 2 cores, Node 20, 100,000 lines at 2,048 in flight (bench/jobs/engine.ts, docs/decisions/0008-heap.md):
 *   parallel scavenges off     threads that wait for each other cost 20 to 30 us of CPU an item on two cores
 *   growth of 100 % a cycle    the old generation holds what is in flight twice instead of five times: 340 -> 255 MB peak
 *   one early collection       V8 lets a young heap grow to 256 MB before the first one sets a measure
 * A service grows as V8 sees fit (`freeHeap`); a worker of a fleet by 75 % a cycle while its heap is below 192 MiB, and then as V8 sees fit until it is
 * below 96 MiB (`boundHeap`).
 */
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock, Timer } from "../clock.ts";

/** When the run is under way and what it holds is typical. */
const FIRST_COLLECTION_MS = 900;
/** Of a worker of a fleet: above the first its heap is large, until it is below the second. */
const LARGE_HEAP_BYTES = 192 << 20;
const SMALL_HEAP_BYTES = 96 << 20;
const HEAP_LOOK_MS = 1_000;
/** Of a worker of a fleet (docs/decisions/0008-heap.md). */
const GROWTH_PERCENT = 75;

/** Call once, early. The collection takes about 20 ms; it does not keep the process alive. */
export function tuneHeap(clock: Clock): { cancel(): void } {
  setFlagsFromString("--no-parallel-scavenge");
  setFlagsFromString("--heap-growing-percent=100");
  setFlagsFromString("--expose-gc");
  return clock.timer(FIRST_COLLECTION_MS, collectHeap);
}

/**
 * Between two steps that hold different things, so that what the first one left is not in memory beside the second: a collection of
 * about 20 ms. Does nothing where `tuneHeap` was not called.
 */
export function collectHeap(): void {
  const collect: unknown = runInNewContext("typeof gc === 'function' ? gc : undefined");
  if (typeof collect === "function") collect();
}

/**
 * For a service, which runs for long: its old generation grows as V8 sees fit. With the bound above, collections of a heap that
 * holds a million open tasks happen too often: one posted item in bench/jobs/service.ts took 4,130 - 4,720/s with a p99 of 26 to 36 ms,
 * without it 4,780 - 4,880/s and 22 ms; an upload of 1 GiB peaks at 243 MiB either way.
 */
export function freeHeap(): void {
  setFlagsFromString("--heap-growing-percent=0");
}

/**
 * For a worker of a fleet, which shares its machine: while it holds little, its old generation grows by 75 % a cycle.
 * Posts outlive the young generation, so V8 let 40 MB that are held grow to 160. A partition with many open tasks is large anyway, and is left
 * to V8 as in `freeHeap`. `used`: bytes of the heap.
 */
export function boundHeap(
  clock: Clock,
  used: () => number = () => getHeapStatistics().used_heap_size,
  grow: (percent: number) => void = (percent) => setFlagsFromString(`--heap-growing-percent=${percent}`),
): { cancel(): void } {
  let isLarge = false;
  let timer: Timer;
  grow(GROWTH_PERCENT);
  const look = (): void => {
    const wasLarge = isLarge;
    isLarge = used() > (wasLarge ? SMALL_HEAP_BYTES : LARGE_HEAP_BYTES);
    if (isLarge !== wasLarge) grow(isLarge ? 0 : GROWTH_PERCENT);
    timer = clock.timer(HEAP_LOOK_MS, look, { keepsAlive: false });
  };
  look();
  return { cancel: () => timer.cancel() };
}
