/**
 * What one run knows while it works.
 *
 * `item_owner.ts` draws its phases, `item_states.ts` the states of its lines.
 */
import { setMaxListeners } from "node:events";
import type { DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { Block } from "../../jsonl/block.ts";
import type { KeptQuote } from "../../price/planned_quote.ts";
import type { MeasureOptions } from "../../shard/measure.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import type { Measurer } from "../../shard/measurer.ts";
import { type LinePlaces, measureAgain, reloadShard } from "../../shard/reload.ts";
import type { Shard } from "../../shard/shard.ts";
import type { PriceTable } from "../journal/price_table.ts";
import { faultText, isThenable } from "../listeners.ts";
import type { HeldEnd, Hold, HoldReason } from "./holds.ts";
import type { ItemOwner, OwnerPhase, OwnerTerms } from "./item_owner.ts";
import type { ItemStates } from "./item_states.ts";
import { type EndedLine, type RecordTerms, RunRecords } from "./settle.ts";

export interface RunSettings extends OwnerTerms, RecordTerms {
  readonly prices: PriceTable;
  readonly project: string;
  /** The place of its lines, for shards that are loaded again. */
  readonly input: Pick<DiskFile, "read">;
  /** Not of a stream: what it holds waits for the next call. */
  readonly canReadAgain: boolean;
  /** How its lines are measured. */
  readonly measureOptions: MeasureOptions;
  readonly measurer: Measurer;
  readonly slaMinutes: number | undefined;
  /** What a cap counted in a version that did not record what is in doubt: in no line. */
  readonly unrecordedUsd: number;
  readonly skip: ((line: number) => boolean) | undefined;
}

/** What a run knows of its cache of answers, and notifies it of. */
export interface StateOfAnswers {
  /** Items that wait for the answer to another line with the same request. */
  readonly waiting: number;
  /** An item's outcome is durable. */
  ended(item: EndedLine): void;
  /** The input is read once more, from its start. */
  readAgain(): void;
}

/** Mutable counters of a run, with the few rules that keep them together. */
export class RunState implements ItemOwner {
  readonly settings: RunSettings;
  readonly items: ItemStates;
  readonly records: RunRecords;
  #phase: OwnerPhase = "open";
  readonly #leaving = new AbortController();
  readonly #ending = new AbortController();
  linesRead = 0;
  blankLines = 0;
  linesTotal: number | undefined;
  pausedBy: string | undefined;
  failure: Error | undefined;
  /** Its source has more that would be read now: what holds the rest is not all that is left. */
  isReading = false;
  isDetaching = false;
  /** Its cache of answers; absent without one. */
  answers: StateOfAnswers | undefined;
  /** What the rest after its pilot was quoted, and when in this process. */
  quoted: (KeptQuote & { readonly atMs?: number }) | undefined;
  /** Why it waits, as it was found last. */
  holds: readonly Hold[] = [];
  /** How its held items end; undefined while they wait. */
  heldEnd: ((model: string) => HeldEnd) | undefined;
  readonly #watchers: (() => void)[] = [];
  #isWoken = false;

  constructor(settings: RunSettings, items: ItemStates) {
    this.settings = settings;
    this.items = items;
    this.records = new RunRecords(settings, items, {
      finished: (ended) => {
        this.answers?.ended(ended);
        this.changed();
      },
      wantsOutcomes: () => this.answers !== undefined,
    });
    setMaxListeners(0, this.#leaving.signal, this.#ending.signal); // one for each item that waits for a retry or an answer
  }

  get phase(): OwnerPhase {
    return this.#phase;
  }

  set phase(phase: OwnerPhase) {
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

  /** Whether a line was cancelled by itself: nothing more is sent for it. Fails the run where that cannot be known. */
  skips(line: number): boolean {
    const { skip } = this.settings;
    if (skip === undefined || this.failure !== undefined) return false;
    try {
      const isSkipped: unknown = skip(line); // its type says boolean, which callers in JavaScript do not see
      if (!isThenable(isSkipped)) return isSkipped === true;
      Promise.resolve(isSkipped).catch(() => undefined); // its run fails in any case
      this.fail(
        new PerigeeError("usage", `skip must return true or false at once, got a promise (line ${line})`),
      );
    } catch (cause) {
      this.fail(new PerigeeError("usage", `skip failed at line ${line}: ${faultText(cause)}`, { cause }));
    }
    return false;
  }

  /** Lines that were not read yet. */
  get unreadItems(): number {
    const { linesTotal, linesRead, blankLines, settings } = this;
    if (linesTotal === undefined) return 0;
    return Math.max(0, Math.min(linesTotal - linesRead, linesTotal - blankLines - settings.totals.settled));
  }

  /** Lines that are read, or known to follow, and have not ended. */
  get openItems(): number {
    const { linesTotal = this.linesRead, blankLines, settings } = this;
    return Math.max(0, linesTotal - blankLines - settings.totals.settled);
  }

  /** Lines that are not read, or of a stream that has not ended. */
  get hasMore(): boolean {
    return this.isReading || this.linesTotal === undefined || this.unreadItems > 0 || this.#isWoken;
  }

  measureAgain(places: LinePlaces, chosen?: MeasureOptions["aliases"]): AsyncGenerator<MeasuredBlock> {
    const { input: file, measurer } = this.settings;
    return measureAgain(places, { file, measurer, options: this.#measuredFor(chosen) });
  }

  reload(shard: Shard): Promise<void> {
    const { input, measurer } = this.settings;
    const { alias, model } = shard.group;
    const chosen = alias === undefined ? undefined : { [alias]: model };
    return reloadShard(shard, input, measurer, this.#measuredFor(chosen));
  }

  #measuredFor(chosen: MeasureOptions["aliases"]): MeasureOptions {
    const { measureOptions } = this.settings;
    if (chosen === undefined) return measureOptions;
    return { ...measureOptions, aliases: { ...measureOptions.aliases, ...chosen } };
  }

  /** What held lines for that reason has changed: they are to be read again. */
  wake(reason: HoldReason): void {
    if (!this.settings.canReadAgain || !this.items.isHeldBy(reason)) return;
    this.#isWoken = true;
    this.changed();
  }

  /** Items that wait in no shard, but for the answer to another line with the same request. */
  get waitingTwins(): number {
    return this.answers?.waiting ?? 0;
  }

  /** Whether held lines are to be read again, and nothing else of the input is in memory. */
  get isToReadAgain(): boolean {
    const { waitingItems, claimed, held } = this.items;
    return this.#isWoken && waitingItems === this.waitingTwins && claimed.size === 0 && held.size > 0;
  }

  /** Its input is read once more from the start. */
  readAgain(): void {
    this.#isWoken = false;
    this.items.held.clear();
    this.items.waitingItems -= this.waitingTwins;
    this.answers?.readAgain();
    this.settings.budget.wantNothing();
    this.blankLines = 0;
  }

  /** Whether every line of a block is done. */
  hasDone({ firstLine, lineCount }: Pick<Block, "firstLine" | "lineCount">): boolean {
    const { done } = this.items;
    return done.size > 0 && done.countWithin(firstLine, firstLine + lineCount - 1) === lineCount;
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
    const mayEnd = !this.isOpen || this.items.inFlight === 0 || this.items.isIdle;
    if (!mayEnd && this.pausedBy === undefined) return;
    for (const callback of this.#watchers) callback();
  }
}
