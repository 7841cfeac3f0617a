/**
 * One connection and the call that is on it: receives undici's events and ends the call exactly once.
 *
 *   idle -> sending -> waiting -> heading -> receiving -> idle
 *             |          ^  (1xx)    |        |  ^   |
 *             |          +-----------+        v  |   +-> unpacking -> idle
 *             |                              held
 *             +--> (any) --deadline, signal, stall, bound, error--> gone
 *
 * `sending` lasts from the start of the call (waiting for the socket included) to the last byte passed to it.
 * `held`: the socket is paused. A whole body waits for one of the places of large bodies: it needs one beyond `largeBytes`,
 * and beyond `smallBytes` already when all bodies without a place hold as much together as they may. A streamed one waits
 * for its reader.
 * After any failure the connection is not used again: its client is destroyed and a new one made for the next call.
 *
 * Hot path (bench/jobs/transport.ts): one object serves all calls of a connection, and no timer, listener or stream is
 * made for a call; the owner's sweep watches deadlines and stalls.
 */
import type { Socket } from "node:net";
import { type AnswerBounds, ArrivingAnswer, type IncomingAnswer } from "./arriving_answer.ts";
import type { HeaderReader } from "./response_headers.ts";
import type { StreamedAnswer } from "./streamed_answer.ts";
import type { TakerSemaphore } from "./taker_semaphore.ts";
import type { StreamRequest, WireFailure, WireResult } from "./transport.ts";
import { isPacked, type Unpacked, unpack } from "./unpack.ts";
import { reasonOf, type Upload } from "./upload.ts";

/** One request to the connection. */
export interface WireCall {
  readonly request: StreamRequest;
  /** The body of the request when it is streamed. */
  readonly upload: Upload | undefined;
  /** Takes the answer when it is streamed. */
  readonly streamed: StreamedAnswer | undefined;
  /** Names and values in turn, as undici takes them. */
  readonly headers: readonly string[];
  /** Monotonic. */
  readonly startedMs: number;
  /** Monotonic; may be put off by `isOver`. */
  deadlineMs: number;
  /** See `SendOptions`. */
  readonly moreMs: (() => number) | undefined;
  readonly signal: AbortSignal | undefined;
  /** Called once. The result of a streamed answer has no body. */
  readonly resolve: (result: WireResult) => void;
}

/** Bounds and shared parts, the same for all connections of an origin. */
export interface ConnectionSettings extends AnswerBounds {
  /** Scheme, host and port, for messages. */
  readonly origin: string;
  readonly uploadStallMs: number;
  readonly downloadStallMs: number;
  readonly downloadBytesMin: number;
  readonly unpacking: TakerSemaphore;
  readonly headers: HeaderReader;
}

/** The client of one connection. */
export interface ConnectionClient {
  dispatch(call: WireCall, handler: Connection): void;
  /** The socket, once there is one. */
  readonly socket: Socket | undefined;
  /** Ends the connection at once, connecting or not; resolves when its socket is closed. */
  destroy(): Promise<void>;
}

/** The keeper of the connections. Called when a call ends, before its caller. */
export interface ConnectionOwner {
  /** The call ended well and the connection can take another at once. */
  released(connection: Connection, call: WireCall): void;
  /** The call failed and the connection ended; `closed` resolves when its socket is closed. No call: it was idle. */
  discarded(connection: Connection, call: WireCall | undefined, closed: Promise<void>): void;
}

type Phase = "idle" | "sending" | "waiting" | "heading" | "receiving" | "held" | "unpacking" | "gone";

export class Connection {
  readonly #wire: ConnectionClient;
  readonly #owner: ConnectionOwner;
  readonly #settings: ConnectionSettings;
  readonly #whole: ArrivingAnswer;
  /** Of the current call: `#whole`, or a streamed one. */
  #answer: IncomingAnswer;
  readonly #stall = new StallWatch();
  #call: WireCall | undefined;
  #phase: Phase = "idle";
  /** Whether the kernel may have taken a byte of this request. */
  #isWritten = false;
  #abort: ((error?: Error) => void) | undefined;

  constructor(wire: ConnectionClient, owner: ConnectionOwner, settings: ConnectionSettings) {
    this.#wire = wire;
    this.#owner = owner;
    this.#settings = settings;
    this.#whole = new ArrivingAnswer(settings);
    this.#answer = this.#whole;
  }

