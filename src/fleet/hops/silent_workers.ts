/**
 * Notices workers that do not answer at their private address though they are in the fleet: a link that swallows what is sent, or a process that hangs.
 *
 *   watched (while a request is open)  -> pinged every 2 s -> answered: heard
 *                                                          -> not heard for 10 s: silent, its requests end
 *
 * A worker that takes long to answer a request still answers pings. Any answer counts, also a refusal, so workers of the version before need no
 * address for pings. Each ping opens a new connection: one that was kept may be dead while the worker is not. A ping ends when the next one begins, and
 * with the last request: a worker that hangs accepts connections and never answers.
 *
 * Limit: where only the connection of one request is dead, and others to the same worker are not, that request waits until TCP gives up.
 */
import { setMaxListeners } from "node:events";
import type { Clock, Timer } from "../../clock.ts";

/** Resolves when a worker has answered at its address; rejects when it cannot be reached. */
export type Ping = (address: string, signal: AbortSignal) => Promise<void>;

const PING_MS = 2_000;
/** As long as a request waits for an owner. A lease is shorter (6 s), but a busy process may miss that for a moment and go on. */
const SILENT_MS = 10_000;

interface Watched {
  readonly silence: AbortController;
  requests: number;
  heardMs: number;
  timer: Timer | undefined;
  /** Ends the ping under way. */
  ping: AbortController | undefined;
}

export class SilentWorkers {
  readonly #clock: Pick<Clock, "nowMs" | "timer">;
  readonly #ping: Ping;
  readonly #watched = new Map<string, Watched>();

  constructor(clock: Pick<Clock, "nowMs" | "timer">, ping: Ping) {
    this.#clock = clock;
    this.#ping = ping;
  }

  /** `signal` aborts when the worker at the address is silent, 10 to 12 s after the last answer. Call `end` once, when the request is over. */
  watch(address: string): { readonly signal: AbortSignal; readonly end: () => void } {
    const watched = this.#watched.get(address) ?? this.#begin(address);
    watched.requests += 1;
    return {
      signal: watched.silence.signal,
      end: () => {
        watched.requests -= 1;
        if (watched.requests === 0) this.#stop(address, watched);
      },
    };
  }

  #begin(address: string): Watched {
    const watched: Watched = {
      ...{ silence: new AbortController(), requests: 0, heardMs: this.#clock.nowMs() },
      ...{ timer: undefined, ping: undefined },
    };
    setMaxListeners(0, watched.silence.signal); // one for each request at that worker
    this.#watched.set(address, watched);
    this.#later(address, watched);
    return watched;
  }

  #stop(address: string, watched: Watched): void {
    watched.timer?.cancel();
    watched.ping?.abort();
    if (this.#watched.get(address) === watched) this.#watched.delete(address);
  }

  #later(address: string, watched: Watched): void {
    const dueMs = this.#clock.nowMs() + PING_MS;
    const look = (): void => {
      watched.heardMs += Math.max(0, this.#clock.nowMs() - dueMs); // while this process stalled, it could hear nobody
      watched.ping?.abort();
      if (this.#clock.nowMs() - watched.heardMs < SILENT_MS) this.#ask(address, watched);
      else {
        this.#stop(address, watched);
        watched.silence.abort();
      }
    };
    watched.timer = this.#clock.timer(PING_MS, look, { keepsAlive: false });
  }

  #ask(address: string, watched: Watched): void {
    const ping = new AbortController();
    watched.ping = ping;
    const heard = (): void => {
      watched.heardMs = this.#clock.nowMs();
    };
    this.#ping(address, ping.signal).then(heard, () => undefined); // not heard
    this.#later(address, watched);
  }
}
