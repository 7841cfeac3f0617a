/**
 * Admits second attempts (dispatch/hedge.ts). To its lane, each is a separate call beside the call of its item: it has its own
 * permit, money and intent.
 *
 *   requested -> waits in its lane like a retry -> intent recorded -> durable -> under way
 *              | no money, too late, lane in trouble, run left      | withdrawn, its run is over
 *              +------------------> refused <-----------------------+
 *
 * The journal holds one open intent for each line, and everything that was closed before it. Where two requests of a line are
 * under way, it holds the first as doubt and the second as intent (replay.ts). When one of them has ended, the intent of the
 * other is recorded again after it (`stateAnew`).
 */
import type { Made } from "../../dispatch/dispatcher.ts";
import type { Hedging } from "../../dispatch/hedge.ts";
import type { LaneKey, LaneTerms } from "../../queue/lanes.ts";
import { NO_USAGE } from "../../work/outcome.ts";
import { intentOf } from "../items/call_records.ts";
import { ItemCall } from "../items/item_call.ts";
import type { Lane } from "./lane.ts";

export interface SecondAttemptsOptions {
  readonly nowMs: () => number;
  readonly laneOf: (key: LaneKey) => Lane;
  /** The lane that a call belongs in now. */
  readonly place: (call: ItemCall) => LaneTerms;
  readonly returnMoney: (call: ItemCall) => void;
  /** Frees the place of a call in its lane. */
  readonly free: (call: ItemCall, lane: Lane) => void;
  /** Records the ended attempts of a call. */
  readonly recordClosed: (call: ItemCall) => void;
}

/** One per engine; see `Hedging` for each method. */
export class SecondAttempts implements Hedging<ItemCall> {
  readonly #options: SecondAttemptsOptions;

  constructor(options: SecondAttemptsOptions) {
    this.#options = options;
  }

  isFor({ owner }: ItemCall): boolean {
    return owner.settings.isHedged;
  }

  async second(item: ItemCall, made: Made): Promise<ItemCall | undefined> {
    const { owner } = item;
    if (!owner.isOpen || item.isSkipped) return undefined;
    const { laneOf, place } = this.#options;
    const terms = place(item);
    const call = new ItemCall(owner, item.shard, item.index, item, item.plainLoad, terms);
    call.item = item;
    call.isRequested = true;
    item.second = call;
    const [attempt, ambiguousAttempts] = [made.attempts + 2, made.ambiguousAttempts + 1]; // the first counts as in doubt
    const isAdmitted = await laneOf(terms.key)
      .admitAgain(call, attempt, ambiguousAttempts)
      .then(
        () => true,
        () => false,
      );
    if (isAdmitted && !call.isWithdrawn) {
      call.isRequested = false;
      owner.items.requestsSent += 1;
      return call;
    }
    this.giveBack(call);
    return undefined;
  }

  withdraw({ second }: ItemCall): void {
    if (second?.isRequested === true) this.#options.laneOf(second.lane.key).withdraw(second);
  }

  giveBack(call: ItemCall): void {
    const { nowMs, laneOf, returnMoney, free, recordClosed } = this.#options;
    const { item, permit, owner } = call;
    item.second = undefined;
    returnMoney(call);
    if (permit === undefined) return;
    const lane = laneOf(call.lane.key);
    lane.limits.settle(nowMs(), permit, NO_USAGE);
    free(call, lane);
    if (owner.phase === "done") return;
    owner.changed(); // it may have been the only call in flight
    if (item.isOver) return;
    recordClosed(item); // its intent is durable: without this record the next process would count it as sent
    if (item.permit !== undefined) stateAnew(item);
  }
}

/** The other request of the same item that is under way; undefined without one. */
export function besideOf(call: ItemCall): ItemCall | undefined {
  const other = call.isSecond ? call.item : call.item.second;
  return other?.permit === undefined || other.isRequested ? undefined : other;
}

/** Records the intent of a request that is under way again, after the ended attempts of its item. */
export function stateAnew(call: ItemCall): void {
  const { attempts, ambiguousAttempts } = call.item.failed ?? call.item;
  call.owner.records.intentAgain(intentOf(call, attempts + 1, ambiguousAttempts));
}
