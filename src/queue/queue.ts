/**
 * Waiting shards in order of their latest start.
 *
 * Key: `deadlineMs - needMs`, the last moment at which a shard can start and still be done in time; without a deadline
 * `arrivedMs`: it wanted to start when it arrived. Of equal ones the earlier arrival is first, then the earlier push.
 *
 * Why this ages without touching a key again: a key is a moment, and moments get closer by themselves. Work that
 * arrives at `t` and can still be done in time has a key of at least `t`. So from its latest start on a shard is
 * before everything that arrives later, and before then it is only passed by work that must start earlier. By the
 * optimality of earliest-deadline-first on one server (Liu and Layland 1973, theorem 7) no shard starts late that any
 * order could have started in time. Under overload work that can no longer be done is taken out by `popExpired`, so
 * a flood of short deadlines holds a long one up by at most the work of one short deadline; a flood without deadlines
 * is served by arrival, and waits for what arrived before its latest start and is still unserved.
 * Several runs of equal urgency are served by arrival, whosever they are.
 *
 * `push` and `pop` take O(log n); `removeRun` O(n); `popExpired` O(1) while nothing can have expired, else O(n).
 * A ticket costs a few hundred bytes, and represents a shard of hundreds of lines: ten million lines are kilobytes each
 * thousand shards.
 */
import { Heap } from "./heap.ts";

/** A shard that waits to be sent. */
export interface Ticket {
  readonly runId: string;
  readonly items: number;
  readonly inputTokens: number;
  readonly expectedOutputTokens: number;
  /** Monotonic; Infinity: without a deadline, wants to run at once. */
  readonly deadlineMs: number;
  /** Monotonic. */
  readonly arrivedMs: number;
}

/** The last moment at which a ticket can start in time when it takes `needMs`; its arrival when it has no deadline. */
export function latestStartMs(ticket: Ticket, needMs: number = 0): number {
  return ticket.deadlineMs === Number.POSITIVE_INFINITY ? ticket.arrivedMs : ticket.deadlineMs - needMs;
}

/** Milliseconds that a ticket's work takes under the limits; 0 or more. */
export type NeedOf<T> = (ticket: T) => number;

/** See above. */
export class ShardQueue<T extends Ticket> {
  readonly #needMs: NeedOf<T>;
  /** By latest start, then by arrival. */
  readonly #heap = new Heap<T>((left, right) => left.arrivedMs - right.arrivedMs);
  /** No ticket expires before this. May be too early, never too late. */
  #expiresMs = Number.POSITIVE_INFINITY;

  /** `needMs` is called once per push; absent: 0, which orders by deadline. */
  constructor(needMs: NeedOf<T> = () => 0) {
    this.#needMs = needMs;
  }

  get size(): number {
    return this.#heap.size;
  }

  push(ticket: T): void {
    this.#expiresMs = Math.min(this.#expiresMs, ticket.deadlineMs);
    this.#heap.push(latestStartMs(ticket, Math.max(0, this.#needMs(ticket))), ticket);
  }

  /** The most urgent ticket; undefined when empty. */
  peek(): T | undefined {
    return this.#heap.peek()?.value;
  }

  /** Latest start of the most urgent ticket; Infinity when empty. */
  get latestStartMs(): number {
    return this.#heap.peek()?.key ?? Number.POSITIVE_INFINITY;
  }

  /** Takes the most urgent ticket; undefined when empty. */
  pop(): T | undefined {
    return this.#heap.pop();
  }

  /** Takes all tickets of a run, most urgent first. */
  removeRun(runId: string): T[] {
    return this.#remove((ticket) => ticket.runId === runId);
  }

  /** Takes all tickets whose deadline is at or before `nowMs`, most urgent first. */
  popExpired(nowMs: number): T[] {
    return nowMs < this.#expiresMs ? [] : this.#remove((ticket) => ticket.deadlineMs <= nowMs);
  }

  #remove(isWanted: (ticket: T) => boolean): T[] {
    const removed = this.#heap.take(isWanted);
    this.#expiresMs = Number.POSITIVE_INFINITY;
    for (const { deadlineMs } of this.#heap.values()) this.#expiresMs = Math.min(this.#expiresMs, deadlineMs);
    return removed;
  }
}
