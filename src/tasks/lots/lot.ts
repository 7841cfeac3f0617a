/**
 * A lot, open or over: the place of the answer of each of its lines, and the tasks that wait for them.
 *
 *   waiting (not yet run) -> running -> over
 *
 * 26 bytes a line once it is read or runs, 32 more if tasks share it and it runs; some 130 for each task.
 */

import type { Moment } from "../../clock.ts";
import type { Hold } from "../../engine/items/holds.ts";
import { AnswerIndex } from "../../engine/journal/answer_index.ts";
import type { OutcomeRecord, SettledStatus, Step } from "../../engine/journal/journal.ts";
import { UNREADABLE } from "../../engine/reopening/wanted_errors.ts";
import type { Run } from "../../engine/runs/run.ts";
import type { EngineRunOptions } from "../../engine/runs/run_options.ts";
import { type Money, NO_MONEY, roundedMoney } from "../../price/money.ts";
import { nanoOf, usdOfNano } from "../../price/nano.ts";
import type { TaskEvent } from "../shapes/tasks.ts";
import type { Share } from "../usage/backlog.ts";
import type { OpenUsage } from "../usage/open_usage.ts";
import type { ProjectUsage } from "../usage/project_usage.ts";
import type { SpendingHold } from "../usage/spending.ts";
import { BrokenLines } from "./broken_lines.ts";
import { shownWallMs } from "./lot_deadline.ts";
import type { LotEnd, LotRecord, LotWork } from "./lot_record.ts";
import { StepTimes } from "./step_times.ts";
import type { TaskRecord } from "./task_record.ts";

/** The path of the lines that it runs on, and what the lines of a retry took before. */
export interface LotInput extends Pick<EngineRunOptions, "takenEarlier"> {
  readonly path: string;
}

/** What lots need from the tasks that they belong to. */
export interface LotLines {
  /** The path of the lines of a lot. */
  readonly pathOf: (lot: LotRecord) => string;
  /** Input for the next run of a lot. Rejects if its lines differ from those that were accepted. */
  readonly inputOf: (lot: Lot) => Promise<LotInput>;
  readonly hasPosted: (project: string) => boolean; // in addition to its lots
}

export interface LotListeners {
  /** Called with the reason when a lot cannot continue; it is tried again a minute later. */
  readonly onFault: (error: unknown, lotId: string) => void;
  /** Called for each task whose objects are final; at least once. */
  readonly onFinished: (task: Pick<TaskEvent, "project" | "taskId">, lot: Lot) => Promise<void>;
  /** Called when a run has ended, before that is stored; if it is not stored, the next process calls it again. */
  readonly onUsed: (lot: Lot, end: LotEnd, items: number) => Promise<void>;
  /** Called when a lot is over, after that was stored. */
  readonly onOver: (lot: Lot) => Promise<void>;
}

/** Lines of a lot that are one task's objects. */
export interface TaskLines {
  readonly taskId: string;
  readonly firstLine: number;
  readonly lines: number;
  /** Items that are not final. */
  open: number;
  isCancelled: boolean;
  /** Whether listeners know of its end; false after a listener has failed. */
  isTold?: boolean;
  /** Called once when all are final. */
  whenFinal?: () => void;
}

/** Items of a lot by how they have ended so far. */
export interface LotSums {
  readonly counts: Readonly<Record<SettledStatus, number>>;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Money of single lines, for a shared lot. */
class LineCosts {
  readonly listUsd: Float64Array;
  readonly usd: Float64Array;
  readonly billedUsd: Float64Array;
  readonly ambiguousUsd: Float64Array;

  /** Lines count from 1 to `count`. */
  constructor(count: number) {
    this.listUsd = new Float64Array(count + 1);
    this.usd = new Float64Array(count + 1);
    this.billedUsd = new Float64Array(count + 1);
    this.ambiguousUsd = new Float64Array(count + 1);
  }
}

/** The only object of a lot in this process, while it is open or read. */
export class Lot {
  record: LotRecord;
  readonly path: string;
  /** Monotonic: when its sla ends; without an sla, when it was added. */
  deadlineMs: number = Number.POSITIVE_INFINITY;
  readonly #members: TaskLines[] = [];
  #index: AnswerIndex | undefined;
  run: Run | undefined;
  /** An earlier run, of this process or another, may have answered lines. */
  isRestored = false;
  /** What holds it: its last run found its lines missing or different from those that were accepted. */
  lost: Hold | undefined;
  /** The file of its answers; undefined until its run was first opened. */
  out: string | undefined;
  /** How often its steps were forgotten: a reading that began before applies no more of them. */
  reads = 0;
  /** Items that could not be read as requests. */
  unreadable = 0;
  /** Offset of the first byte after its durable answers. */
  outEnd = 0;
  /** Rises with every durable step, and when its lines are found to be lost. */
  version = 0;
  /** Its answers that cannot be served. */
  readonly broken: BrokenLines = new BrokenLines();
  /** When its answers became durable. */
  times: StepTimes = new StepTimes();
  /** Resolves when its run has ended, or its accounts have stopped it for longer than a caller should wait. */
  readonly waited: Promise<void>;
  /** Reads what an earlier process has answered; undefined if there is nothing to read, and once it runs. */
  reading: Promise<void> | undefined;
  /** Resolves when its present run has replayed the answers of earlier ones, or cannot. */
  live: Promise<void> = Promise.resolve();
  /** Resolves when its run has ended and, if it is over, the work that waited for that is done. */
  readonly ended: Promise<void>;
  /** Money that is kept for its open items. */
  hold: SpendingHold | undefined;
  /** Its open items in the backlog; undefined for a lot that is over. */
  share: Share | undefined;
  /** Listeners that have not finished with the end of a task. */
  readonly telling: Promise<void>[] = [];
  #costs: LineCosts | undefined;
  /** Sums over all lines; undefined after a step that withdrew or holds some, until they are counted again. */
  #sums: { counts: Record<SettledStatus, number>; inputTokens: number; outputTokens: number } | undefined =
    noSums();
  #tellWaited: () => void = () => undefined;
  #tellEnded: () => void = () => undefined;
  #tellLive: () => void = () => undefined;
  #isLive = false;

