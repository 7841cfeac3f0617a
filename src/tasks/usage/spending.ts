/**
 * Usage and money of projects: the use of each on each UTC day, and its cap for each UTC month, which counts what providers bill and
 * what is in doubt.
 *
 *   money:  reserve -> held -> less with each item that ends -> released
 *           refused with `budget_exceeded` while   spent this month + held + wanted > cap
 *   usage:  noted -> in the sum of its day, once for each source
 *           an item of open work has ended -> counted at once, in memory (`open_usage.ts`)
 *           a posted task is final -> counted at once -> stored a moment later, with the others of that moment
 *
 * Sums are records of the collection `usage`, one for a project and day. Records written in the same transaction list the work in them,
 * so that a note repeated after a crash does not count twice: `usage_source` for each source, and one mark for all posted tasks
 * (`usage_mark.ts`). Holds are in memory: after a restart, the code that continues accepted work holds its money again (`hold`).
 *
 * Limits: notes that arrive during a write are written together, at most 256 in one transaction.
 */
import type { Clock, Timer } from "../../clock.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { Cap } from "../../price/budget.ts";
import { roundedUsd } from "../../price/cost.ts";
import { completeMoney, usdText } from "../../price/money.ts";
import { dayOf } from "../../price/rates.ts";
import type { RecordChange, RecordStore } from "../../store/records.ts";
import { DaySums, type UsageMonth } from "./day_sums.ts";
import { DAY_MS, dayStartMs, monthsBetween } from "./days.ts";
import { HeldMoney, type SpendingHold } from "./held_money.ts";
import { MonthCaps } from "./month_caps.ts";
import { OpenUsage } from "./open_usage.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage, type TaskUsage, takenUsd } from "./project_usage.ts";
import { UnwrittenUsage } from "./unwritten_usage.ts";
import { UsageMark } from "./usage_mark.ts";
import { usedProjects } from "./used_projects.ts";

export type { SpendingHold } from "./held_money.ts";
export type { ProjectUsage } from "./project_usage.ts";

export interface DayUsage extends ProjectUsage {
  /** UTC, such as `2026-11-21`. */
  readonly day: string;
}

/** The money of a project in this month. */
export interface MonthMoney {
  readonly spentUsd: number;
  readonly heldUsd: number;
  /** Undefined without a cap. */
  readonly capUsd: number | undefined;
}

/** The usage of a piece of work. */
export interface UsageNote extends TaskUsage {
  /** The work that used it, such as a task or a part of one. A source counts once, however often it is noted. */
  readonly source: string;
}

/** Every method may be called concurrently. */
export interface Spending {
  /** Use of open work so far: counts today and in this month until its source is noted. */
  readonly open: OpenUsage;
  /**
   * Holds money for work before its acceptance; throws `budget_exceeded` (`details.capUsd`, `spentUsd`, `heldUsd`) if the month's cap
   * does not allow it. Never refuses a project without a cap.
   */
  reserve(project: string, usd: number): Promise<SpendingHold>;
  /** Holds money for work that was accepted before a restart, even above the present cap. */
  hold(project: string, usd: number): SpendingHold;
  /** Durable when it resolves; rejects as the store does, and may be called again. */
  note(note: UsageNote): Promise<void>;
  /** Days with usage, the oldest first; both ends (UTC, `2026-11-21`) included, at most 400 days apart. */
  days(project: string, fromDay: string, toDay: string): Promise<readonly DayUsage[]>;
  /** This month's money. */
  month(project: string): Promise<MonthMoney>;
  /** `days` and this month's money, both of one moment. */
  usage(
    project: string,
    fromDay: string,
    toDay: string,
  ): Promise<{ readonly days: readonly DayUsage[]; readonly month: MonthMoney }>;
  /** Projects with usage in the months of these days, in order. */
  projects(fromDay: string, toDay: string): Promise<readonly string[]>;
  /** The month's cap of a project, for the budgets of its runs; undefined without one. */
  capOf(project: string): Promise<Cap | undefined>;
  /**
   * From now on notes the posted tasks of this log. Resolves with a function that reads the final tasks that are not in the sums, and
   * what noted tasks took under this cap of the engine, in USD.
   */
  follow(
    log: WorkLog,
    cap?: string,
  ): Promise<{ readonly unnoted: () => readonly number[]; readonly takenUsd: number }>;
  /**
   * Like `note`, for a final task of the followed log: counts at once, and is durable a moment later, or noted again by the next
   * process. `used`: undefined if nothing is to be counted.
   */
  noteTask(task: number, used: TaskUsage | undefined): void;
  /** Resolves when the noted tasks are durable; rejects as the store does, and they are written again later. */
  flush(): Promise<void>;
  /** Whether a project has a cap. */
  isCapped(project: string): boolean;
  /** Calls back when a month has begun, so that items held by caps may continue. */
  onMonth(listener: () => void): void;
}

