/**
 * Whose items lanes send: a run over a file (`run_state.ts`). All that lanes, limits and money know of it is here.
 *
 *   open -> stopping                    asked to stop: nothing new is sent, what is in flight ends
 *   open -> cancelling -> ending        nothing new is sent, nothing ends before the cancel is durable
 *   open -> ending (expired|cancelled)  what was not sent ends with that status
 *   open -> ending (giving_up)          what is held ends in an error, with the reason that holds it
 *   open | stopping | ending -> done
 */
import type { AnswerTap } from "../../dispatch/answer_tap.ts";
import type { Budget } from "../../price/budget.ts";
import type { MeasureOptions } from "../../shard/measure.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import type { LinePlaces } from "../../shard/reload.ts";
import type { Shard } from "../../shard/shard.ts";
import type { Outcome } from "../../work/outcome.ts";
import type { LaneRules } from "../config/lane_rules.ts";
import type { CostTerms } from "../journal/item_cost.ts";
import type { ClosedRecord, IntentRecord, Spent } from "../journal/journal.ts";
import type { FitTerms } from "../schemas/answer_fit.ts";
import type { HeldEnd, Hold } from "./holds.ts";
import type { ItemStates } from "./item_states.ts";
import type { UnsentEnd } from "./run_stopped.ts";
import type { SentBy } from "./sent_as.ts";

/** For how long requests in flight are waited for when work stops. */
export const DRAIN_MS = 30_000;

export type OwnerPhase = "open" | "stopping" | "cancelling" | "expired" | "cancelled" | "giving_up" | "done";

/** What does not change while an owner is at work. */
export interface OwnerTerms extends CostTerms, LaneRules {
  /** Monotonic; Infinity without sla. */
  readonly deadlineMs: number;
  /** Monotonic. */
  readonly startedMs: number;
  readonly budget: Budget;
  /** Whether what its cap cannot bound is sent all the same. */
  readonly allowsUnbounded: boolean;
  /** Whether a second attempt is sent beside one that hangs. */
  readonly isHedged: boolean;
  /** Empty for all owners without one. */
  readonly project: string;
  /** Of its project, above 0. */
  readonly weight: number;
  /** Where files are that its items name by a path; undefined where none may be read. */
  readonly mediaFolder: string | undefined;
  /** What answers must fit. */
  readonly fit: FitTerms;
  /** Whether the provider's own body is kept with the answer. */
  readonly keepsBody: boolean;
}

/** An item that was sent, as its records need it. */
export interface SentItem {
  readonly line: number;
  /** As a JSON string literal. */
  readonly keyJson: string;
  readonly model: string;
  /** In JSON; empty text without any. */
  readonly metadata: string;
  /** What was left out of it, as JSON; empty text for nothing. */
  readonly warnings: string;
  readonly spent: Spent;
  /** How its last request was sent; absent: in realtime. */
  readonly sentAs?: SentBy | undefined;
  /** When its first request left, Unix time. */
  readonly startedWallMs?: number | undefined;
}

/** The end of one of several items that were sent in one request. */
export interface JoinedEnd {
  readonly item: SentItem;
  /** Its share of the request's outcome. */
  readonly outcome: Outcome;
}

/** Makes durable what happens to items. Methods stage and return at once, and take effect in the order of their calls. */
export interface ItemRecords {
  /** A request is about to be sent: it may be once this is durable. */
  intent(record: IntentRecord, lane: string, whenDurable: () => void): void;
  /** States again an intent whose request is under way; in the step of what was closed beside it. */
  intentAgain(record: IntentRecord): void;
  /** An attempt ended, and its item continues. Not waited for: losing it in a crash only makes one more attempt ambiguous. */
  closed(record: ClosedRecord): void;
  /** Tokens beyond those of the intent, for the limits of the next process. */
  sentMore(lane: string, inputTokens: number, outputTokens: number): void;
  /** An item that was sent has ended. */
  outcome(item: SentItem, outcome: Outcome, whenDurable: () => void): void;
  /** Items that were sent in one request have ended, all in the same way. `whenDurable` is called once, after the last of them. */
  outcomes(ended: Iterable<JoinedEnd>, whenDurable: () => void): void;
  /** An item or line ends without a request, or a further one. `keyJson` is null when the key could not be read. */
  unsent(line: number, keyJson: string | null, end: UnsentEnd, whenDurable?: () => void): void;
}

/** Owns items with one budget, one project and one deadline. */
export interface ItemOwner {
  readonly id: string;
  readonly settings: OwnerTerms;
  readonly items: ItemStates;
  readonly records: ItemRecords;
  readonly phase: OwnerPhase;
  /** Whether lanes may send for it. */
  readonly isOpen: boolean;
  /** Why it cannot go on: nothing more is sent for it, also before it is closed. */
  readonly failure: Error | undefined;
  /** Aborts when it is no longer open. */
  readonly left: AbortSignal;
  /** Aborts when it is done: nobody waits for what is under way. */
  readonly over: AbortSignal;
  /** Items that are known and not in shards yet. */
  readonly unreadItems: number;
  /** Whether more items will be read: what waits for more of them may get it. */
  readonly hasMore: boolean;
  /** Items that are known and have not ended. */
  readonly openItems: number;
  /** Whether it does not wait for batches that are at their providers. */
  readonly isDetaching?: boolean;
  /** How its held items end; undefined while they wait. */
  readonly heldEnd: ((model: string) => HeldEnd) | undefined;
  /** What holds its items; what held them when it was left. */
  readonly holds: readonly Hold[];
  /** Who reads the answer of a line while it arrives; absent where nobody can. */
  tapOf?(line: number): AnswerTap | undefined;
  /** Whether an item was cancelled by itself: nothing more is sent for it. */
  skips(line: number): boolean;
  /** Brings back the bytes of a shard that were dropped. */
  reload(shard: Shard): Promise<void>;
  /**
   * Measures items again that no shard holds any more; those of an alias for the model that is `chosen` for it, by default its first.
   * Absent where items cannot be found again: then they stay with lanes.
   */
  readonly measureAgain?: (
    places: LinePlaces,
    chosen?: MeasureOptions["aliases"],
  ) => AsyncIterable<MeasuredBlock>;
  /** It cannot go on; what is recorded stays. */
  fail(error: Error): void;
  /** To be called after every change that may end it, or a pause of it. */
  changed(): void;
}
