/**
 * The only import of bottleneck: how many jobs go to one destination at once.
 *
 *   asked -> slot (called back) -> released
 *
 * A limiter for each destination, from a Group for each bound; removed as soon as nobody has or wants a slot of it. A slot may
 * serve one job after another, because a job of bottleneck takes 2.3 ms, however short it is (2.19.5, 2 cores).
 *
 * Never `expiration`, reservoirs or the Redis mode. The Group's own clean-up checks when jobs began and not whether
 * they run (its `__groupCheck__`), so it is put off for ever, and limiters with slots are held here.
 *
 * Loaded with the first destination, which takes 30 ms. To leave: a count and a list for each destination.
 */
import type Bottleneck from "bottleneck";

/** Slots of destinations; may be used concurrently. */
export interface Destinations {
  /**
   * Calls back with a slot once there is one, in the order of the calls, never synchronously. `release` gives it back and
   * may be called once. `concurrency`, from 1, is that of the first call since the name was not in use.
   */
  ask(name: string, concurrency: number, onSlot: (release: () => void) => void): void;
}

/** Half of it is a timer's delay, which Node takes up to 2^31-1 ms. */
const CLEANUP_MS = 2 ** 31 - 1;

interface Limited {
  readonly group: Bottleneck.Group;
  readonly limiter: Bottleneck;
  /** Slots that are requested or held. */
  uses: number;
}

/** One for a process. */
export class BottleneckDestinations implements Destinations {
  readonly #groups = new Map<number, Bottleneck.Group>();
  readonly #limited = new Map<string, Limited>();
  #loading: Promise<typeof Bottleneck> | undefined;

  /** Destinations with a limiter. */
  get size(): number {
    return this.#limited.size;
  }

  ask(name: string, concurrency: number, onSlot: (release: () => void) => void): void {
    this.#loading ??= import("bottleneck").then((loaded) => loaded.default);
    void this.#loading.then((Limiter) => this.#ask(this.#group(Limiter, concurrency), name, onSlot));
  }

  async #ask(group: Bottleneck.Group, name: string, onSlot: (release: () => void) => void): Promise<void> {
    const limited = this.#limited.get(name) ?? { group, limiter: group.key(name), uses: 0 };
    this.#limited.set(name, limited);
    limited.uses += 1;
    await limited.limiter.schedule(() => new Promise<void>((release) => onSlot(release)));
    limited.uses -= 1;
    if (limited.uses > 0) return;
    this.#limited.delete(name);
    await limited.group.deleteKey(name);
  }

  #group(Limiter: typeof Bottleneck, concurrency: number): Bottleneck.Group {
    const known = this.#groups.get(concurrency);
    if (known !== undefined) return known;
    const group = new Limiter.Group({ maxConcurrent: concurrency, timeout: CLEANUP_MS });
    this.#groups.set(concurrency, group);
    return group;
  }
}