export interface SpendingOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  /** The cap of a project for each UTC month, in USD; undefined: none. */
  readonly capUsd: (project: string) => number | undefined;
}

/** Sources that are in the sums. */
export const USAGE_SOURCES = "usage_source";

const DAYS_MAX = 400;
const NOTES_MAX = 256;
/** Delay until noted tasks are written, and until they are written again after a failure. */
const WRITE_MS = 250;
const AGAIN_MS = 1_000;
/** Months kept in memory in addition to the current one. */
const MONTHS_KEPT = 1_000;

/** One for a store; notes that arrive during a write are written together. */
export function createSpending(options: SpendingOptions): Spending {
  return new RecordedSpending(options);
}

interface WaitingNote {
  readonly note: UsageNote;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

class RecordedSpending implements Spending {
  readonly #options: SpendingOptions;
  /** By month and project. Loaded before anything is added, so they equal what is stored. */
  readonly #months = new Map<string, Promise<UsageMonth>>();
  readonly #held = new HeldMoney();
  readonly open: OpenUsage = new OpenUsage();
  readonly #caps: MonthCaps;
  #waiting: WaitingNote[] = [];
  readonly #unwritten = new UnwrittenUsage();
  #mark: UsageMark | undefined;
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;

  constructor(options: SpendingOptions) {
    this.#options = options;
    this.#caps = new MonthCaps({ ...options, spentUsd: (project) => this.#notedUsd(project) });
  }

  capOf(project: string): Promise<Cap | undefined> {
    return this.#caps.of(project);
  }

  async follow(log: WorkLog, cap?: string): ReturnType<Spending["follow"]> {
    const mark = await UsageMark.open({ ended: log.ended.posted }, this.#options.store, cap);
    this.#mark = mark;
    return { unnoted: () => mark.unnoted(), takenUsd: mark.takenUsd };
  }

  noteTask(task: number, used: TaskUsage | undefined): void {
    this.open.end(task);
    this.#unwritten.add(task, used);
    this.#timer ??= this.#options.clock.timer(WRITE_MS, () => this.#due(), { keepsAlive: false });
  }

  async flush(): Promise<void> {
    while (!this.#unwritten.isEmpty)
      if (this.#writing === undefined) await this.#start();
      else await this.#writing;
  }

  isCapped(project: string): boolean {
    return this.#options.capUsd(project) !== undefined;
  }

  onMonth(listener: () => void): void {
    this.#caps.onMonth(listener);
  }

  async reserve(project: string, usd: number): Promise<SpendingHold> {
    const capUsd = this.#options.capUsd(project);
    if (capUsd !== undefined) {
      const days = await this.#month(project, this.#currentMonth);
      const { spentUsd, heldUsd } = this.#taken(project, days); // the hold follows in the same turn
      if (spentUsd + heldUsd + usd > capUsd)
        throw new PerigeeError(
          "budget_exceeded",
          `this needs up to ${usdText(usd)}; of the month's ${usdText(capUsd)}, ${usdText(spentUsd)} are spent and ${usdText(heldUsd)} held for accepted work`,
          { details: { capUsd, spentUsd: roundedUsd(spentUsd), heldUsd: roundedUsd(heldUsd) } },
        );
    }
    return this.hold(project, usd);
  }

  hold(project: string, usd: number): SpendingHold {
    return this.#held.hold(project, usd);
  }

  note(note: UsageNote): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ note, resolve, reject });
      if (this.#writing === undefined) this.#start().catch(() => undefined); // each caller of `note` gets the error
    });
  }

