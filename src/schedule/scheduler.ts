/**
 * Where shards wait: one queue per lane, and the order in which lanes deserve attention.
 *
 * Lanes do not hold each other up: a provider that is cooling down keeps its own queue. Within a lane the most urgent
 * ticket goes first whatever run it belongs to (queue.ts). Whoever drives it asks `lanes()`, tries the first lane's
 * limits, and goes on to the next when it is refused.
 */
import { type LaneKey, laneKey, realtimeLane } from "./lanes.ts";
import { type NeedOf, ShardQueue, type Ticket } from "./queue.ts";

/** A ticket that says where it can run. */
export interface LaneTicket extends Ticket {
  readonly provider: string;
  readonly family: string;
}

/** What waits in all lanes. */
export interface Waiting {
  readonly tickets: number;
  readonly items: number;
}

export class Scheduler<T extends LaneTicket> {
  readonly #needMs: NeedOf<T> | undefined;
  /** Lanes with waiting work alone. */
  readonly #queues = new Map<LaneKey, ShardQueue<T>>();
  #tickets = 0;
  #items = 0;

  /** `needMs` is asked once per ticket; absent: 0. */
  constructor(needMs?: NeedOf<T>) {
    this.#needMs = needMs;
  }

  get waiting(): Waiting {
    return { tickets: this.#tickets, items: this.#items };
  }

  /** Queues a ticket in the realtime lane of its provider and family; returns the lane's key. */
  add(ticket: T): LaneKey {
    const key = laneKey(realtimeLane(ticket.provider, ticket.family));
    let queue = this.#queues.get(key);
    if (queue === undefined) {
      queue = new ShardQueue<T>(this.#needMs);
      this.#queues.set(key, queue);
    }
    queue.push(ticket);
    this.#tickets += 1;
    this.#items += ticket.items;
    return key;
  }

  /** The lane's most urgent ticket; undefined when nothing waits there. */
  peek(key: LaneKey): T | undefined {
    return this.#queues.get(key)?.peek();
  }

  /** Takes the lane's most urgent ticket; undefined when nothing waits there. */
  take(key: LaneKey): T | undefined {
    const queue = this.#queues.get(key);
    const ticket = queue?.pop();
    if (ticket !== undefined) this.#left(ticket);
    if (queue?.size === 0) this.#queues.delete(key);
    return ticket;
  }

  /** Keys of lanes with waiting work, most urgent first; a copy, so tickets may come and go meanwhile. */
  lanes(): readonly LaneKey[] {
    const keys = [...this.#queues.keys()];
    if (keys.length < 2) return keys;
    return [...this.#queues]
      .sort(([, left], [, right]) => left.latestStartMs - right.latestStartMs)
      .map(([key]) => key);
  }

  /** Takes all tickets whose deadline is at or before `nowMs`. */
  popExpired(nowMs: number): T[] {
    return this.#collect((queue) => queue.popExpired(nowMs));
  }

  /** Takes all tickets of a run. */
  removeRun(runId: string): T[] {
    return this.#collect((queue) => queue.removeRun(runId));
  }

  #collect(from: (queue: ShardQueue<T>) => readonly T[]): T[] {
    const collected: T[] = [];
    for (const [key, queue] of this.#queues) {
      for (const ticket of from(queue)) {
        this.#left(ticket);
        collected.push(ticket);
      }
      if (queue.size === 0) this.#queues.delete(key);
    }
    return collected;
  }

  #left(ticket: T): void {
    this.#tickets -= 1;
    this.#items -= ticket.items;
  }
}
