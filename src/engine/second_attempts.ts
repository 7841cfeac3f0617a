/**
 * Admission of second attempts (dispatch/hedge.ts): each is a call of its own for its lane, with its own permit, money and
 * intent, beside the call of its item.
 *
 *   asked -> waits in its lane like a retry -> intent recorded -> durable -> under way
 *              | no money, too late, lane in trouble, run left    | withdrawn, its run is over
 *              +----------------> refused <-----------------------+
 *
 * What the journal says of a line is one open intent, with all that was closed before it. Two requests of one line are open as
 * the doubt of the first and the intent of the second (replay.ts); when one has ended, the other is stated anew behind it
 * (`stateAnew`).
 */

import type { Made } from "../dispatch/dispatcher.ts";
import type { Hedging } from "../dispatch/hedge.ts";
import type { LaneKey } from "../schedule/lanes.ts";
import { NO_USAGE } from "../work/outcome.ts";
import { ItemCall } from "./item_call.ts";
import type { Lane } from "./lane.ts";
import { intentOf } from "./lane_intents.ts";

export interface SecondAttemptsOptions {
  readonly nowMs: () => number;
  readonly laneOf: (key: LaneKey) => Lane;
  /** Where a model's items go now. */
  readonly laneKeyOf: (model: string) => LaneKey;
  readonly returnMoney: (call: ItemCall) => void;
  /** Frees the place of a call. */
  readonly free: (call: ItemCall, lane: Lane) => void;
  /** Records what has ended of a call. */
  readonly recordClosed: (call: ItemCall) => void;
}

/** One for an engine. */
export class SecondAttempts implements Hedging<ItemCall> {
  readonly #options: SecondAttemptsOptions;

  constructor(options: SecondAttemptsOptions) {
    this.#options = options;
  }

  isFor({ run }: ItemCall): boolean {
    return run.settings.isHedged;
  }

  async second(item: ItemCall, made: Made): Promise<ItemCall | undefined> {
    const { run } = item;
    if (!run.isOpen || item.isSkipped) return undefined;
    const { laneOf, laneKeyOf } = this.#options;
    const key = laneKeyOf(item.model);
    const call = new ItemCall(run, item.shard, item.index, item, item.load, key);
    call.item = item;
    call.isAsked = true;
    item.second = call;
    const isAdmitted = await laneOf(key)
      .admitAgain(call, made.attempts + 2, made.ambiguousAttempts + 1)
      .then(
        () => true,
        () => false,
      );
    if (isAdmitted && !call.isWithdrawn) {
      call.isAsked = false;
      run.requestsSent += 1;
      return call;
    }
    this.giveBack(call);
    return undefined;
  }

  withdraw({ second }: ItemCall): void {
    if (second?.isAsked === true) this.#options.laneOf(second.lane).withdraw(second);
  }

  giveBack(call: ItemCall): void {
    const { nowMs, laneOf, returnMoney, free, recordClosed } = this.#options;
    const { item, permit, run } = call;
    item.second = undefined;
    returnMoney(call);
    if (permit === undefined) return;
    const lane = laneOf(call.lane);
    lane.limits.settle(nowMs(), permit, NO_USAGE);
    free(call, lane);
    if (run.phase === "done") return;
    run.changed(); // it may be all that was in flight
    if (item.isOver) return;
    recordClosed(item); // its intent is durable: without this the next process would take it for sent
    if (item.permit !== undefined) stateAnew(item);
  }
}

/** The other request of its item that is under way; undefined without one. */
export function besideOf(call: ItemCall): ItemCall | undefined {
  const other = call.isSecond ? call.item : call.item.second;
  return other?.permit === undefined || other.isAsked ? undefined : other;
}

/** Records the intent of a request that is under way, behind what has ended of its item. */
export function stateAnew(call: ItemCall): void {
  const { attempts, ambiguousAttempts } = call.item.failed ?? call.item;
  call.run.settings.log.intentAgain(intentOf(call, attempts + 1, ambiguousAttempts));
}