  days(project: string, fromDay: string, toDay: string): Promise<readonly DayUsage[]> {
    return this.usage(project, fromDay, toDay).then(({ days }) => days);
  }

  async usage(project: string, fromDay: string, toDay: string): ReturnType<Spending["usage"]> {
    const fromMs = dayStartMs(fromDay);
    const toMs = dayStartMs(toDay);
    if (toMs - fromMs > DAYS_MAX * DAY_MS)
      throw new PerigeeError("usage", `from and to may be at most ${DAYS_MAX} days apart`, {
        details: { param: "from" },
      });
    const stored = new Map<string, UsageMonth>();
    for (const month of monthsBetween(fromMs, toMs))
      if (month !== this.#currentMonth) stored.set(month, await this.#readMonth(project, month));
    const current = await this.#month(project, this.#currentMonth);
    // In one turn from here on, because items may end at any time.
    const found: DayUsage[] = [];
    for (const month of monthsBetween(fromMs, toMs)) {
      const days = this.#shown(project, month, stored.get(month) ?? current);
      for (const [day, usage] of days) if (day >= fromDay && day <= toDay) found.push({ day, ...usage });
    }
    const days = found.sort((left, right) => (left.day < right.day ? -1 : 1));
    return { days, month: this.#money(project, current) };
  }

  projects(fromDay: string, toDay: string): Promise<readonly string[]> {
    const besides = [...this.open.projects(), ...this.#unwritten.projects()];
    return usedProjects(this.#options.store, [fromDay, toDay], besides);
  }

  async month(project: string): Promise<MonthMoney> {
    return this.#money(project, await this.#month(project, this.#currentMonth));
  }

  #money(project: string, days: UsageMonth): MonthMoney {
    const { spentUsd, heldUsd } = this.#taken(project, days);
    const capUsd = this.#options.capUsd(project);
    return { spentUsd: roundedUsd(spentUsd), heldUsd: roundedUsd(heldUsd), capUsd };
  }

  /** Both figures are of one moment. */
  #taken(project: string, days: UsageMonth): { readonly spentUsd: number; readonly heldUsd: number } {
    const spentUsd = this.#sumOf(project, days) + takenUsd(this.open.of(project) ?? NO_PROJECT_USAGE);
    return { spentUsd, heldUsd: this.#held.of(project) };
  }

  /** Without the use of open work, which caps count in its budgets. */
  async #notedUsd(project: string): Promise<number> {
    return this.#sumOf(project, await this.#month(project, this.#currentMonth));
  }

  get #currentMonth(): string {
    return dayOf(this.#options.clock.wallMs()).slice(0, 7);
  }

  #sumOf(project: string, days: UsageMonth): number {
    let usd = [...days.values()].reduce((sum, usage) => sum + takenUsd(usage), 0);
    for (const [day, usage] of this.#unwritten.of(project))
      if (day.startsWith(this.#currentMonth)) usd += takenUsd(usage);
    return usd;
  }

  /** Writes waiting notes. Rejects as the store does if posted tasks could not be written. */
  #start(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
      this.#forgetMonths();
    });
    return this.#writing;
  }

  #due(): void {
    this.#timer = undefined;
    const written = this.#writing === undefined ? this.#start() : this.#writing;
    written.then(
      () => (this.#unwritten.isEmpty ? undefined : this.#later(WRITE_MS)),
      () => this.#later(AGAIN_MS),
    );
  }

  #later(delayMs: number): void {
    this.#timer ??= this.#options.clock.timer(delayMs, () => this.#due(), { keepsAlive: false });
  }

