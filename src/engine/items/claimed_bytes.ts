/**
 * Memory of requests under way: the lines of items that a lane has taken and that are not over, waits between attempts
 * included.
 *
 *   open --the bound is reached--> full: lanes take nothing new --below it--> open: all lanes go on
 *
 * Limit: 32 MiB, and what the item that reached it has above that. A line above 4 MiB counts twice, for its answer may be as
 * large. Items of 64 KiB never meet it below 512 in flight.
 */
import type { ItemCall } from "./item_call.ts";

const BYTES_MAX = 32 * 1024 * 1024;
const SINGLE_BYTES_MAX = 4 * 1024 * 1024;

/** One for an engine. */
export class ClaimedBytes {
  readonly #onOpen: () => void;
  #bytes = 0;

  constructor(onOpen: () => void) {
    this.#onOpen = onOpen;
  }

  get isFull(): boolean {
    return this.#bytes >= BYTES_MAX;
  }

  /** A lane takes the item of a call. */
  take(call: ItemCall): void {
    const bytes = call.lineBytes;
    call.claimedBytes = bytes <= SINGLE_BYTES_MAX ? bytes : 2 * bytes;
    this.#bytes += call.claimedBytes;
  }

  /** The call is over; twice changes nothing. */
  release(call: ItemCall): void {
    if (call.claimedBytes === 0) return;
    const wasFull = this.isFull;
    this.#bytes -= call.claimedBytes;
    call.claimedBytes = 0;
    if (wasFull && !this.isFull) this.#onOpen();
  }
}
