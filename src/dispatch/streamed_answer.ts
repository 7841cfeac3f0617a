/**
 * The answer of one call that is passed on to a reader as it arrives.
 *
 *   waiting --head--> open --last byte--> (unpacking) --> whole
 *      |               |  ^
 *      |               v  | the reader has taken all that waited
 *      |              held: the socket is paused
 *      +---------------+--call failed, reader left, body too large or damaged--> failed
 *
 * Limits: `bytesMax` of the decoded body; 64 KiB and a chunk in memory, and as much again while it is decompressed.
 */
import type { HeaderBag } from "../providers/provider.ts";
import { AnswerReader } from "./answer_reader.ts";
import { announcedBytes, hasContent, type IncomingAnswer } from "./arriving_answer.ts";
import type { SemaphoreTaker } from "./taker_semaphore.ts";
import type { WireFailure, WireResult, WireStream } from "./transport.ts";
import { createDecompressor, type Decompressor, isPacked } from "./unpack.ts";

const EMPTY: Uint8Array = new Uint8Array(0);

/** The connection of the call. */
export interface AnswerWire extends SemaphoreTaker {
  /** Ends the call and the connection. */
  cancel(failure: WireFailure, message: string): void;
}

export class StreamedAnswer implements IncomingAnswer {
  status = 0;
  headers: HeaderBag = {};
  length = 0;
  hasContent = false;
  resume: (() => void) | undefined = undefined;
  readonly bytesMax: number;
  readonly #resolve: (stream: WireStream) => void;
  /** While the call is on it. */
  #wire: AnswerWire | undefined;
  #body: StreamedBody | undefined;

  /** `resolve` is called once: with the head, or with a failure before it. */
  constructor(bytesMax: number, resolve: (stream: WireStream) => void) {
    this.bytesMax = bytesMax;
    this.#resolve = resolve;
  }

  /** The call begins on this connection. */
  start(wire: AnswerWire): void {
    this.#wire = wire;
  }

  /** The call ended. */
  ended(result: WireResult): void {
    this.#wire = undefined;
    if (result.ok) this.#body?.finish();
    else if (this.#body === undefined) this.#resolve(result);
    else this.#body.fail(result);
  }

  begin(status: number, headers: HeaderBag, resume: () => void): boolean {
    this.status = status;
    this.headers = headers;
    this.resume = resume;
    const announced = announcedBytes(headers["content-length"]);
    if (announced !== undefined && announced > this.bytesMax) return false;
    const body = new StreamedBody(headers["content-encoding"], this.bytesMax, {
      more: () => this.#wire?.onPlace(),
      cut: (failure, message) => this.#cut(failure, message),
    });
    this.#body = body;
    this.#resolve({ ok: true, status, headers, chunks: body.reader });
    return true;
  }

  add(chunk: Buffer): boolean {
    this.length += chunk.length;
    if (this.length > this.bytesMax) return false;
    if (!this.hasContent) this.hasContent = hasContent(chunk);
    this.#body?.add(chunk);
    return true;
  }

  mayGrow(): boolean {
    return this.#body?.isHeld !== true;
  }

  placed(): void {}

  take(): Uint8Array {
    return EMPTY;
  }

  giveBack(): void {}

  drop(): void {}

  #cut(failure: WireFailure, message: string): void {
    if (this.#wire !== undefined) this.#wire.cancel(failure, message);
    else this.ended({ ok: false, failure, message }); // it is all here, and is being decompressed
  }
}

/** What the body does to its connection. */
interface BodyWire {
  more(): void;
  cut(failure: WireFailure, message: string): void;
}

/** Its bytes, decompressed if they have to be, on their way to the reader. */
class StreamedBody {
  readonly reader: AnswerReader;
  /** Whether the connection has to wait until `more` is called. */
  isHeld = false;
  readonly #wire: BodyWire;
  readonly #bytesMax: number;
  /** Until the body begins; a response without one may name an encoding. */
  #encoding: string | undefined;
  #unpacker: Decompressor | undefined;

  constructor(contentEncoding: string | undefined, bytesMax: number, wire: BodyWire) {
    this.#wire = wire;
    this.#bytesMax = bytesMax;
    this.#encoding = contentEncoding;
    this.reader = new AnswerReader({
      more: () => (this.#unpacker === undefined ? this.#more() : this.#unpacker.resume()),
      left: () => wire.cut("aborted", "left by its reader"),
    });
  }

  add(chunk: Buffer): void {
    if (isPacked(this.#encoding)) this.#unpacker = this.#unpack(this.#encoding);
    this.#encoding = undefined;
    this.isHeld = !(this.#unpacker === undefined ? this.reader.add(chunk) : this.#unpacker.write(chunk));
  }

  finish(): void {
    if (this.#unpacker === undefined) this.reader.finish();
    else this.#unpacker.end();
  }

  fail(result: WireResult & { readonly ok: false }): void {
    this.#unpacker?.removeAllListeners().on("error", () => undefined);
    this.#unpacker?.destroy();
    this.reader.fail(result);
  }

  #more(): void {
    this.isHeld = false;
    this.#wire.more();
  }

  #unpack(contentEncoding: string): Decompressor {
    const bytesMax = this.#bytesMax;
    let lengthBytes = 0;
    const unpacker = createDecompressor(contentEncoding);
    return unpacker
      .on("data", (chunk: Buffer) => {
        lengthBytes += chunk.length;
        if (lengthBytes > bytesMax) this.#wire.cut("too_large", `the answer exceeds ${bytesMax} bytes`);
        else if (!this.reader.add(chunk)) unpacker.pause();
      })
      .on("drain", () => this.#more())
      .on("end", () => this.reader.finish())
      .on("error", () =>
        this.#wire.cut("lost", `the answer is damaged (content-encoding ${contentEncoding})`),
      );
  }
}
