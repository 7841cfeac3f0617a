/**
 * Views of tasks: counts and sums over their lots, kept until something changes.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { EngineCore } from "../../engine/core.ts";
import type { Hold } from "../../engine/items/holds.ts";
import { allHolds } from "../../engine/lanes/run_holds.ts";
import type { Cap } from "../../price/budget.ts";
import { completeMoney, type Money, NO_MONEY, roundedMoney } from "../../price/money.ts";
import { plusUsd } from "../../price/nano.ts";
import type { TaskCounts } from "../../work/task.ts";
import type { Lot } from "../lots/lot.ts";
import { shownWallMs } from "../lots/lot_deadline.ts";
import type { LotEnd, LotRecord } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import { isPartCancelled, retriesOf, type TaskPart, type TaskRecord } from "../lots/task_record.ts";
import type { TaskView } from "../shapes/task_view.ts";
import { type EndForecast, finalVersion, heldMark, markOf, steady } from "../shapes/view_version.ts";
import { ESTIMATE_KEPT_MS, ExpectedEnds } from "./expected_ends.ts";
import { type HeldItems, isHeld } from "./held_items.ts";
import type { OutEnds } from "./task_objects.ts";

/** The most views kept. */
const KEPT_MAX = 1_024;

interface Look {
  readonly record: LotRecord;
  /** Undefined if its record contains everything. */
  readonly lot: Lot | undefined;
}

interface Kept {
  readonly state: string;
  readonly view: TaskView;
  /** Monotonic time after which its estimates are computed again. */
  readonly staleMs: number;
}

interface ViewFacts {
  readonly state: string;
  readonly held: readonly Hold[];
  readonly caps: readonly Cap[];
  readonly before: TaskView | undefined;
}

interface PartSums {
  readonly unreadable: number;
  readonly counts: TaskCounts;
  readonly usage: TaskView["usage"];
}

/** The caps that limit what a project spends. */
export type CapsOf = (project: string) => Promise<readonly Cap[]>;

/** One for a store. A view is rebuilt when a lot of its task has changed. */
export class TaskViews {
  readonly #clock: Clock;
  readonly #lots: Lots;
  readonly #held: HeldItems;
  readonly #ends: ExpectedEnds;
  readonly #capsOf: CapsOf;
  /** Distinguishes processes, because each counts steps from 0. */
  readonly #process: string = randomUUID().slice(0, 8);
  /** The most recently read one is last. */
  readonly #kept = new Map<string, Kept>();
  /** By view, the ends of its lots' answers at that moment. */
  readonly #outEnds = new WeakMap<TaskView, OutEnds>();

  constructor(core: Pick<EngineCore, "storage" | "sending">, lots: Lots, held: HeldItems, capsOf: CapsOf) {
    this.#capsOf = capsOf;
    this.#clock = core.storage.clock;
    this.#lots = lots;
    this.#held = held;
    this.#ends = new ExpectedEnds(core, lots);
  }

