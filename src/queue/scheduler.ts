/**
 * Where the shards of a project wait: one queue per lane.
 *
 * Lanes do not hold each other up: a provider that is cooling down keeps its own queue. Within a lane the most urgent
 * ticket is first, of any run (queue.ts). A run that may have to be skipped is apart, in its own queue: each of these is one
 * more to check for every ticket.
 */
import type { LaneKey } from "./lanes.ts";
import { type NeedOf, ShardQueue, type Ticket } from "./queue.ts";

/** A ticket that was placed. */
export interface LaneTicket extends Ticket {
  readonly lane: LaneKey;
}

/** What waits in all lanes. */
export interface WaitingWork {
  readonly tickets: number;
  readonly items: number;
}

/** What waits in one lane: runs that are apart have their own queues, by their ids. */
interface Queues<T extends Ticket> {
  readonly shared: ShardQueue<T>;
  readonly apart: Map<string, ShardQueue<T>>;
}

const NONE: ReadonlySet<string> = new Set();

export class Scheduler<T extends LaneTicket> {
  readonly #needMs: NeedOf<T> | undefined;
  /** Only lanes with waiting work. */
  readonly #lanes = new Map<LaneKey, Queues<T>>();
  #tickets = 0;
  #items = 0;

  /** `needMs` is called once per ticket; absent: 0. */
  constructor(needMs?: NeedOf<T>) {
    this.#needMs = needMs;
  }

  get waiting(): WaitingWork {
    return { tickets: this.#tickets, items: this.#items };
  }

  /** Queues a ticket in its lane. All tickets of a run that may have to be skipped are apart. */
  add(ticket: T, isApart: boolean = false): void {
    let queues = this.#lanes.get(ticket.lane);
    if (queues === undefined) {
      queues = { shared: new ShardQueue<T>(this.#needMs), apart: new Map() };
      this.#lanes.set(ticket.lane, queues);
    }
    let queue = isApart ? queues.apart.get(ticket.runId) : queues.shared;
    if (queue === undefined) {
      queue = new ShardQueue<T>(this.#needMs);
      queues.apart.set(ticket.runId, queue);
    }
    queue.push(ticket);
    this.#tickets += 1;
    this.#items += ticket.items;
  }

  /** The lane's most urgent ticket, of no run in `without` that is apart; undefined without one. */
  peek(key: LaneKey, without: ReadonlySet<string> = NONE): T | undefined {
    const queues = this.#lanes.get(key);
    return queues === undefined ? undefined : mostUrgent(queues, without).peek();
  }

  /** Takes what `peek` shows. */
  take(key: LaneKey, without: ReadonlySet<string> = NONE): T | undefined {
    const queues = this.#lanes.get(key);
    const ticket = queues === undefined ? undefined : mostUrgent(queues, without).pop();
    if (queues === undefined || ticket === undefined) return undefined;
    this.#left(ticket);
    this.#tidy(key, queues);
    return ticket;
  }

  /** Takes all tickets of a run. */
  removeRun(runId: string): T[] {
    const removed: T[] = [];
    for (const [key, queues] of this.#lanes) {
      for (const queue of [queues.shared, ...queues.apart.values()]) {
        for (const ticket of queue.removeRun(runId)) {
          this.#left(ticket);
          removed.push(ticket);
        }
      }
      this.#tidy(key, queues);
    }
    return removed;
  }

  /** Forgets queues that are empty. */
  #tidy(key: LaneKey, { shared, apart }: Queues<T>): void {
    for (const [runId, queue] of apart) if (queue.size === 0) apart.delete(runId);
    if (shared.size + apart.size === 0) this.#lanes.delete(key);
  }

  #left(ticket: T): void {
    this.#tickets -= 1;
    this.#items -= ticket.items;
  }
}

/** The queue whose first ticket is the most urgent; the shared one when all are empty. */
function mostUrgent<T extends Ticket>(
  { shared, apart }: Queues<T>,
  without: ReadonlySet<string>,
): ShardQueue<T> {
  let most = shared;
  if (apart.size === 0) return most;
  for (const [runId, queue] of apart) {
    const isSooner = most.size === 0 || queue.latestStartMs < most.latestStartMs;
    if (isSooner && !without.has(runId)) most = queue;
  }
  return most;
}