  async #write(): Promise<void> {
    do {
      const notes = this.#waiting.splice(0, NOTES_MAX);
      try {
        await this.#add(notes);
      } catch (error) {
        // One of them was noted before: writing them one by one finds it.
        if (hasCode(error, "conflict")) for (const note of notes) await this.#addAlone(note);
        else for (const { reject } of notes) reject(error);
        if (!hasCode(error, "conflict") && !this.#unwritten.isEmpty) throw error;
      }
    } while (this.#waiting.length > 0);
  }

  async #addAlone(waiting: WaitingNote): Promise<void> {
    try {
      await this.#add([waiting]);
    } catch (error) {
      if (hasCode(error, "conflict")) this.open.end(waiting.note.source);
      if (hasCode(error, "conflict")) settle(waiting);
      else waiting.reject(error);
    }
  }

  /** Also writes all posted tasks that are not written. */
  async #add(notes: readonly WaitingNote[]): Promise<void> {
    const batch = this.#unwritten.take();
    try {
      const sums = new DaySums((project, month) => this.#month(project, month));
      for (const [project, days] of batch.days)
        for (const [day, usage] of days) await sums.add(project, day, usage);
      for (const { note } of notes) await sums.add(note.project, dayOf(note.wallMs), note.usage);
      const nowWallMs = this.#options.clock.wallMs();
      const changes = [...notes.map(({ note }) => markerOf(note, nowWallMs)), ...sums.changes(nowWallMs)];
      const mark = batch.tasks.size === 0 ? undefined : this.#mark?.next(batch);
      if (mark !== undefined) changes.push(mark.change);
      if (changes.length === 0) return;
      await this.#options.store.change(changes);
      sums.written();
      for (const { note } of notes) this.open.end(note.source);
      mark?.taken();
    } catch (error) {
      this.#unwritten.giveBack();
      throw error;
    }
    this.#unwritten.written();
    for (const note of notes) settle(note);
  }

  #month(project: string, month: string): Promise<UsageMonth> {
    const id = `${month} ${project}`;
    let days = this.#months.get(id);
    if (days === undefined) {
      days = this.#readMonth(project, month);
      days.catch(() => this.#months.delete(id));
      this.#months.set(id, days);
    }
    return days;
  }

  /** Includes usage that is not written yet. */
  #shown(project: string, month: string, written: UsageMonth): UsageMonth {
    const days = new Map(written);
    const open = this.open.of(project);
    const today = dayOf(this.#options.clock.wallMs());
    const used = [...this.#unwritten.of(project), ...(open === undefined ? [] : [[today, open] as const])];
    for (const [day, usage] of used)
      if (day.startsWith(month)) days.set(day, addUsage(days.get(day) ?? NO_PROJECT_USAGE, usage));
    return days;
  }

  async #readMonth(project: string, month: string): Promise<UsageMonth> {
    const records = await this.#options.store.records(project, {
      collection: "usage",
      parent: month,
      limit: 31,
    });
    // `#add` wrote these bodies.
    return new Map(
      records.map(({ id, body }) => {
        const usage = JSON.parse(body) as ProjectUsage;
        return [id.slice(0, 10), { ...usage, ...completeMoney(usage) }];
      }),
    );
  }

  /** Only between writes: a write under way may be about to add to a month. */
  #forgetMonths(): void {
    if (this.#months.size <= MONTHS_KEPT) return;
    for (const id of this.#months.keys()) if (!id.startsWith(this.#currentMonth)) this.#months.delete(id);
  }
}

/** Marks a source as included in the sums. */
function markerOf({ project, source }: UsageNote, createdWallMs: number): RecordChange {
  const id = `${project} ${source}`;
  return {
    kind: "insert",
    record: { collection: USAGE_SOURCES, id, project, parent: "", createdWallMs, body: "" },
  };
}

function settle({ resolve }: WaitingNote): void {
  resolve();
}
