/**
 * What the journal says of one line, as events.
 *
 *   requested -> ended | in doubt -> requested again ... -> committed --its line is removed--> reopened -> requested again ...
 *
 * Each happens once, although the journal may record it again: sums of attempts when a run stops or is restated
 * (reopening/restate.ts), and requests that waited for space on the disk.
 */
import type { FailureCode } from "../errors.ts";
import { usdText } from "../price/money.ts";
import type { LaneKey } from "../queue/lanes.ts";
import { failureText } from "./items/run_stopped.ts";
import { addDoubt } from "./journal/item_cost.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  type OutcomeRecord,
  type Step,
} from "./journal/journal.ts";

/** One thing that happened to an item. */
export interface TraceEvent {
  /** ISO 8601; null where nothing says when. */
  readonly at: string | null;
  readonly event:
    | "accepted"
    | "waiting"
    | "held"
    | "released"
    | "admitted"
    | "ended"
    | "in doubt"
    | "committed"
    | "written"
    | "damaged"
    | "reopened";
  /** Of `admitted`, `ended` and `in doubt`: the number of the request, from 1. */
  readonly attempt?: number;
  /** Of `ended`, when the request failed and is not the last: the code of its error. Absent where a version before this one recorded it. */
  readonly code?: FailureCode;
  /** The HTTP status that it was refused with. */
  readonly http_status?: number;
  /** Why, and with what figures. */
  readonly detail: string;
}

/** What a step of the journal, or an entry of the work log, says of the line. */
export interface LifeStep extends Pick<Step, "voids" | "intents" | "closed" | "outcomes" | "sent"> {
  /** Whether the price of a number that its records have is known. */
  readonly isPriced: (priceNumber: number) => boolean;
}

/** How the line is opened again. */
const REOPENED = {
  output:
    "its line was removed from the output, to request it again; earlier requests no longer count against it",
  log: "a retry opened it again; earlier requests no longer count against it",
} as const;

interface TracedLine {
  /** Its number, which must be the same in all steps. */
  readonly line: number;
  /** Where its answer is kept. */
  readonly kept: keyof typeof REOPENED;
}

/** Apply the steps of its task in order. */
export class ItemLife {
  readonly events: TraceEvent[] = [];
  outcome: OutcomeRecord | undefined;
  settledAt: string | null = null;
  /** The request without a recorded end. */
  open: IntentRecord | undefined;
  /** Where its last request was sent; undefined before the first one, and where the journal does not say. */
  lane: LaneKey | undefined;
  readonly #of: TracedLine;
  /** What attempts that ended took so far. */
  #before: ClosedRecord | undefined;
  #lastSequence = 0;
  /** When the last restatement was written. */
  #restatedAt: string | null = null;
  /** Whether the line stays in the output by the restatement that counts. */
  #isKept = false;

  constructor(of: TracedLine) {
    this.#of = of;
  }

