/**
 * The sum of the steps of a task's journal: which lines are done, which attempts open ones have made, and what was spent.
 *
 * Pure: steps in, state out. Steps may void the last one that wrote output, or restate all.
 */
import type { Made } from "../../dispatch/dispatcher.ts";
import type { Taken } from "../../price/budget.ts";
import { LineSet } from "../../work/line_set.ts";
import { combineCrc32 } from "./checksum.ts";
import { addDoubt, addGone } from "./item_cost.ts";
import {
  type AttemptFailure,
  type ClosedRecord,
  endsIntent,
  type IntentRecord,
  NOTHING_SPENT,
  type OutcomeRecord,
  RESTATES,
  type Spent,
  type Step,
  type WarnedRecord,
} from "./journal.ts";
import type { WrittenRange } from "./output.ts";
import { RELEASES_HELD } from "./task_log.ts";
import { Totals } from "./totals.ts";

/** Attempts already made for a line that has no outcome yet. */
export interface AttemptsMade extends Made {
  /** True when the last attempt's end is unknown: it may have been answered and billed. */
  readonly isInDoubt: boolean;
  /** The last attempt, when it is in doubt. */
  readonly intent?: IntentRecord;
  /** How the last of those failed that have ended; absent where it is not known. */
  readonly failure?: AttemptFailure | undefined;
  readonly spent: Spent;
  /** When its first request was recorded, Unix time; absent where that is not known. */
  readonly startedWallMs?: number | undefined;
}

/** How far the output is written. */
export interface OutputPlace {
  readonly end: number;
  readonly crc32: number;
}

const START: OutputPlace = { end: 0, crc32: 0 };

/** The state that steps add up to. */
export class Replay {
  done: LineSet = new LineSet();
  totals: Totals = new Totals();
  readonly open: Map<number, IntentRecord> = new Map();
  readonly closed: Map<number, ClosedRecord> = new Map();
  /** What attempts before the open one took. */
  readonly spent: Map<number, ClosedRecord> = new Map();
  /** What lines took that are no longer in the input. */
  gone: ClosedRecord[] = [];
  /** Outcomes whose range was damaged: their lines may be whole all the same. */
  readonly voided: Map<number, OutcomeRecord> = new Map();
  /** When the first request of each open line was recorded, Unix time. */
  readonly started: Map<number, number> = new Map();
  readonly #counted = new CountedMoney();
  held: Uint8Array[] = [];
  /** The end of the output, and the checksum up to there. */
  out: OutputPlace = START;
  last:
    | {
        readonly sequence: number;
        readonly range: WrittenRange;
        /** The output up to the range. */
        readonly before: OutputPlace;
        /** Whose lines are in the range. */
        readonly outcomes: readonly OutcomeRecord[];
        readonly warned: readonly WarnedRecord[];
        /** What they had sent, by line. */
        readonly intents: ReadonlyMap<number, IntentRecord>;
        /** What attempts before that took, by line. */
        readonly spent: ReadonlyMap<number, ClosedRecord>;
        /** Held lines that are in it instead; the journal has them still. */
        readonly released: readonly Uint8Array[];
      }
    | undefined;