  async view(task: TaskRecord): Promise<TaskView> {
    const lots = await Promise.all(task.parts.map(({ lotId }) => this.#look(lotId)));
    const state = this.#stateOf(task, lots);
    const known = this.#kept.get(task.id);
    const nowMs = this.#clock.nowMs();
    // A final view does not change, although a lot that others share continues.
    const isOld = known !== undefined && known.view.retries < retriesOf(task);
    if (known?.view.finishedWallMs !== undefined && !isOld) return known.view;
    if (known?.state === state && nowMs < known.staleMs) return known.view;
    const held = await this.#heldOf(task, lots);
    const caps = await this.#capsOf(task.project);
    const made = this.#viewOf(task, lots, { state, held, caps, before: known?.view });
    this.#outEnds.set(
      made,
      new Map(lots.flatMap(({ lot }) => (lot === undefined ? [] : [[lot, lot.outEnd]]))),
    );
    const view = made.version === known?.view.version ? known.view : made;
    this.#kept.delete(task.id);
    this.#kept.set(task.id, { state, view, staleMs: nowMs + ESTIMATE_KEPT_MS });
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX) break;
      this.#kept.delete(oldest);
    }
    return view;
  }

  /** For objects of the same moment. */
  outEndsOf(view: TaskView): OutEnds | undefined {
    return this.#outEnds.get(view);
  }

  /** The record of an own lot that is over contains everything. */
  async #look(lotId: string): Promise<Look> {
    const record = await this.#lots.recordOf(lotId);
    if (record.over !== undefined && record.taskId !== undefined) return { record, lot: undefined };
    const lot = await this.#lots.find(lotId);
    return { record: lot.record, lot };
  }

  /** Differs whenever the view may differ. */
  #stateOf(task: TaskRecord, lots: readonly Look[]): string {
    const states = lots.map(({ lot }) => {
      if (lot === undefined || lot.isOver) return "x";
      const member = lot.memberOf(task);
      const isFinal = member !== undefined && member.open === 0;
      return isFinal ? "x" : `${this.#process}.${lot.version}`;
    });
    const text = `${isPartCancelled(task) ? "c" : ""}${states.join("-")}`;
    return text.length <= 64 ? text : createHash("sha256").update(text).digest("base64url").slice(0, 22);
  }

  /** Resolves without a read while nothing is held. */
  async #heldOf(task: TaskRecord, lots: readonly Look[]): Promise<readonly Hold[]> {
    const each: (readonly Hold[])[] = [];
    for (const [index, { lot }] of lots.entries())
      if (lot !== undefined && isHeld(lot))
        each.push(await this.#held.ofPart(lot, task.parts[index] as TaskPart));
    return each.length === 0 ? [] : allHolds(each);
  }

  #viewOf(task: TaskRecord, lots: readonly Look[], { state, held, caps, before }: ViewFacts): TaskView {
    const sums = task.parts.map((_, index) => sumsOf(task, index, lots[index] as Look));
    const counts = sums.reduce((total, each) => addCounts(total, each.counts), NO_COUNTS);
    const usage = sums.reduce((total, each) => addUsage(total, each.usage), NO_USAGE);
    const isFinal = counts.submitted === 0;
    const deadlineWallMs = deadlineOf(task);
    const finishedWallMs = isFinal ? finishedOf(task, lots) : undefined;
    const basis = isFinal
      ? undefined
      : steady(this.#basisOf(task, lots, { sums, caps }), before, this.#wallMs(lots));
    const { expectedEndWallMs, isSlaAtRisk } = basis ?? {};
    return {
      id: task.id,
      project: task.project,
      status: statusOf(task, counts, sums),
      isCancelled: isPartCancelled(task),
      retries: retriesOf(task),
      totalItems: task.totalItems,
      ...sourcesOf(lots),
      counts,
      createdWallMs: task.createdWallMs,
      ...(deadlineWallMs === undefined ? {} : { deadlineWallMs }),
      ...(finishedWallMs === undefined ? {} : { finishedWallMs }),
      ...(expectedEndWallMs === undefined ? {} : { expectedEndWallMs }),
      ...(isSlaAtRisk === undefined ? {} : { isSlaAtRisk }),
      held: isFinal ? [] : held,
      hasOutputFile: task.hasOutputFile,
      usage,
      ...(task.note === undefined ? {} : { note: task.note }),
      version:
        finishedWallMs === undefined
          ? `${state}${markOf(basis)}${heldMark(held)}`
          : finalVersion(task.id, retriesOf(task)),
    };
  }

  /** The end of the last of its open parts; each has its own deadline. */
  #basisOf(
    task: TaskRecord,
    lots: readonly Look[],
    { sums, caps }: { readonly sums: readonly PartSums[]; readonly caps: readonly Cap[] },
  ): EndForecast {
    const ends: number[] = [];
    let isKnown = true;
    let isSlaAtRisk = false;
    for (const [index, part] of task.parts.entries()) {
      const open = sums[index]?.counts.submitted ?? 0;
      const lot = lots[index]?.lot;
      if (open === 0 || lot === undefined) continue;
      const end = this.#ends.endOf(lot, part, open, caps);
      if (end?.isKnown === true) ends.push(end.wallMs);
      else isKnown = false;
      const { slaMinutes } = part;
      const sinceWallMs = part.again?.sinceWallMs ?? task.createdWallMs;
      const deadlineWallMs = sinceWallMs + (slaMinutes ?? Number.POSITIVE_INFINITY) * 60_000;
      isSlaAtRisk ||= (end?.wallMs ?? this.#wallMs(lots)) > deadlineWallMs;
    }
    return { expectedEndWallMs: isKnown && ends.length > 0 ? Math.max(...ends) : undefined, isSlaAtRisk };
  }

  /** Now, by the wall clock at the task's acceptance. */
  #wallMs([first]: readonly Look[]): number {
    const now = this.#clock.moment();
    return first === undefined ? now.wallMs : shownWallMs(first.record, now);
  }
}

const NO_COUNTS: TaskCounts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
const NO_USAGE: TaskView["usage"] = { inputTokens: 0, outputTokens: 0, ...NO_MONEY };

function addCounts(a: TaskCounts, b: TaskCounts): TaskCounts {
  return {
    submitted: a.submitted + b.submitted,
    completed: a.completed + b.completed,
    failed: a.failed + b.failed,
    expired: a.expired + b.expired,
    cancelled: a.cancelled + b.cancelled,
  };
}

/** Hot, like `sumsShared`: once for each post. Lists its fields, because V8 is slow to spread fractions. */
function addUsage(a: TaskView["usage"], b: TaskView["usage"]): TaskView["usage"] {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    listUsd: plusUsd(a.listUsd, b.listUsd),
    usd: plusUsd(a.usd, b.usd),
    billedUsd: plusUsd(a.billedUsd, b.billedUsd),
    ambiguousUsd: plusUsd(a.ambiguousUsd, b.ambiguousUsd),
  };
}

