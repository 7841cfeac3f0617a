/**
 * What the caller of one simulated run knows: its input and terms as its last call gave them, and which lines are open.
 *
 *   first calls -> finished -> again: `retry` opens lines that ended in an error, `update` gives another input -> finished
 */
import type { FailureCode } from "../../src/errors.ts";
import type { Again } from "./again.ts";
import { answerOf, type Served } from "./provider.ts";
import type { SimulatedLine, SimulatedRun } from "./workload.ts";

export interface OutputLine {
  readonly key: string | null;
  readonly line?: number;
  readonly output: { readonly text: string } | null;
  readonly finish_reason?: string;
  readonly error?: {
    readonly code: string;
    readonly attempts: number;
    readonly ambiguous_attempts: number;
    readonly retryable?: boolean;
    readonly line?: number;
  };
}

/** A cap on what several runs may be billed together: its amount is that of the last call. */
export interface SharedCap {
  readonly name: string;
  /** What the next call passes. */
  usd: number;
  /** What the last call passed: no more may be billed. */
  calledUsd: number;
  /** What the last accepted call passed: so much may be spent. */
  acceptedUsd: number;
  billedUsd: number;
  readonly members: RunBook[];
}

/** The amounts of a run's caps at some moment; Infinity for none. */
export interface CapsAt {
  readonly atMs: number;
  readonly capUsd: number;
  readonly sharedUsd: number;
}

/** A shared cap under which nothing was billed. */
export function newSharedCap(usd: number): SharedCap {
  return { name: "team", usd, calledUsd: usd, acceptedUsd: usd, billedUsd: 0, members: [] };
}

/** Of one run. */
export class RunBook {
  readonly run: SimulatedRun;
  readonly sharedCap: SharedCap | undefined;
  /** Of the input as it is now. */
  lines: readonly SimulatedLine[];
  readonly lineOfKey: Map<string, number>;
  /** Keys whose lines the output keeps although the input has them no more. */
  goneKeys: readonly string[] = [];
  /** Lines of an output that a kill left behind. */
  readonly leftBehind = new Set<number>();
  /** Lines that are asked again on purpose. */
  readonly reopened = new Set<number>();
  /** From when its sla counts at the earliest. */
  windowFromMs: number;
  /** When it was accepted for the first time since then; undefined until then. */
  acceptedMs: number | undefined;
  /** How often it was called. */
  calls = 0;
  calledMs = 0;
  /** Its shared cap at its last call. */
  #sharedUsd = 0;
  /** What its shared cap allowed when it was called last: what a process left unseen ended under that. */
  #sharedUsdBefore = Number.POSITIVE_INFINITY;
  /** Its caps when its lines ended, by their ids. */
  readonly #capsAtEnd = new Map<number, CapsAt>();
  /** Its cap at its last call; undefined for none. */
  capUsd: number | undefined;
  /** What the provider has billed for it, or will when what is under way is answered. */
  billedUsd = 0;
  settledBefore = 0;
  /** Says that its answers are those of the last look. */
  answersVersion: string | undefined;
  /** Whether it is called and neither over nor stopped. */
  isAtWork = false;
  answers = "";
  /** Whether it was called with `finish`: what is held ends. */
  isFinishing = false;
  /** Whether no process has accepted it since the machine booted: the earlier reading of the clock is then unknown. */
  #isBootNew = false;
  /** Whether the clock jumped in that time: deadlines follow the wall clock over another boot (docs/decisions/0019-clocks.md). */
  isCalendarLost = false;
  /** What it is called again for when it is finished, in this order. */
  readonly #later: Again[];
  /** What its next call opens; until one was accepted. */
  opening: Again | undefined;

  constructor(run: SimulatedRun, sharedCap: SharedCap | undefined) {
    this.run = run;
    this.sharedCap = sharedCap;
    sharedCap?.members.push(this);
    this.lines = run.lines;
    this.lineOfKey = keysOf(run.lines);
    this.windowFromMs = run.startMs;
    this.capUsd = run.maxCostUsd;
    this.#later = [...run.again];
  }

  /** Its caps do not limit it. */
  get isUncapped(): boolean {
    return this.capUsd === undefined && this.sharedCap === undefined;
  }

  /** Its machine was without power. */
  rebooted(): void {
    this.#isBootNew = true;
  }

