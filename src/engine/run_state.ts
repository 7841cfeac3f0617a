/**
 * What one run knows while it works.
 *
 *   open -> stopping                    asked to stop: nothing new is sent, what is in flight ends
 *   open -> cancelling -> ending        nothing new is sent, nothing ends before the cancel is durable
 *   open -> ending (expired|cancelled)  what was not sent ends with that status
 *   open -> ending (giving_up)          what is held ends in an error, with the reason that holds it
 *   open | stopping | ending -> done
 *
 * A line is waiting (in a shard), claimed (a lane took it: intent, request, retries) or done (its outcome is durable).
 */
import { setMaxListeners } from "node:events";
import type { DiskFile } from "../disk.ts";
import type { Block } from "../jsonl/block.ts";
import type { Budget } from "../price/budget.ts";
import type { MeasureOptions } from "../shard/measure.ts";
import type { LineLayout } from "../work/line_layout.ts";
import { LineSet } from "../work/line_set.ts";
import type { HeldEnd, HeldLines, Hold, HoldReason } from "./holds.ts";
import type { CostTerms } from "./item_cost.ts";
import type { EngineObserver } from "./observer.ts";
import type { AttemptsMade } from "./replay.ts";
import type { TaskLog } from "./task_log.ts";
import type { Totals } from "./totals.ts";

/** The most holds that are counted separately; further missing providers and models without a price count together. */
const NAMED_HOLDS_MAX = 100;

export type RunPhase = "open" | "stopping" | "cancelling" | "expired" | "cancelled" | "giving_up" | "done";

export interface RunSettings extends CostTerms {
  readonly taskId: string;
  readonly log: TaskLog;
  readonly totals: Totals;
  /** Where its lines stand, for shards that are loaded again. */
  readonly input: Pick<DiskFile, "read">;
  /** How its lines are measured. */
  readonly measureOptions: MeasureOptions;
  /** Lines settled before and now. */
  readonly done: LineSet;
  readonly made: ReadonlyMap<number, AttemptsMade>;
  /** Monotonic; Infinity without sla. */
  readonly deadlineMs: number;
  readonly startedMs: number;
  readonly slaMinutes: number | undefined;
  readonly budget: Budget;
  /** Whether what its cap cannot bound is sent all the same. */
  readonly allowsUnbounded: boolean;
  /** Whether a second attempt goes beside one that hangs. */
  readonly isHedged: boolean;
  readonly observer: EngineObserver | undefined;
  /** Empty for all runs that name none. */
  readonly project: string;
  /** Of its project, above 0. */
  readonly weight: number;
  readonly skip: ((line: number) => boolean) | undefined;
  /** Of its output lines. */
  readonly layout: LineLayout;
}

/** Lines that are held for one reason. */
interface HeldCount extends HeldLines {
  items: number;
  readonly sinceMs: number;
  mostUsd?: number;
  /** What their next requests may cost together. */
  allUsd: number;
}

/** Mutable counters of a run, with the few rules that keep them together. */
export class RunState {
  readonly settings: RunSettings;
  readonly claimed: LineSet = new LineSet();
  readonly made: Map<number, AttemptsMade>;
  #phase: RunPhase = "open";
  readonly #leaving = new AbortController();
  readonly #ending = new AbortController();
  /** Items in shards, in the backlog or in a lane. */
  waitingItems = 0;
  inFlight = 0;
  requestsSent = 0;
  linesRead = 0;
  blankLines = 0;
  linesTotal: number | undefined;
  pausedBy: string | undefined;
  failure: Error | undefined;
  /** Its source has more that would be read now: what holds the rest is not all that is left. */
  isReading = false;
  /** Why it waits, as it was found last. */
  holds: readonly Hold[] = [];
  /** Lines that wait for a change by the caller, by what holds them. */
  readonly heldLines: Map<string, HeldCount> = new Map();
  /** How its held items end; undefined while they wait. */
  heldEnd: ((model: string) => HeldEnd) | undefined;
  readonly #watchers: (() => void)[] = [];
  #isWoken = false;