  /** `wallMs`: when the step was appended, Unix time. */
  apply(sequence: number, step: Step, wallMs?: number): void {
    this.#counted.apply(step, () => this.#recorded());
    const isRelease = step.voids === RELEASES_HELD;
    const released = isRelease ? this.held : [];
    if (isRelease) this.held = [];
    else if (step.voids > 0) this.#void(step.voids);
    else if (step.voids === RESTATES) this.#forget();
    for (const intent of step.intents) {
      const before = this.open.get(intent.line);
      if (before !== undefined && before.attempt < intent.attempt) this.#doubt(before); // else stated again, by when it left
      this.open.set(intent.line, intent);
      if (wallMs !== undefined && !this.started.has(intent.line)) this.started.set(intent.line, wallMs);
      this.closed.delete(intent.line);
      this.voided.delete(intent.line); // an answer that is found from now on belongs to another request
    }
    for (const record of step.closed) {
      if (record.line === 0) {
        this.totals.carry(record);
        addGone(this.gone, record);
        continue;
      }
      this.spent.set(record.line, record);
      const intent = this.open.get(record.line);
      if (intent !== undefined && !endsIntent(step, record, intent)) continue; // the next attempt is in the same step
      this.open.delete(record.line);
      this.closed.set(record.line, record);
    }
    const intents = new Map<number, IntentRecord>();
    const spent = new Map<number, ClosedRecord>();
    for (const outcome of step.outcomes) {
      const intent = this.open.get(outcome.line);
      if (intent !== undefined) intents.set(outcome.line, intent);
      const before = this.spent.get(outcome.line);
      if (before !== undefined) spent.set(outcome.line, before);
      this.settle(outcome);
    }
    for (const [list, lines] of step.warned) this.totals.warn(list, lines);
    if (step.held.byteLength > 0) this.held.push(step.held);
    if (step.outEnd > step.outStart) {
      const { outcomes, warned } = isRelease ? { outcomes: [], warned: [] } : step;
      const before = this.out;
      this.last = { sequence, range: step, before, outcomes, warned, intents, spent, released };
      const crc32 = combineCrc32(before.crc32, step.outCrc32, step.outEnd - step.outStart);
      this.out = { end: step.outEnd, crc32 };
    }
  }

