/**
 * Waiting shards in order of their latest start: a binary heap.
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

interface Entry<T> {
  readonly latestStartMs: number;
  /** Order of pushes. */
  readonly sequence: number;
  readonly ticket: T;
}

/** Milliseconds that a ticket's work takes under the limits; 0 or more. */
export type NeedOf<T> = (ticket: T) => number;

export class ShardQueue<T extends Ticket> {
  readonly #needMs: NeedOf<T>;
  #heap: Entry<T>[] = [];
  #pushed = 0;
  /** No ticket expires before this. May be too early, never too late. */
  #expiresMs = Number.POSITIVE_INFINITY;

  /** `needMs` is called once per push; absent: 0, which orders by deadline. */
  constructor(needMs: NeedOf<T> = () => 0) {
    this.#needMs = needMs;
  }

  get size(): number {
    return this.#heap.length;
  }

  push(ticket: T): void {
    this.#pushed += 1;
    this.#expiresMs = Math.min(this.#expiresMs, ticket.deadlineMs);
    this.#heap.push({
      latestStartMs: latestStartMs(ticket, Math.max(0, this.#needMs(ticket))),
      sequence: this.#pushed,
      ticket,
    });
    this.#siftUp(this.#heap.length - 1);
  }

  /** The most urgent ticket; undefined when empty. */
  peek(): T | undefined {
    return this.#heap[0]?.ticket;
  }

  /** Latest start of the most urgent ticket; Infinity when empty. */
  get latestStartMs(): number {
    return this.#heap[0]?.latestStartMs ?? Number.POSITIVE_INFINITY;
  }

  /** Takes the most urgent ticket; undefined when empty. */
  pop(): T | undefined {
    const top = this.#heap[0];
    const last = this.#heap.pop();
    if (top === undefined || last === undefined) return undefined;
    if (this.#heap.length > 0) {
      this.#heap[0] = last;
      this.#siftDown(0);
    }
    return top.ticket;
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
    const removed = this.#heap.filter((entry) => isWanted(entry.ticket));
    if (removed.length > 0) this.#heap = this.#heap.filter((entry) => !isWanted(entry.ticket));
    this.#expiresMs = Number.POSITIVE_INFINITY;
    for (const { ticket } of this.#heap) this.#expiresMs = Math.min(this.#expiresMs, ticket.deadlineMs);
    if (removed.length > 0)
      for (let index = (this.#heap.length >> 1) - 1; index >= 0; index--) this.#siftDown(index);
    return removed.sort(byUrgency).map((entry) => entry.ticket);
  }

  #siftUp(from: number): void {
    const heap = this.#heap;
    const entry = heap[from]!;
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = heap[parentIndex]!;
      if (byUrgency(entry, parent) >= 0) break;
      heap[index] = parent;
      index = parentIndex;
    }
    heap[index] = entry;
  }

  #siftDown(from: number): void {
    const heap = this.#heap;
    const entry = heap[from]!;
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      if (childIndex >= heap.length) break;
      const sibling = heap[childIndex + 1];
      if (sibling !== undefined && byUrgency(sibling, heap[childIndex]!) < 0) childIndex += 1;
      const child = heap[childIndex]!;
      if (byUrgency(child, entry) >= 0) break;
      heap[index] = child;
      index = childIndex;
    }
    heap[index] = entry;
  }
}

function byUrgency(left: Entry<Ticket>, right: Entry<Ticket>): number {
  return (
    left.latestStartMs - right.latestStartMs ||
    left.ticket.arrivedMs - right.ticket.arrivedMs ||
    left.sequence - right.sequence
  );
}