  constructor(record: LotRecord, path: string) {
    this.record = record;
    this.path = path;
    this.waited = new Promise((resolve) => {
      this.#tellWaited = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.#tellEnded = resolve;
    });
  }

  /** The places of its answers. */
  get index(): AnswerIndex {
    this.#index ??= new AnswerIndex(this.record.lines);
    return this.#index;
  }

  /** Whether its run has begun to answer or to continue. */
  get isLive(): boolean {
    return this.#isLive;
  }

  get isOver(): boolean {
    return this.record.over !== undefined;
  }

  /** Its tasks, in the order of their lines. */
  get members(): readonly TaskLines[] {
    return this.#members;
  }

  /** Its items, by model. */
  get works(): readonly LotWork[] {
    return this.record.works ?? [];
  }

  /** Adds a task; its lines follow those of earlier members. */
  add(member: TaskLines): void {
    this.#members.push(member);
  }

  /** Its run repeats all its steps, from the first on. */
  begin(run: Run): void {
    this.run = run;
    this.live = new Promise((resolve) => {
      this.#tellLive = resolve;
    });
    this.#forget();
  }

  /** Its run has ended without being over; it may not have repeated all steps. */
  leave(): void {
    this.run = undefined;
    this.isRestored = true;
    this.#forget();
  }

  /** What steps say: they come again, from its run or from a reading. */
  #forget(): void {
    this.reads += 1;
    this.reading = undefined;
    this.#index = undefined;
    this.#costs = undefined;
    this.unreadable = 0;
    this.times = new StepTimes();
    this.#sums = noSums();
    this.#isLive = false;
  }

  endWait(): void {
    this.#tellWaited();
  }

  end(): void {
    this.#tellLive();
    this.#tellEnded();
  }

  /** Applies a durable step of its run, those of earlier processes first; returns the tasks that become final. */
  apply(sequence: number, step: Step, at: Moment): TaskLines[] {
    const placed = this.index.apply(sequence, step);
    this.times.note(step.outStart, step.outEnd, shownWallMs(this.record, at));
    this.version += 1;
    if (step.outEnd > step.outStart) this.outEnd = step.outEnd;
    if (step.voids !== 0 || step.held.byteLength > 0) this.#sums = undefined;
    for (const outcome of step.outcomes) {
      this.#count(outcome);
      if (outcome.code !== undefined && UNREADABLE.has(outcome.code)) this.unreadable += 1;
      if (this.record.taskId === undefined) this.#note(outcome);
    }
    if (!this.#isLive) return [];
    const changed = new Set<TaskLines>();
    for (const { line } of placed) {
      const member = this.memberAt(line);
      if (member === undefined || member.open === 0) continue;
      member.open -= 1;
      changed.add(member);
    }
    return [...changed].filter((member) => this.isFinal(member));
  }

  /** Whether its objects are final; those of a cancelled task are even if the run has not reached their lines. */
  isFinal({ open, isCancelled, firstLine, lines }: TaskLines): boolean {
    if (open === 0 || !isCancelled) return open === 0;
    for (let line = firstLine; line < firstLine + lines; line += 1)
      if (this.statusOf(line, true) === undefined) return false;
    return true;
  }

  /** Sums over all its lines; fast, so that a task of a million objects can be read often. */
  sums(): LotSums {
    this.#sums ??= {
      counts: { ...this.index.counts(1, this.record.lines) },
      ...this.index.tokens(1, this.record.lines),
    };
    return this.#sums;
  }

