/**
 * Intents of a lane on their way to the disk: a request leaves when its intent is durable, and never before.
 *
 *   recorded -> durable -> sent
 *                 \-> the disk is full by now -> waits here for space -> recorded again: a later process counts it from its
 *                 |                                                     last record, so no record may be older
 *                 |-> the lane is stopped by now -> given up: the item waits for its turn again
 *                 \-> its run has left -> given up
 */
import type { Clock } from "../../clock.ts";
import { debug } from "../../debug.ts";
import type { LaneLimits } from "../../limits/limits.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import { NO_USAGE } from "../../work/outcome.ts";
import { recordIntents } from "../items/call_records.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { IN_OFFERS } from "../items/sent_as.ts";
import type { Retry } from "./lane_items.ts";

/** What the limits' windows allow between a reservation and its request; they have 250 ms for this and for the wire. */
const LATE_MS = 150;

/** An intent, and who waits until it is durable. */
export interface Intended extends Pick<ItemCall, "ambiguousAttempts"> {
  readonly call: ItemCall;
  readonly attempt: number;
  /** What waits for another attempt; undefined for a call's first one. */
  readonly retry: Retry | undefined;
}

/** What intents need of the engine; see `LaneServices`. */
export interface IntentServices {
  readonly clock: Clock;
  /** False while the disk is full or the engine stops; of a request whose intent `isRecorded`, not before it is closed. */
  mayAdmit(isRecorded: boolean): boolean;
  returnMoney(call: ItemCall): void;
  /** The intent is durable: send. */
  send(call: ItemCall): void;
  /** Its run left before it could be sent, or the lane was stopped. */
  giveUp(call: ItemCall): void;
  /** Whether an answer would very probably arrive after the item's deadline. */
  isTooLate(call: ItemCall): boolean;
  /** Whether an item that is to be sent again leaves for another model. */
  leaves(call: ItemCall): boolean;
}

/** Why an item whose turn it is is not sent again, in words; undefined if it is. */
export function retryRefusal(call: ItemCall, services: IntentServices): string | undefined {
  if (call.isSkipped) return "its line was cancelled";
  if (call.owner.failure !== undefined) return "its run cannot go on";
  if (services.leaves(call)) return "it leaves for another model";
  return services.isTooLate(call) ? "its answer would be late" : undefined;
}

/** One for a lane. */
export class LaneIntents {
  readonly #key: LaneKey;
  readonly #limits: LaneLimits;
  readonly #services: IntentServices;
  #waitingForRoom: Intended[] = [];

  constructor(key: LaneKey, limits: LaneLimits, services: IntentServices) {
    this.#key = key;
    this.#limits = limits;
    this.#services = services;
  }

  /** Sends it, or gives it up, when the record of its intent is durable. */
  record(intended: Intended): void {
    const { call, attempt } = intended;
    debug.queue?.(
      `line ${call.line} of ${call.owner.id}: request ${attempt} to ${call.model} in ${this.#key}`,
    );
    recordIntents(call, this.#key, intended, () => this.#durable(intended));
  }

  /** The disk has space again. */
  recordAgain(): void {
    if (this.#waitingForRoom.length === 0) return;
    for (const intended of this.#waitingForRoom.splice(0))
      if (this.#isStopped(intended.call)) this.#giveUp(intended);
      else this.record(intended);
  }

  /** Gives up a second attempt as soon as its intent is durable. */
  withdraw(call: ItemCall): void {
    call.isWithdrawn = true;
    const waiting = this.#waitingForRoom.find((intended) => intended.call === call);
    if (waiting === undefined) return;
    this.#waitingForRoom.splice(this.#waitingForRoom.indexOf(waiting), 1);
    this.#giveUp(waiting);
  }

  /** Drops the waiting intents of a run. */
  drop(owner: ItemOwner): void {
    const left = this.#waitingForRoom.filter(({ call }) => call.owner === owner);
    this.#waitingForRoom = this.#waitingForRoom.filter(({ call }) => call.owner !== owner);
    for (const intended of left) this.#giveUp(intended);
  }

  /** The disk may have filled up with the very commit that brought the intent there, and its run or its item may be over. */
  #durable(intended: Intended): void {
    const { call } = intended;
    if (call.owner.phase === "done" || call.isWithdrawn || call.isSkipped) this.#giveUp(intended);
    else if (!this.#services.mayAdmit(true)) {
      if (call.owner.isOpen) this.#waitingForRoom.push(intended);
      else this.#giveUp(intended);
    } else if (this.#isStopped(call)) this.#giveUp(intended);
    else {
      if (this.#isLate(call)) this.#postpone(call);
      this.#go(intended);
    }
  }

  /** Whether it has been recorded for longer than the limits' windows allow: its disk was full or slow. */
  #isLate({ permit }: ItemCall): boolean {
    return permit !== undefined && this.#services.clock.nowMs() - permit.atMs > LATE_MS;
  }

  /** Whether the provider has refused others meanwhile, so that it must not leave yet. */
  #isStopped({ permit }: ItemCall): boolean {
    return permit !== undefined && this.#limits.isStoppedFor(this.#services.clock.nowMs(), permit);
  }

  #go({ call, retry }: Intended): void {
    const { item } = call; // of a second attempt, the first one
    item.startedWallMs ??= this.#services.clock.wallMs();
    item.sentAs = call.offer === undefined ? undefined : IN_OFFERS[call.offer.kind];
    if (retry === undefined) this.#services.send(call);
    else retry.resolve();
  }

  #giveUp({ call, retry }: Intended): void {
    const { permit } = call;
    call.isUnsent = true;
    this.#services.returnMoney(call);
    if (permit !== undefined) this.#limits.settle(this.#services.clock.nowMs(), permit, NO_USAGE);
    if (retry === undefined) this.#services.giveUp(call);
    else retry.reject(new Error("its run left, or the lane is stopped"));
  }

  /** The limits have counted it when it was admitted; it leaves only now. */
  #postpone({ permit }: ItemCall): void {
    if (permit !== undefined) this.#limits.postpone(this.#services.clock.nowMs(), permit);
  }
}
