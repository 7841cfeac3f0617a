/**
 * Requests in flight and the tokens reserved for their outputs, by the slot (half a second) in which they were sent.
 *
 * Limits: 16 KB. Requests that are older than the ring share its slots.
 */
import { AGES } from "./answer_times.ts";
import { ringPosition } from "./ring.ts";

/** Slots are whole numbers since time 0. */
export class OpenRequests {
  readonly #requests = new Float64Array(AGES);
  readonly #reserved = new Float64Array(AGES);
  #oldest = Number.POSITIVE_INFINITY;
  #count = 0;

  /** All requests in flight. */
  get count(): number {
    return this.#count;
  }

  /** No request in flight was sent before this slot; Infinity before the first request. */
  get oldest(): number {
    return this.#oldest;
  }

  /** Adds requests to the slot in which they were sent; negative numbers when they end. */
  add(slot: number, requests: number, reserved: number): void {
    const position = ringPosition(slot, AGES);
    this.#requests[position] = (this.#requests[position] ?? 0) + requests;
    this.#reserved[position] = (this.#reserved[position] ?? 0) + reserved;
    this.#count += requests;
    this.#oldest = Math.min(this.#oldest, slot);
  }

  /** Requests that were sent in a slot. */
  at(slot: number): number {
    return this.#requests[ringPosition(slot, AGES)] ?? 0;
  }

  /** Output tokens that were reserved for the requests of a slot. */
  reservedAt(slot: number): number {
    return this.#reserved[ringPosition(slot, AGES)] ?? 0;
  }

  /** Moves `oldest` up to the first slot with requests, at most to `slot`. */
  advance(slot: number): void {
    while (this.#oldest < slot && this.at(this.#oldest) <= 0) this.#oldest += 1;
  }
}
