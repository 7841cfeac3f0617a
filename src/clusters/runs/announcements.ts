/**
 * Sends the state of runs to listeners: at once when one has ended, at most ten times a second while it is at work.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { ClusterView } from "../cluster.ts";

const EVERY_MS = 100;

type Listener = (cluster: ClusterView) => void;

/** For those who show runs; nothing here is durable. */
export class Announcements {
  readonly #clock: Clock;
  readonly #listeners = new Set<Listener>();
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  listen(listener: Listener): () => void {
    const own: Listener = (cluster) => listener(cluster);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Soon; `view` is made then, and only when somebody listens. */
  tell(id: string, view: () => ClusterView | undefined): void {
    if (this.#listeners.size === 0 || this.#timers.has(id)) return;
    const timer = this.#clock.timer(EVERY_MS, () => this.#send(id, view), { keepsAlive: false });
    this.#timers.set(id, timer);
  }

  tellNow(id: string, view: () => ClusterView): void {
    this.#timers.get(id)?.cancel();
    this.#send(id, view);
  }

  close(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    this.#listeners.clear();
  }

  #send(id: string, view: () => ClusterView | undefined): void {
    this.#timers.delete(id);
    const shown = this.#listeners.size === 0 ? undefined : view();
    if (shown !== undefined) for (const listener of this.#listeners) listener(shown);
  }
}
