/**
 * Open shards, or parts of them, in the order of their latest start; equal ones in the order in which they were opened.
 *
 *   opened -> its items are taken from the front -> none is left: closed
 *                \-> halved: its later half is a part of its own, opened last
 *
 * Hot path: asked for the first part and for the number of items before each item that a lane sends. A lane has up to 1,024
 * parts, of one item each where single lines arrive: to walk all of them took a quarter of the time of such a stream.
 */
import { latestStartMs, type Ticket } from "./queue.ts";

/** A ticket with the time that its work takes, in milliseconds. */
export interface OpenTicket extends Ticket {
  readonly needMs: number;
}

/** A part of a shard: its items from `next` to the one before `end` wait. */
export interface OpenPart<T> {
  readonly ticket: T;
  readonly next: number;
  readonly end: number;
}

interface Entry<T> extends OpenPart<T> {
  next: number;
  end: number;
  readonly latestStartMs: number;
  /** Order of openings. */
  readonly sequence: number;
}

export class OpenParts<T extends OpenTicket> implements Iterable<OpenPart<T>> {
  /** By `latestStartMs`, then by `sequence`. */
  #entries: Entry<T>[] = [];
  #opened = 0;
  #items = 0;

  get size(): number {
    return this.#entries.length;
  }

  /** Items that wait in all parts. */
  get items(): number {
    return this.#items;
  }

  [Symbol.iterator](): Iterator<OpenPart<T>> {
    return this.#entries.values();
  }

  /** Opens a part of at least one item. */
  open(ticket: T, next: number, end: number): void {
    this.#insert(ticket, next, end);
    this.#items += end - next;
  }

  /** The first of those wanted. */
  first(isWanted: (ticket: T) => boolean): OpenPart<T> | undefined {
    for (const entry of this.#entries) if (isWanted(entry.ticket)) return entry;
    return undefined;
  }

  /** Whether a shard that is not open would be before all that are wanted. */
  isBefore(ticket: T, isWanted: (ticket: T) => boolean): boolean {
    const first = this.first(isWanted);
    return first === undefined || startOf(ticket) < startOf(first.ticket);
  }

  /** That of the wanted ones which was opened last. */
  lastOpened(isWanted: (ticket: T) => boolean): OpenPart<T> | undefined {
    let last: Entry<T> | undefined;
    for (const entry of this.#entries)
      if (isWanted(entry.ticket) && (last === undefined || entry.sequence > last.sequence)) last = entry;
    return last;
  }

  /** The wanted one with the most items, of equal ones the one opened first; when it has several, its later half, from now on a part of its own. */
  laterHalf(isWanted: (ticket: T) => boolean): OpenPart<T> | undefined {
    let longest: Entry<T> | undefined;
    for (const entry of this.#entries)
      if (isWanted(entry.ticket) && (longest === undefined || isLonger(entry, longest))) longest = entry;
    if (longest === undefined || itemsOf(longest) === 1) return longest;
    const { ticket, next, end } = longest;
    longest.end = next + Math.floor(itemsOf(longest) / 2);
    return this.#insert(ticket, longest.end, end);
  }

  /** Takes so many items, at least one, from the front of a part; without any left it is closed. */
  take(part: OpenPart<T>, items: number): void {
    const index = this.#entries.indexOf(part as Entry<T>); // made by this class
    const entry = this.#entries[index];
    if (entry === undefined) return;
    this.#items -= Math.min(items, itemsOf(entry));
    entry.next += items;
    if (entry.next >= entry.end) this.#entries.splice(index, 1);
  }

  /** Closes all that are wanted. */
  close(isWanted: (ticket: T) => boolean): void {
    this.#entries = this.#entries.filter(({ ticket }) => !isWanted(ticket));
    this.#items = this.#entries.reduce((items, entry) => items + itemsOf(entry), 0);
  }

  #insert(ticket: T, next: number, end: number): Entry<T> {
    this.#opened += 1;
    const entry = { ticket, next, end, latestStartMs: startOf(ticket), sequence: this.#opened };
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as Entry<T>).latestStartMs <= entry.latestStartMs) low = middle + 1;
      else high = middle;
    }
    this.#entries.splice(low, 0, entry);
    return entry;
  }
}

function itemsOf({ next, end }: OpenPart<unknown>): number {
  return end - next;
}

function isLonger(one: Entry<unknown>, other: Entry<unknown>): boolean {
  return itemsOf(one) > itemsOf(other) || (itemsOf(one) === itemsOf(other) && one.sequence < other.sequence);
}

function startOf(ticket: OpenTicket): number {
  return latestStartMs(ticket, ticket.needMs);
}
