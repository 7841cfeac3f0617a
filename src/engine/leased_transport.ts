/**
 * A transport of a process that may send only while it holds a lease, as that on its partition of a database.
 *
 *   held    -> sent
 *   lapsed  -> waits -> held again: sent
 *                    -> closed, or the signal fires: answered by the transport, which sends nothing then
 *   held, lapsed -> ended: answered as not sent, also what waits     (the process hands its work over)
 *
 * A process that was stopped, or is cut off from its database, does not know whether another one has taken its work over. Its lease has ended by its own
 * clock by then, so it sends nothing before it has renewed it. What was sent before goes on, and is counted: a planned
 * handover waits for it.
 */
import type { Clock } from "../clock.ts";
import type {
  FailedWire,
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireChunks,
  WireRequest,
  WireResult,
  WireStream,
} from "../dispatch/transport.ts";
import { until } from "../polled.ts";

const HANDED_OVER: FailedWire = {
  ok: false,
  failure: "not_sent",
  message: "this process hands its work over to another one",
};

export class LeasedTransport implements Transport {
  readonly #inner: Transport;
  readonly #clock: Pick<Clock, "sleep">;
  readonly #isHeld: () => boolean;
  #isClosed = false;
  #isEnded = false;
  #inFlight = 0;

  /** `isHeld`: by a clock of this process that counts while it is stopped. */
  constructor(inner: Transport, clock: Pick<Clock, "sleep">, isHeld: () => boolean) {
    this.#inner = inner;
    this.#clock = clock;
    this.#isHeld = isHeld;
  }

  /** Requests that were sent, and of which the answer has not arrived whole. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Sends nothing from now on. What is in flight goes on. */
  end(): void {
    this.#isEnded = true;
  }

  async send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    if (!this.#isFree) await this.#held(options.signal);
    if (this.#isEnded) return HANDED_OVER;
    const over = this.#counted();
    try {
      return await this.#inner.send(request, options);
    } finally {
      over();
    }
  }

  async stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    if (!this.#isFree) await this.#held(options.signal);
    if (this.#isEnded) return HANDED_OVER;
    const over = this.#counted();
    try {
      const stream = await this.#inner.stream(request, options);
      if (!stream.ok) over();
      return stream.ok ? { ...stream, chunks: watched(stream.chunks, over) } : stream;
    } catch (error) {
      over();
      throw error;
    }
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#inner.close();
  }

  get #isFree(): boolean {
    return this.#isEnded || this.#isHeld();
  }

  /** Counts one more; the returned function ends it, and may be called again. */
  #counted(): () => void {
    let isOver = false;
    this.#inFlight += 1;
    return () => {
      if (!isOver) this.#inFlight -= 1;
      isOver = true;
    };
  }

  #held(signal: AbortSignal | undefined): Promise<void> {
    return until(this.#clock, () => this.#isClosed || this.#isFree, signal);
  }
}

/** The same chunks; `over` is called when there are no more. */
function watched(chunks: WireChunks, over: () => void): WireChunks {
  const ended = async (step: Promise<IteratorResult<Uint8Array, undefined>>) => {
    try {
      const result = await step;
      if (result.done === true) over();
      return result;
    } catch (error) {
      over();
      throw error;
    }
  };
  const counted: WireChunks = {
    next: () => ended(chunks.next()),
    return: () => ended(chunks.return()).finally(over),
    [Symbol.asyncIterator]: () => counted,
  };
  return counted;
}