  constructor(settings: RunSettings) {
    this.settings = settings;
    this.made = new Map(settings.made);
    setMaxListeners(0, this.#leaving.signal, this.#ending.signal); // one for each item that waits for a retry or an answer
  }

  get phase(): RunPhase {
    return this.#phase;
  }

  set phase(phase: RunPhase) {
    this.#phase = phase;
    if (phase !== "open") this.#leaving.abort();
    if (phase === "done") this.#ending.abort();
  }

  /** Aborts when the run is no longer open. */
  get left(): AbortSignal {
    return this.#leaving.signal;
  }

  /** Aborts when the run is done: nobody waits for what is under way, and its next call may send it again. */
  get over(): AbortSignal {
    return this.#ending.signal;
  }

  get id(): string {
    return this.settings.taskId;
  }

  /** Whether lanes may send for this run. */
  get isOpen(): boolean {
    return this.phase === "open";
  }

  /** Whether a line was cancelled by itself: nothing more is sent for it. */
  skips(line: number): boolean {
    return this.settings.skip?.(line) === true;
  }

  /** Nothing waits, nothing is claimed, and nothing is held. */
  get isIdle(): boolean {
    return this.waitingItems === 0 && this.claimed.size === 0 && this.heldLines.size === 0;
  }

  /** Lines are neither waiting nor claimed before the caller changes something. */
  hold(lines: HeldLines, items: number, nowMs: number): void {
    const own = JSON.stringify([lines.reason, lines.provider, lines.model]);
    const isNamed = this.heldLines.has(own) || this.heldLines.size < NAMED_HOLDS_MAX;
    const { provider: _provider, model: _model, ...unnamed } = lines;
    const key = isNamed ? own : lines.reason;
    const held = this.heldLines.get(key);
    if (held === undefined)
      this.heldLines.set(key, {
        ...(isNamed ? lines : unnamed),
        items,
        sinceMs: nowMs,
        allUsd: lines.mostUsd ?? 0,
      });
    else {
      held.items += items;
      held.mostUsd = Math.min(held.mostUsd ?? 0, lines.mostUsd ?? 0);
      held.allUsd += lines.mostUsd ?? 0;
    }
  }

  /** What held lines for that reason has changed: they are to be read again. Of a stream that waits for the next call. */
  wake(reason: HoldReason): void {
    if (![...this.heldLines.values()].some((lines) => lines.reason === reason)) return;
    this.#isWoken = true;
    this.changed();
  }

  /** Whether held lines are to be read again, and nothing else of the input is in memory. */
  get isToReadAgain(): boolean {
    return this.#isWoken && this.waitingItems === 0 && this.claimed.size === 0 && this.heldLines.size > 0;
  }

  /** Its input is read once more from the start. */
  readAgain(): void {
    this.#isWoken = false;
    this.heldLines.clear();
    this.blankLines = 0;
  }

  /** Whether every line of a block is done. */
  hasDone({ firstLine, lineCount }: Pick<Block, "firstLine" | "lineCount">): boolean {
    const { done } = this.settings;
    return done.size > 0 && done.countWithin(firstLine, firstLine + lineCount - 1) === lineCount;
  }

  /** A line's outcome is durable. */
  finished(line: number): void {
    this.settings.done.add(line);
    this.claimed.delete(line);
    this.made.delete(line);
    this.changed();
  }

  /** The run cannot go on; what is recorded stays. */
  fail(error: Error): void {
    this.failure ??= error;
    for (const callback of this.#watchers) callback();
  }

  /** Calls back at every change that may end the run or a pause of it. */
  watch(callback: () => void): void {
    this.#watchers.push(callback);
  }

  changed(): void {
    const mayEnd = !this.isOpen || this.inFlight === 0 || this.isIdle;
    if (!mayEnd && this.pausedBy === undefined) return;
    for (const callback of this.#watchers) callback();
  }
}