  wallJumped(): void {
    this.isCalendarLost ||= this.#isBootNew;
  }

  /** It is called, with its present terms. */
  called(nowMs: number): void {
    this.calls += 1;
    this.calledMs = nowMs;
    this.isAtWork = true;
    this.settledBefore = 0;
    if (this.sharedCap === undefined) return;
    this.#sharedUsdBefore = this.sharedCap.acceptedUsd;
    this.#sharedUsd = this.sharedCap.calledUsd = this.sharedCap.usd;
  }

  /** Its last call was accepted, with the terms of that call. */
  accepted(nowMs: number): void {
    this.acceptedMs ??= nowMs;
    this.opening = undefined;
    this.#isBootNew = false;
    if (this.sharedCap !== undefined) this.sharedCap.acceptedUsd = this.#sharedUsd;
  }

  /** Its caps as they are now. */
  capsAt(nowMs: number): CapsAt {
    const { capUsd = Number.POSITIVE_INFINITY, sharedCap } = this;
    return { atMs: nowMs, capUsd, sharedUsd: sharedCap?.acceptedUsd ?? Number.POSITIVE_INFINITY };
  }

  /** A line has ended: now, or before the last call if that call has only replayed it. */
  ended(id: number, nowMs: number, isReplayed: boolean): void {
    if (!isReplayed) this.#capsAtEnd.set(id, this.capsAt(nowMs));
    else if (!this.#capsAtEnd.has(id))
      this.#capsAtEnd.set(id, { ...this.capsAt(this.calledMs), sharedUsd: this.#sharedUsdBefore });
  }

  /** Its caps when a line ended; undefined for one that has not. */
  capsAtEnd(id: number): CapsAt | undefined {
    return this.#capsAtEnd.get(id);
  }

  /** A line is asked again. */
  reopen(id: number): void {
    this.reopened.add(id);
    this.leftBehind.delete(id);
    this.#capsAtEnd.delete(id);
  }

  /** The id of the line with a number; undefined for a number that the input has no more. */
  idAt(line: number): number | undefined {
    return this.lines[line - 1]?.id;
  }

  /** What it is called again for; undefined when it is over. */
  nextAgain(): Again | undefined {
    return this.#later.shift();
  }

  /** Lines of its output that a retry opens. */
  toReopen(
    output: readonly OutputLine[],
    codes: readonly FailureCode[] | undefined,
    isAtMostOnce: boolean,
  ): readonly number[] {
    return output.flatMap(({ key, line, error }) => {
      if (error === undefined) return [];
      const mayBeAnswered = isAtMostOnce && error.ambiguous_attempts > 0;
      const isChosen =
        codes === undefined
          ? !mayBeAnswered && (error.retryable === true || error.code === "expired")
          : codes.some((code) => code === error.code);
      const id = key === null ? this.idAt(line ?? error.line ?? 0) : this.lineOfKey.get(key);
      return isChosen && id !== undefined && !this.goneKeys.includes(key ?? "") ? [id] : [];
    });
  }

  /** Another input; says which lines are as they were not. */
  change({ lines, isPruned }: Extract<Again, { kind: "update" }>): void {
    const before = [...this.lineOfKey.keys()];
    const now = keysOf(lines);
    this.goneKeys = isPruned ? [] : before.filter((key) => !now.has(key));
    for (const line of lines) if (!this.lines.includes(line)) this.reopened.add(line.id);
    if (isPruned) this.lineOfKey.clear();
    for (const [key, id] of now) this.lineOfKey.set(key, id);
    this.lines = lines;
  }

  /** A line that is there only until its new answer replaces it. */
  isToBeReplaced(id: number, { output }: OutputLine): boolean {
    return this.reopened.has(id) && output?.text !== answerOf(id);
  }
}

/** Of one line the requests since it was opened for the last time. */
export function sinceReopened(
  served: readonly Served[] | undefined,
  replaced: ReadonlySet<Served>,
): readonly Served[] {
  if (served === undefined) return [];
  return replaced.size === 0 ? served : served.filter((one) => !replaced.has(one));
}

function keysOf(lines: readonly SimulatedLine[]): Map<string, number> {
  return new Map(lines.flatMap(({ key, id }) => (key === null ? [] : [[key, id] as const])));
}