  /** The signal of the current call. */
  get signal(): AbortSignal | undefined {
    return this.#call?.signal;
  }

  /** Begins a call; the connection must be idle. */
  start(call: WireCall): void {
    this.#call = call;
    this.#phase = "sending";
    this.#stall.reset();
    this.#isWritten = false;
    this.#answer = call.streamed ?? this.#whole;
    call.streamed?.start(this);
    call.upload?.begin((message) => this.cancel("source_failed", message));
    this.#wire.dispatch(call, this);
  }

  /** Ends the call, if there is one, and the connection. */
  cancel(failure: WireFailure, message: string): void {
    const call = this.#call;
    this.#call = undefined;
    this.#phase = "gone";
    this.#settings.largeBodies.leave(this);
    this.#answer.giveBack();
    this.#answer.drop();
    this.#abort?.();
    this.#abort = undefined;
    this.#owner.discarded(this, call, this.#wire.destroy());
    call?.resolve({ ok: false, failure, message });
  }

  /** Ends the call when its deadline passed or it stalled; returns when to look again. */
  sweep(nowMs: number): number {
    const call = this.#call;
    if (call === undefined) return Number.POSITIVE_INFINITY;
    if (isOver(call, nowMs)) {
      if (this.#isWritten) this.cancel("timeout", timeoutText(this.#settings.origin, nowMs - call.startedMs));
      else this.cancel("not_sent", `${this.#missing} ${this.#settings.origin} in time`);
      return Number.POSITIVE_INFINITY;
    }
    const stall = this.#stalled(nowMs);
    if (stall !== undefined) this.cancel("timeout", stall);
    return call.deadlineMs;
  }

  /** A place for a large body is free, or a reader takes more. Not at once: the parser of another connection may be running. */
  onPlace(): void {
    this.#answer.placed();
    this.#phase = "receiving";
    const { resume } = this.#answer;
    queueMicrotask(() => resume?.());
  }

  // From here on, what undici calls.

  onConnect(abort: (error?: Error) => void): void {
    this.#abort = abort;
  }

  onBodySent(): void {
    this.#stall.piecesSent += 1;
    this.#noteWritten();
  }

  onRequestSent(): void {
    this.#noteWritten();
    if (this.#phase === "sending") this.#phase = "waiting";
  }

  onResponseStarted(): void {
    if (this.#call !== undefined) this.#phase = "heading";
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    if (this.#call === undefined) return true;
    if (status < 200) {
      this.#phase = "waiting";
      return true;
    }
    this.#phase = "receiving";
    const isTooLarge = !this.#answer.begin(status, this.#settings.headers.read(raw), resume);
    // undici's array for it is long-lived to V8, which makes such arrays old at once: what is left in one stays until the
    // next full collection. Emptied, 2.5 KB a call die young (promoted: 1.3 KB an item instead of 3.8).
    raw.length = 0;
    return isTooLarge ? this.#refuseLarge() : true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#call === undefined) return true;
    if (!this.#answer.add(chunk)) return this.#refuseLarge();
    if (this.#answer.mayGrow(this)) return true;
    this.#phase = "held";
    return false;
  }

  onComplete(): void {
    const call = this.#call;
    if (call === undefined) return;
    const encoding = this.#answer.headers["content-encoding"];
    const body = this.#answer.take();
    if (body.length > 0 && isPacked(encoding)) this.#unpack(call, encoding, body);
    else this.#succeed(call, body);
  }

  onError(error: Error): void {
    if (this.#call === undefined) return;
    this.#abort = undefined;
    const cause = reasonOf(error);
    if (this.#isWritten) this.cancel("lost", `connection to ${this.#settings.origin} lost (${cause})`);
    else this.cancel("not_sent", `no connection to ${this.#settings.origin} (${cause})`);
  }

  #succeed(call: WireCall, body: Uint8Array): void {
    this.#call = undefined;
    this.#phase = "idle";
    this.#abort = undefined;
    this.#answer.resume = undefined;
    this.#answer.giveBack();
    const { status, headers } = this.#answer;
    const result = { ok: true, status, headers, body } as const;
    if (call.upload?.isDone === false) this.#endEarly(call);
    else this.#owner.released(this, call);
    call.resolve(result);
  }

  /** Answered before the whole request was sent: the rest is not sent, and nothing else can be on this connection. */
  #endEarly(call: WireCall): void {
    this.#phase = "gone";
    this.#owner.discarded(this, call, this.#wire.destroy());
  }

  /** What a call did not get before its deadline when nothing of it was written. */
  get #missing(): string {
    return this.#abort === undefined
      ? "no connection to"
      : "the source of the request gave nothing to send to";
  }

  #unpack(call: WireCall, encoding: string, packed: Uint8Array): void {
    const { unpacking, responseBytesMax, origin } = this.#settings;
    this.#phase = "unpacking";
    const onUnpacked = (result: Unpacked): void => {
      unpacking.release();
      if (this.#call !== call) return;
      if (result.ok) this.#succeed(call, result.body);
      else if (result.reason === "too_large") this.#refuseLarge();
      else this.cancel("lost", `answer of ${origin} is damaged (content-encoding ${encoding})`);
    };
    const taker = {
      onPlace: (): void => {
        if (this.#call === call) unpack(encoding, packed, responseBytesMax, onUnpacked);
        else unpacking.release();
      },
    };
    if (unpacking.take(taker)) taker.onPlace();
  }

  /** A socket that failed inside this very write took nothing: the one reset that is surely not sent. */
  #noteWritten(): void {
    if (this.#wire.socket?.errored == null) this.#isWritten = true;
  }

  #refuseLarge(): true {
    this.cancel("too_large", `answer of ${this.#settings.origin} exceeds ${this.#answer.bytesMax} bytes`);
    return true;
  }

  /** Why the call counts as stalled now, or undefined. */
  #stalled(nowMs: number): string | undefined {
    const { origin, uploadStallMs, downloadStallMs, downloadBytesMin } = this.#settings;
    const phase = this.#phase;
    const isUploading = phase === "sending" || phase === "waiting";
    const amount = isUploading ? this.#stall.piecesSent : this.#answer.length;
    const wanted = isUploading ? 1 : phase === "receiving" ? downloadBytesMin : 0;
    const isWatched = isUploading
      ? this.#isWritten && (this.#wire.socket?.writableLength ?? 0) > 0
      : phase === "heading" || (phase === "receiving" && this.#answer.hasContent);
    const stillMs = this.#stall.look(nowMs, { phase, amount, wanted, isWatched });
    if (stillMs === undefined || stillMs < (isUploading ? uploadStallMs : downloadStallMs)) return undefined;
    return isUploading ? `request to ${origin} stalled` : `answer of ${origin} stalled`;
  }
}

/** What was seen of a call, its phase and how much has moved, and since when nothing has changed. */
class StallWatch {
  /** Pieces of the request that the socket has taken. */
  piecesSent = 0;
  #phase: Phase = "idle";
  #amount = 0;
  #atMs = 0;

  /** A call begins. */
  reset(): void {
    this.piecesSent = 0;
    this.#phase = "idle";
  }

  /** Milliseconds since a look that found progress (in one phase `wanted` more); undefined if this one does. */
  look(nowMs: number, { phase, amount, wanted, isWatched }: Look): number | undefined {
    const hasProgressed = phase !== "heading" && amount - this.#amount >= wanted;
    if (isWatched && phase === this.#phase && !hasProgressed) return nowMs - this.#atMs;
    this.#phase = phase;
    this.#amount = amount;
    this.#atMs = nowMs;
    return undefined;
  }
}

/** A call as a sweep finds it. */
interface Look {
  readonly phase: Phase;
  readonly amount: number;
  readonly wanted: number;
  /** Whether progress is expected in this phase. */
  readonly isWatched: boolean;
}

/** Whether its deadline has passed, and is not put off. */
export function isOver(call: WireCall, nowMs: number): boolean {
  if (nowMs < call.deadlineMs) return false;
  const moreMs = call.moreMs?.() ?? 0;
  call.deadlineMs = nowMs + moreMs;
  return moreMs <= 0;
}

function timeoutText(origin: string, tookMs: number): string {
  return `timed out after ${Math.round(tookMs / 1_000)} s waiting for ${origin}`;
}
