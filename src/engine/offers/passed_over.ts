/**
 * Runs of which a lane sends nothing more for now, while it goes on with others: their money is held by requests in flight, or
 * they wait for a cheaper offer.
 *
 *   in turn --no money, or no place at an offer--> passed over --the lane is called again--> in turn
 *
 * Another run that arrives changes little for those that are passed over: its own work may take the time that they wait in. While they are many,
 * they are tried again a moment later, all arrivals of that moment together: a pass over 2,000 runs of one posted item takes 8 ms.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { ItemCall } from "../items/item_call.ts";

/** What a project has in the lane: keeps a call for its run's next turn. */
interface Keeps {
  unpaid(call: ItemCall): void;
}

/** So many are tried again at each arrival. */
const FEW = 16;
/** For so long arrivals change nothing for more of them. */
const MOMENT_MS = 100;

/** One for a lane. */
export class PassedOver {
  /** Their ids. */
  readonly runs: Set<string> = new Set();
  readonly #clock: Clock;
  readonly #again: () => void;
  #lacksMoney = false;
  /** For the shortest wait of them; undefined while nobody waits for time to pass. */
  #timer: Timer | undefined;
  /** Monotonic: when it fires. */
  #dueMs = Number.POSITIVE_INFINITY;
  /** Monotonic: when the first of them was passed over. */
  #sinceMs = 0;

  /** `again` is called when time has passed that a run waits for. */
  constructor(clock: Clock, again: () => void) {
    this.#clock = clock;
    this.#again = again;
  }

  /** Whether one of them has no money. */
  get lacksMoney(): boolean {
    return this.#lacksMoney;
  }

  /** All of them may be tried again. */
  clear(): void {
    this.#lacksMoney = false;
    if (this.runs.size === 0) return;
    this.runs.clear();
    this.close();
  }

  /** `items` of the call's project keep it; undefined for one that waits there anyway. */
  add(call: ItemCall, items?: Keeps): true {
    items?.unpaid(call);
    if (this.runs.size === 0) this.#sinceMs = this.#clock.nowMs();
    this.runs.add(call.owner.id);
    return true;
  }

  /** Another run has arrived. Returns whether they stay passed over, until `again` is called in a moment. */
  stay(): boolean {
    if (this.runs.size <= FEW) return false;
    this.#wakeBy(this.#sinceMs + MOMENT_MS);
    return true;
  }

  /** Nothing more of the call's run is tried before others release its money. */
  withoutMoney(call: ItemCall, items?: Keeps): true {
    this.#lacksMoney = true;
    return this.add(call, items);
  }

  /** Nor before an offer has a place, or `waitMs` have passed: all of the run has the same deadline, so none of it is more urgent. */
  forOffer(waitMs: number, call: ItemCall, items?: Keeps): true {
    this.#wakeBy(this.#clock.nowMs() + waitMs);
    return this.add(call, items);
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#dueMs = Number.POSITIVE_INFINITY;
  }

  #wakeBy(dueMs: number): void {
    if (dueMs >= this.#dueMs) return;
    this.close();
    this.#dueMs = dueMs;
    this.#timer = this.#clock.timer(Math.max(0, dueMs - this.#clock.nowMs()), this.#again);
  }
}