  apply(sequence: number, step: LifeStep, at: string): void {
    if (step.voids > 0 && step.voids === this.#lastSequence && this.outcome !== undefined) {
      this.outcome = undefined;
      this.events.push({
        at,
        event: "damaged",
        detail: "a power cut damaged its line: it is requested again",
      });
    }
    for (const record of recordsOf(step, this.#of.line)) {
      if ("attempt" in record) this.#admit(record, step, at);
      else this.#end(record, step, at);
    }
    const outcome = step.outcomes.find(({ line }) => line === this.#of.line);
    if (outcome === undefined) return;
    this.#reopen(at);
    this.open = undefined;
    this.#lastSequence = sequence;
    this.#settle(outcome, step, at);
  }

  /** A step of a restatement: what was recorded, once more, or its sums. Of an abandoned one, which may not count, they are the same. */
  restate(step: Pick<LifeStep, "closed" | "outcomes" | "isPriced">, at: string, isCounting: boolean): void {
    this.#restatedAt = at;
    this.#before = step.closed.find(({ line }) => line === this.#of.line) ?? this.#before;
    const outcome = step.outcomes.find(({ line }) => line === this.#of.line);
    if (!isCounting || outcome === undefined) return;
    this.#isKept = true;
    if (this.outcome === undefined) this.#settle(outcome, step, at);
  }

  /** The restatement that counts is over; `at`: when the next step was recorded. */
  restated(at: string | null): void {
    if (!this.#isKept) this.#reopen(at);
  }

  #settle(outcome: OutcomeRecord, { isPriced }: Pick<LifeStep, "isPriced">, at: string): void {
    this.outcome = outcome;
    this.settledAt = at;
    this.events.push({ at, event: "committed", detail: outcomeText(outcome, isPriced(outcome.priceNumber)) });
  }

  #reopen(at: string | null): void {
    if (this.outcome === undefined) return;
    this.outcome = undefined;
    this.events.push({
      at: this.#restatedAt ?? at,
      event: "reopened",
      detail: REOPENED[this.#of.kept],
    });
  }

  #admit(intent: IntentRecord, { sent }: LifeStep, at: string): void {
    const { open } = this;
    if (open?.attempt === intent.attempt) return; // recorded again, after a full disk or beside a second request
    this.#reopen(at);
    if (open !== undefined && open.attempt < intent.attempt) {
      this.events.push({
        at,
        event: "in doubt",
        attempt: open.attempt,
        detail: `its end was not recorded; ${doubtText(open.mostUsd)}`,
      });
      this.#before = withDoubt(this.#before, open);
    }
    this.open = intent;
    const { inputTokens, outputTokens, mostUsd } = intent;
    const [lane, another] = sent;
    const isKnown = lane !== undefined && another === undefined;
    if (isKnown) this.lane = lane.lane;
    const where = isKnown ? `${lane.lane}: ` : "";
    const money = mostUsd > 0 ? `, at most ${usdText(mostUsd)}` : "";
    this.events.push({
      at,
      event: "admitted",
      attempt: intent.attempt,
      detail: `${where}reserved ${inputTokens} input and ${outputTokens} output tokens${money}`,
    });
  }

  /** Sums that say nothing new are those of a request that never left, or recorded again because the run stopped. */
  #end(closed: ClosedRecord, { isPriced }: Pick<LifeStep, "isPriced">, at: string): void {
    const { open } = this;
    const isNew = closed.attempts > (this.#before?.attempts ?? 0);
    if (isNew) {
      const { code, httpStatus = 0 } = closed.failure ?? {};
      this.events.push({
        ...{ at, event: "ended", attempt: closed.attempts },
        ...(code === undefined ? {} : { code }),
        ...(httpStatus === 0 ? {} : { http_status: httpStatus }),
        detail: endText(closed, this.#before, isPriced(closed.priceNumber)),
      });
    } else if (open !== undefined) {
      const detail = "it was not sent: its run or its lane was stopped first";
      this.events.push({ at, event: "ended", attempt: open.attempt, detail });
    }
    if (!isNew || (open?.attempt ?? 0) <= closed.attempts) this.open = undefined; // else a second request is under way
    this.#before = closed;
  }
}

/** What was taken with a request without a recorded end: of the next one only what is beyond that is its own. */
function withDoubt(before: ClosedRecord | undefined, { line, attempt, mostUsd }: IntentRecord): ClosedRecord {
  const { ambiguousAttempts = 0, uncounted = 0, uncountedAmbiguous = 0, unusableAnswers = 0 } = before ?? {};
  return {
    ...addDoubt(before ?? NOTHING_SPENT, mostUsd),
    unusableAnswers,
    line,
    attempts: attempt,
    ambiguousAttempts: ambiguousAttempts + 1,
    uncounted: uncounted + 1,
    uncountedAmbiguous: uncountedAmbiguous + 1,
  };
}

/** Requests and ends of a line, in the order in which they happened. */
function recordsOf({ intents, closed }: LifeStep, own: number): (IntentRecord | ClosedRecord)[] {
  const orderOf = (record: IntentRecord | ClosedRecord): number =>
    "attempt" in record ? record.attempt * 2 : record.attempts * 2 + 1;
  return [...intents, ...closed]
    .filter(({ line }) => line === own)
    .sort((left, right) => orderOf(left) - orderOf(right));
}

function endText(closed: ClosedRecord, before: ClosedRecord | undefined, isPriced: boolean): string {
  const isDoubtful = closed.ambiguousAttempts > (before?.ambiguousAttempts ?? 0);
  const isCounted = closed.attempts - closed.uncounted > (before?.attempts ?? 0) - (before?.uncounted ?? 0);
  const billedUsd = closed.billedUsd - (before?.billedUsd ?? 0);
  const tokens = tokensOf(closed) - (before === undefined ? 0 : tokensOf(before));
  const isUnknown = !isPriced && tokens > 0;
  const money = billedUsd > 0 || isUnknown ? moneyText(billedUsd, isUnknown) : "nothing billed";
  const isUnusable = closed.unusableAnswers > (before?.unusableAnswers ?? 0);
  const how = closed.failure === undefined ? "" : ` (${failureText(closed.failure)})`;
  const failure = isUnusable ? "its answer could not be used" : "it failed";
  const why = isDoubtful
    ? `it failed without an answer${how}, and may have been billed`
    : `${failure}${how}, ${money}`;
  const blame = isCounted
    ? "; it counts as one of the item's attempts"
    : "; it does not count against the item (an outage, a limit, an account or a restart)";
  return `${why}${blame}`;
}

/** How an item ended, after what requests, for what money. */
export function outcomeText(
  outcome: Pick<OutcomeRecord, "status" | "code" | "attempts" | "isEstimated" | keyof Taken>,
  isPriced: boolean,
): string {
  const { status, code, attempts, inputTokens, outputTokens, billedUsd, ambiguousUsd, isEstimated } = outcome;
  const how = code === undefined ? status : `${status} (${code})`;
  if (attempts === 0) return `${how}, no request was sent`;
  const doubt = ambiguousUsd > 0 ? `, at most ${usdText(ambiguousUsd)} more in doubt` : "";
  const requests = attempts === 1 ? "1 request" : `${attempts} requests`;
  const isUnknown = !isPriced && (tokensOf(outcome) > 0 || isEstimated);
  const estimate = isEstimated && !isUnknown ? " (estimated)" : "";
  return `${how} after ${requests}: ${inputTokens} input and ${outputTokens} output tokens, ${moneyText(billedUsd, isUnknown)}${estimate}${doubt}`;
}

type Taken = Pick<OutcomeRecord, "inputTokens" | "outputTokens" | "billedUsd" | "ambiguousUsd">;

function tokensOf({ inputTokens, outputTokens }: Pick<Taken, "inputTokens" | "outputTokens">): number {
  return inputTokens + outputTokens;
}

/** `mostUsd`: 0 where the price is not known. */
function doubtText(mostUsd: number): string {
  return mostUsd > 0 ? `it may have cost ${usdText(mostUsd)}` : "it may have been billed";
}

/** `isUnknown`: at a price that is not known. */
function moneyText(billedUsd: number, isUnknown: boolean): string {
  if (!isUnknown) return `${usdText(billedUsd)} billed`;
  return billedUsd > 0 ? `at least ${usdText(billedUsd)} billed` : "the price is not known";
}