function statusOf(
  { totalItems }: TaskRecord,
  { submitted, failed }: TaskCounts,
  sums: readonly PartSums[],
): TaskView["status"] {
  if (submitted > 0) return "submitted";
  const unreadable = sums.reduce((total, each) => total + each.unreadable, 0);
  return totalItems > 0 && failed === totalItems && unreadable >= totalItems ? "failed" : "completed";
}

function sumsOf(task: TaskRecord, index: number, { record, lot }: Look): PartSums {
  const part = task.parts[index] as TaskPart;
  if (lot === undefined) return withoutReplaced(part, sumsOver(part, record));
  if (lot.record.taskId !== undefined) return withoutReplaced(part, sumsOwn(part, lot));
  return sumsShared(part, lot, isPartCancelled(task, index));
}

/** Lines that a retry runs again count only in their present lot. */
function withoutReplaced({ again }: TaskPart, sums: PartSums): PartSums {
  if (again === undefined) return sums;
  const { completed = 0, failed, expired, cancelled } = again.replaced;
  const { counts } = sums;
  return {
    ...sums,
    counts: {
      ...counts,
      completed: counts.completed - completed,
      failed: counts.failed - failed,
      expired: counts.expired - expired,
      cancelled: counts.cancelled - cancelled,
    },
  };
}

function sumsOwn({ items }: TaskPart, lot: Lot): PartSums {
  const { counts, inputTokens, outputTokens } = lot.sums();
  const { unreadable } = lot;
  const submitted = Math.max(0, items - settledOf(counts));
  return {
    unreadable,
    counts: { submitted, ...counts },
    usage: { inputTokens, outputTokens, ...ownCost(lot) },
  };
}

function sumsShared({ firstLine, lines, items }: TaskPart, lot: Lot, isCancelled: boolean): PartSums {
  const last = firstLine + lines - 1;
  const counts = { ...lot.index.counts(firstLine, last) };
  if (isCancelled)
    for (let line = firstLine; line <= last; line += 1)
      if (lot.index.statusOf(line) === undefined && lot.statusOf(line, true) === "cancelled")
        counts.cancelled += 1;
  const { listUsd, usd, billedUsd, ambiguousUsd } = lot.costOf(firstLine, lines) ?? NO_MONEY;
  const { inputTokens, outputTokens } = lot.index.tokens(firstLine, last);
  return {
    unreadable: 0, // such lines are refused at submission
    counts: { submitted: Math.max(0, items - settledOf(counts)), ...counts },
    usage: { inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd },
  };
}

function settledOf({ completed, failed, expired, cancelled }: LotEnd["counts"]): number {
  return completed + failed + expired + cancelled;
}

function sumsOver({ items }: TaskPart, { over }: LotRecord): PartSums {
  const { counts, unreadable, inputTokens, outputTokens, ...money } = over as LotEnd; // called only then
  return {
    unreadable,
    counts: { submitted: Math.max(0, items - settledOf(counts)), ...counts },
    usage: { inputTokens, outputTokens, ...roundedMoney(completeMoney(money)) },
  };
}

/** Lots that are its own tell; in others the models are of all their tasks. */
function sourcesOf(looks: readonly Look[]): Pick<TaskView, "models" | "fileIds"> {
  const own = looks.map(({ record }) => record).filter(({ taskId }) => taskId !== undefined);
  const fileIds = own.flatMap(({ fileId, again }) => fileId ?? again?.fileId ?? []);
  const models = own.flatMap(({ works = [] }) => works.map(({ model }) => model));
  return { models: [...new Set(models)], fileIds: [...new Set(fileIds)] };
}

function ownCost({ run }: Lot): Money {
  return roundedMoney(run?.look() ?? NO_MONEY); // the same figures as at the lot's end
}

function deadlineOf(task: TaskRecord): number | undefined {
  const deadlines = task.parts.flatMap(({ slaMinutes, again }) =>
    slaMinutes === null ? [] : [(again?.sinceWallMs ?? task.createdWallMs) + slaMinutes * 60_000],
  );
  return deadlines.length === 0 ? undefined : Math.max(...deadlines);
}

/** When its last answer was durable, or it was cancelled: the same in every process. Without objects: when it was created. */
function finishedOf(task: TaskRecord, lots: readonly Look[]): number {
  let latestMs = Math.max(task.createdWallMs, task.cancelledWallMs ?? 0);
  for (const [index, { lot, record }] of lots.entries()) {
    const part = task.parts[index] as TaskPart;
    if (part.items === 0) continue;
    const answeredMs = lot === undefined ? record.over?.finishedWallMs : lot.answeredWallMs(part);
    latestMs = Math.max(latestMs, answeredMs ?? 0);
  }
  return latestMs;
}
