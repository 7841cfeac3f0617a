/**
 * The answer that arrives whole on a connection, and the place that its body needs.
 *
 *   none -> head -> small body --beyond `smallBytes`--> counted in the allowance
 *                     --beyond `largeBytes`, or when the allowance is used up--> in a place, or without one: it must wait
 *
 * Hot path: one for each connection, used again for each call.
 */
import type { HeaderBag } from "../providers/provider.ts";
import { BodyCollector } from "./body.ts";
import type { Allowance, SemaphoreTaker, TakerSemaphore } from "./taker_semaphore.ts";

/** An answer as its connection fills it: kept until it is whole, or passed to a reader (streamed_answer.ts). */
export interface IncomingAnswer {
  readonly status: number;
  readonly headers: HeaderBag;
  /** Bytes of the body so far. */
  readonly length: number;
  /** Of the body, decoded, at most. */
  readonly bytesMax: number;
  /** Whether the body has begun; leading blank bytes are some providers' sign of life while they still work. */
  readonly hasContent: boolean;
  /** Lets the socket read on, after the body had to wait. */
  resume: (() => void) | undefined;
  /** Its head is here; false if it states a body that is too large. */
  begin(status: number, headers: HeaderBag, resume: () => void): boolean;
  /** Adds to the body; false if it is too large. */
  add(chunk: Buffer): boolean;
  /** Whether more of the body may arrive; otherwise `taker` is called when it may. */
  mayGrow(taker: SemaphoreTaker): boolean;
  /** `taker` was called: the socket reads on. */
  placed(): void;
  /** The whole body, which is not kept; empty if it was passed on. */
  take(): Uint8Array;
  /** The call ended: gives back what the body took of shared places. */
  giveBack(): void;
  /** The call failed: nothing of the body is needed. */
  drop(): void;
}

/** Bounds of bodies; see `ConnectionSettings`. */
export interface AnswerBounds {
  readonly responseBytesMax: number;
  readonly smallBytes: number;
  readonly largeBytes: number;
  readonly largeBodies: TakerSemaphore;
  readonly middleBodies: Allowance;
}

export class ArrivingAnswer implements IncomingAnswer {
  status = 0;
  headers: HeaderBag = {};
  hasContent = false;
  resume: (() => void) | undefined = undefined;
  readonly #bounds: AnswerBounds;
  readonly #body: BodyCollector;
  #hasPlace = false;
  /** Bytes of the body that count against the allowance of bodies without a place. */
  #allowedBytes = 0;

  constructor(bounds: AnswerBounds) {
    this.#bounds = bounds;
    this.#body = new BodyCollector(bounds.responseBytesMax);
  }

  get length(): number {
    return this.#body.length;
  }

  get bytesMax(): number {
    return this.#bounds.responseBytesMax;
  }

  begin(status: number, headers: HeaderBag, resume: () => void): boolean {
    this.status = status;
    this.headers = headers;
    this.resume = resume;
    this.hasContent = false;
    const announced = announcedBytes(headers["content-length"]);
    this.#body.reset(announced);
    return announced === undefined || announced <= this.#bounds.responseBytesMax;
  }

  add(chunk: Buffer): boolean {
    if (!this.#body.add(chunk)) return false;
    if (!this.hasContent) this.hasContent = hasContent(chunk);
    return true;
  }

  /** False: `taker` waits for a place. */
  mayGrow(taker: SemaphoreTaker): boolean {
    return this.#hasPlace || this.#body.length <= this.#bounds.smallBytes || this.#takePlace(taker);
  }

  /** `taker` got the place that it waited for. */
  placed(): void {
    this.#hasPlace = true;
    this.#giveBackAllowance();
  }

  take(): Uint8Array {
    return this.#body.take();
  }

  drop(): void {
    this.#body.reset(undefined);
  }

  giveBack(): void {
    this.#giveBackAllowance();
    if (!this.#hasPlace) return;
    this.#hasPlace = false;
    this.#bounds.largeBodies.release();
  }

  #takePlace(taker: SemaphoreTaker): boolean {
    const { largeBytes, middleBodies, largeBodies } = this.#bounds;
    const { length } = this.#body;
    middleBodies.used += length - this.#allowedBytes;
    this.#allowedBytes = length;
    if (length <= largeBytes && middleBodies.used <= middleBodies.max) return true;
    this.#hasPlace = largeBodies.take(taker);
    if (this.#hasPlace) this.#giveBackAllowance();
    return this.#hasPlace;
  }

  #giveBackAllowance(): void {
    this.#bounds.middleBodies.used -= this.#allowedBytes;
    this.#allowedBytes = 0;
  }
}

/** What `content-length` says; undefined if it says nothing. */
export function announcedBytes(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined;
  return Number(text);
}

/** Whether the chunk holds anything but blanks and line ends. */
export function hasContent(chunk: Uint8Array): boolean {
  for (const byte of chunk) if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return true;
  return false;
}
