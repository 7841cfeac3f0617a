/**
 * Where the items of one owner are: the counts and sets that lanes and their owner keep together.
 *
 *   waiting (in a shard) -> claimed (a lane has it: intent, request, retries) -> done (its outcome is durable)
 *   waiting -> held (until the caller changes something) -> read again
 */
import type { FailureCode } from "../../errors.ts";
import type { LaneTerms } from "../../queue/lanes.ts";
import { LineSet } from "../../work/line_set.ts";
import type { AttemptsMade } from "../journal/replay.ts";
import type { HeldLines, HoldReason } from "./holds.ts";

/** The most holds that are counted separately; further missing providers and models without a price count together. */
const NAMED_HOLDS_MAX = 100;

/** Items that are held for one reason. */
interface HeldCount extends HeldLines {
  items: number;
  readonly sinceMs: number;
  mostUsd?: number;
}

/** An item whose last request failed. */
interface Retrying {
  readonly code: FailureCode;
  readonly message: string;
  /** `retryAtMs`: monotonic; set once the wait has begun. */
  readonly call: { readonly retryAtMs?: number; readonly lane: Pick<LaneTerms, "key"> };
}

/** One for an owner. The line identifies an item. */
export class ItemStates {
  readonly done: LineSet;
  readonly claimed: LineSet = new LineSet(0);
  /** What was sent of lines that are not done. */
  readonly made: Map<number, AttemptsMade>;
  /** Items in shards, in the backlog or in a lane. */
  waitingItems = 0;
  inFlight = 0;
  /** Lines whose last request failed, until the next one is sent: why it failed, and when the next one is due. */
  readonly retrying: Map<number, Retrying> = new Map();
  requestsSent = 0;
  /** Lines that were in a batch which did not finish them, and how often; of those that may be in one again. */
  readonly requeues: Map<number, number> = new Map();
  /** Lines that no batch is to take again. */
  readonly notBatched: LineSet = new LineSet(0);
  /** Items that wait for a change by the caller, by what holds them. */
  readonly held: Map<string, HeldCount> = new Map();

  /** Takes over `done`. */
  constructor(done: LineSet, made: Iterable<readonly [number, AttemptsMade]> = []) {
    this.done = done;
    this.made = new Map(made);
  }

  /** Nothing waits, nothing is claimed, and nothing is held. */
  get isIdle(): boolean {
    return this.waitingItems === 0 && this.claimed.size === 0 && this.held.size === 0;
  }

  /** Whether a line is neither done nor with a lane. */
  isOpen(line: number): boolean {
    return !this.done.has(line) && !this.claimed.has(line);
  }

  /**
   * Whether an item that waits is to be dropped: its line is done or with a lane already, because it was read twice. A batch may give it
   * back before the input is read up to it.
   */
  dropsTwin(line: number): boolean {
    if (this.isOpen(line)) return false;
    this.waitingItems = Math.max(0, this.waitingItems - 1);
    return true;
  }

  /** A lane takes a line that waited. */
  claim(line: number): void {
    this.waitingItems -= 1;
    this.claimed.add(line);
  }

  /** What is open of lines that did not wait. */
  claimOpen(lines: Iterable<number>): void {
    for (const line of lines) if (!this.done.has(line)) this.claimed.add(line);
  }

  /** A line's outcome is durable. */
  finished(line: number): void {
    this.done.add(line);
    this.claimed.delete(line);
    this.made.delete(line);
  }

  /** Items are neither waiting nor claimed before the caller changes something. */
  hold(lines: HeldLines, items: number, nowMs: number): void {
    const own = JSON.stringify([lines.reason, lines.provider, lines.model]);
    const isNamed = this.held.has(own) || this.held.size < NAMED_HOLDS_MAX;
    const { provider: _provider, model: _model, ...unnamed } = lines;
    const key = isNamed ? own : lines.reason;
    const held = this.held.get(key);
    if (held === undefined) this.held.set(key, { ...(isNamed ? lines : unnamed), items, sinceMs: nowMs });
    else {
      held.items += items;
      held.mostUsd = Math.min(held.mostUsd ?? 0, lines.mostUsd ?? 0);
    }
  }

  /** Whether something is held for that reason. */
  isHeldBy(reason: HoldReason): boolean {
    for (const lines of this.held.values()) if (lines.reason === reason) return true;
    return false;
  }
}