  /** Another request follows one whose end was never recorded: what that may have cost stays in doubt. */
  #doubt(intent: IntentRecord | undefined): void {
    if (intent === undefined) return;
    const { line, attempt, ambiguousAttempts, mostUsd } = intent;
    const before = this.spent.get(line);
    this.spent.set(line, {
      ...addDoubt(before ?? NOTHING_SPENT, mostUsd),
      line,
      attempts: attempt,
      uncounted: (before?.uncounted ?? 0) + 1,
      ambiguousAttempts: ambiguousAttempts + 1,
      uncountedAmbiguous: (before?.uncountedAmbiguous ?? 0) + 1,
      unusableAnswers: before?.unusableAnswers ?? 0,
    });
  }

  settle(outcome: OutcomeRecord): void {
    if (!this.done.add(outcome.line)) return;
    this.totals.add(outcome);
    this.open.delete(outcome.line);
    this.closed.delete(outcome.line);
    this.spent.delete(outcome.line);
    this.started.delete(outcome.line);
  }

  taken(): Taken {
    const { billedUsd, ambiguousUsd } = this.#recorded();
    return { billedUsd, ambiguousUsd: ambiguousUsd + this.unrecordedUsd };
  }

  get outEnd(): number {
    return this.out.end;
  }

  /** Of the output up to there. */
  get outCrc32(): number {
    return this.out.crc32;
  }

  /** What a cap had counted at the last step. */
  get committedUsd(): number {
    return this.#counted.committedUsd;
  }

  /** What a cap counted beyond what is recorded, in steps that did not say what is in doubt. */
  get unrecordedUsd(): number {
    return this.#counted.unrecordedUsd(() => this.#recorded());
  }

  /** Whether the last step says what its requests may cost; those of earlier versions do not. */
  get hasMoney(): boolean {
    return this.#counted.hasMoney;
  }

  /** By settled lines, by attempts of open ones, and by requests in doubt. */
  #recorded(): Taken {
    let { billedUsd, ambiguousUsd } = this.totals;
    for (const spent of this.spent.values()) {
      billedUsd += spent.billedUsd;
      ambiguousUsd += spent.ambiguousUsd;
    }
    for (const intent of this.open.values()) ambiguousUsd += intent.mostUsd;
    return { billedUsd, ambiguousUsd };
  }

  attemptsMade(): Map<number, AttemptsMade> {
    const made = new Map<number, AttemptsMade>();
    for (const [line, record] of this.closed)
      made.set(line, { ...madeOf(record), startedWallMs: this.started.get(line) });
    for (const [line, intent] of this.open) {
      const before = this.spent.get(line) ?? NOTHING_SPENT;
      made.set(line, {
        attempts: intent.attempt,
        ambiguousAttempts: intent.ambiguousAttempts + 1,
        // The process that died is not the item's fault.
        uncounted: (this.spent.get(line)?.uncounted ?? 0) + 1,
        uncountedAmbiguous: (this.spent.get(line)?.uncountedAmbiguous ?? 0) + 1,
        unusableAnswers: this.spent.get(line)?.unusableAnswers ?? 0,
        isInDoubt: true,
        intent,
        spent: addDoubt(before, intent.mostUsd),
        startedWallMs: this.started.get(line),
      });
    }
    return made;
  }

  /** Undoes the outcomes of the last step that wrote output: only that one can be void. */
  #void(sequence: number): void {
    if (this.last?.sequence !== sequence) return;
    for (const outcome of this.last.outcomes) {
      this.done.delete(outcome.line);
      this.totals.remove(outcome);
      if (outcome.attempts > 0) this.#reopen(outcome, this.last.intents.get(outcome.line), this.last.spent);
    }
    for (const [list, lines] of this.last.warned) this.totals.warn(list, -lines);
    this.held = [...this.last.released, ...this.held];
    this.out = { end: this.last.range.outStart, crc32: this.last.before.crc32 };
    this.last = undefined;
  }

  /**
   * A settled line is requested again. What it took is counted still, because its answer was paid for; its earlier attempts
   * count against it or not, as before, and the one whose line was damaged does not.
   */
  #reopen(
    outcome: OutcomeRecord,
    intent: IntentRecord | undefined,
    spent: ReadonlyMap<number, ClosedRecord>,
  ): void {
    const { line } = outcome;
    const { uncounted = 0, uncountedAmbiguous = 0, unusableAnswers = 0 } = spent.get(line) ?? {};
    this.voided.set(line, outcome);
    if (outcome.sent?.startedWallMs !== undefined) this.started.set(line, outcome.sent.startedWallMs);
    if (intent !== undefined) {
      this.open.set(line, { ...intent, mostUsd: 0 }); // its outcome says what it cost
      this.spent.set(line, { ...outcome, uncounted, uncountedAmbiguous, unusableAnswers });
      return;
    }
    const closed = {
      ...outcome,
      uncounted: uncounted + 1,
      ambiguousAttempts: outcome.ambiguousAttempts + 1,
      uncountedAmbiguous: uncountedAmbiguous + 1,
      unusableAnswers,
    };
    this.closed.set(line, closed);
    this.spent.set(line, closed);
  }

  /** The output was written again: what follows says what is in it. */
  #forget(): void {
    this.done = new LineSet();
    this.totals = new Totals();
    for (const lines of [this.open, this.closed, this.spent, this.voided, this.started]) lines.clear();
    this.gone = [];
    this.held = [];
    this.out = START;
    this.last = undefined;
  }

  /** What is recorded is settled, whatever the output says now; `crc32` is that of its bytes. */
  keepDamage(crc32: number): void {
    this.out = { end: this.outEnd, crc32 };
    this.last = undefined;
  }

  voidLast(sequence: number): void {
    this.#void(sequence);
  }
}

function madeOf(record: ClosedRecord): AttemptsMade {
  const { attempts, uncounted, ambiguousAttempts, uncountedAmbiguous, unusableAnswers, failure } = record;
  const made = { attempts, uncounted, ambiguousAttempts, uncountedAmbiguous, unusableAnswers, failure };
  return { ...made, isInDoubt: false, spent: record };
}

/** What a cap had counted by a step. Steps of earlier versions do not say what is in doubt: then it counted more than is recorded. */
class CountedMoney {
  committedUsd = 0;
  hasMoney = true;
  #unrecordedUsd = 0;

  /** `recorded`: the money of all steps before this one. */
  apply(step: Step, recorded: () => Taken): void {
    if (step.hasMoney && !this.hasMoney) this.#note(recorded());
    this.hasMoney = step.hasMoney;
    this.committedUsd = step.committedUsd;
  }

  unrecordedUsd(recorded: () => Taken): number {
    if (!this.hasMoney) this.#note(recorded());
    return this.#unrecordedUsd;
  }

  #note({ billedUsd, ambiguousUsd }: Taken): void {
    this.#unrecordedUsd = Math.max(this.#unrecordedUsd, this.committedUsd - billedUsd - ambiguousUsd);
  }
}
