/**
 * A transport of a process that may send only while it holds a lease, as that on its partition of a database.
 *
 *   held    -> sent
 *   lapsed  -> waits -> held again: sent
 *                    -> closed, or the signal fires: answered by the transport, which sends nothing then
 *
 * A process that was stopped, or is cut off from its database, does not know whether another one has taken its work over. Its lease has ended by its own
 * clock by then, so it sends nothing before it has renewed it. What was sent before goes on.
 */
import type { Clock } from "../clock.ts";
import type {
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireRequest,
  WireResult,
  WireStream,
} from "../dispatch/transport.ts";

/** How often a lease is looked at that has lapsed. */
const LOOK_MS = 50;

export class LeasedTransport implements Transport {
  readonly #inner: Transport;
  readonly #clock: Pick<Clock, "sleep">;
  readonly #isHeld: () => boolean;
  #isClosed = false;

  /** `isHeld`: by a clock of this process that counts while it is stopped. */
  constructor(inner: Transport, clock: Pick<Clock, "sleep">, isHeld: () => boolean) {
    this.#inner = inner;
    this.#clock = clock;
    this.#isHeld = isHeld;
  }

  send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    if (this.#isHeld()) return this.#inner.send(request, options);
    return this.#held(options.signal).then(() => this.#inner.send(request, options));
  }

  stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    if (this.#isHeld()) return this.#inner.stream(request, options);
    return this.#held(options.signal).then(() => this.#inner.stream(request, options));
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#inner.close();
  }

  async #held(signal: AbortSignal | undefined): Promise<void> {
    while (!this.#isClosed && signal?.aborted !== true && !this.#isHeld())
      await this.#clock.sleep(LOOK_MS, { signal }).catch(() => undefined); // the signal fired
  }
}