  /** Counts what it took so far, and holds the estimate for its open items. */
  count(open: OpenUsage): void {
    const { counts, inputTokens, outputTokens } = this.sums();
    const { completed, failed, expired, cancelled } = counts;
    const items = completed + failed + expired + cancelled;
    const money = roundedMoney(this.run?.look() ?? NO_MONEY);
    this.countAs(open, { items, inputTokens, outputTokens, ...money });
  }

  /** Like `count`, while its run is not open. */
  countAs(open: OpenUsage, used: ProjectUsage): void {
    const { id, project, estimatedUsd = 0, items } = this.record;
    open.set(id, project, used);
    this.hold?.set((estimatedUsd * Math.max(0, items - used.items)) / Math.max(1, items));
  }

  #note({ line, listUsd, usd, billedUsd, ambiguousUsd }: OutcomeRecord): void {
    this.#costs ??= new LineCosts(this.record.lines);
    this.#costs.listUsd[line] = listUsd;
    this.#costs.usd[line] = usd;
    this.#costs.billedUsd[line] = billedUsd;
    this.#costs.ambiguousUsd[line] = ambiguousUsd;
  }

  #count({ status, inputTokens, outputTokens }: OutcomeRecord): void {
    const sums = this.#sums;
    if (sums === undefined) return;
    sums.counts[status] += 1;
    sums.inputTokens += inputTokens;
    sums.outputTokens += outputTokens;
  }

  /** From here on steps are new; returns the tasks that were final before. */
  goLive(itemsOf: (member: TaskLines) => number): TaskLines[] {
    this.#isLive = true;
    for (const member of this.#members) {
      const settled = this.settledOf(member);
      member.open = Math.max(0, itemsOf(member) - settled);
    }
    this.#tellLive();
    return this.#members.filter((member) => member.open === 0);
  }

  settledOf({ firstLine, lines }: Pick<TaskLines, "firstLine" | "lines">): number {
    const { completed, failed, expired, cancelled } = this.index.counts(firstLine, firstLine + lines - 1);
    return completed + failed + expired + cancelled;
  }

  /** The task that a line belongs to. */
  memberAt(line: number): TaskLines | undefined {
    let low = 0;
    let high = this.#members.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const member = this.#members[middle] as TaskLines;
      if (line < member.firstLine) high = middle - 1;
      else if (line >= member.firstLine + member.lines) low = middle + 1;
      else return member;
    }
    return undefined;
  }

  memberOf({ id, parts }: Pick<TaskRecord, "id" | "parts">): TaskLines | undefined {
    const part = parts.find(({ lotId }) => lotId === this.record.id);
    if (part === undefined) return undefined;
    const member = this.record.taskId === undefined ? this.memberAt(part.firstLine) : this.#members[0];
    return member?.taskId === id ? member : undefined;
  }

  /** Called for each line before it is sent. */
  isSkipped(line: number): boolean {
    return this.memberAt(line)?.isCancelled === true;
  }

  /**
   * The final status of a line, or undefined; a line cancelled before it was taken will not be sent. Also undefined while the answer
   * waits for disk space, because what is final must be readable.
   */
  statusOf(line: number, isCancelled: boolean): SettledStatus | undefined {
    const { status, lengthBytes } = this.index.get(line);
    if (status !== undefined) return lengthBytes === 0 ? undefined : status;
    if (!isCancelled || this.run?.isClaimed(line) === true) return undefined;
    return this.record.taskId === undefined ? "cancelled" : undefined;
  }

  /**
   * When the last of these lines was answered, the same in every process; undefined if none was. A line that was cancelled before it
   * was sent was final before it was written.
   */
  answeredWallMs({ firstLine, lines }: Pick<TaskLines, "firstLine" | "lines">): number | undefined {
    if (this.record.taskId !== undefined) return this.times.last;
    let lastStart = -1;
    for (let line = firstLine; line < firstLine + lines; line += 1) {
      const { status, start, lengthBytes } = this.index.get(line);
      if (status !== undefined && status !== "cancelled" && lengthBytes > 0 && start > lastStart)
        lastStart = start;
    }
    return lastStart < 0 ? undefined : this.times.at(lastStart);
  }

  costOf(firstLine: number, lines: number): Money | undefined {
    const costs = this.#costs;
    if (costs === undefined) return undefined;
    return {
      listUsd: sumOf(costs.listUsd, firstLine, lines),
      usd: sumOf(costs.usd, firstLine, lines),
      billedUsd: sumOf(costs.billedUsd, firstLine, lines),
      ambiguousUsd: sumOf(costs.ambiguousUsd, firstLine, lines),
    };
  }
}

function sumOf(column: Float64Array, first: number, count: number): number {
  let nano = 0;
  for (let index = first; index < first + count; index += 1) nano += nanoOf(column[index] ?? 0);
  return usdOfNano(nano);
}

function noSums(): { counts: Record<SettledStatus, number>; inputTokens: number; outputTokens: number } {
  return { counts: { completed: 0, failed: 0, expired: 0, cancelled: 0 }, inputTokens: 0, outputTokens: 0 };
}
