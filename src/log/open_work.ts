/**
 * What is open, as the records of the log say it: the same records, applied in the same order, result in the same work, while they
 * are committed and when they are read again.
 *
 *   task   absent -> accepted -> all items ended -> final -> absent          one item: absent as soon as it ended
 *          ended -> accepted, sums, items done, reopened (`WorkLog.reopen`)
 *   item   open -> [intent -> [attemptEnded -> intent]*] -> ended            by an outcome, or by `restEnded` if not under way
 *          ended -> open                                                     reopened
 *
 * An item is under way while an intent of it has neither an `attemptEnded` of its attempt nor an outcome after it: read
 * again after a crash, that attempt is in doubt. The first end of an item is its end: later ones change nothing. What an item took that
 * ended with the rest is known until its task is final.
 *
 * A task of one item has a row of columns and nothing else; one of several has also a bit for each item once one has ended, and
 * sums. Items that were tried have an object each.
 */
import type { Moment } from "../clock.ts";
import { LineSet } from "../work/line_set.ts";
import { jumpMsSince } from "../work/moment.ts";
import { stateDone } from "./done_items.ts";
import { EndedWork } from "./ended_tasks.ts";
import type { LaneMemory } from "./lane_memory.ts";
import { OpenColumns, type OpenTask } from "./open_columns.ts";
import {
  BITS_ITEMS,
  ENDED_STATUSES,
  type FieldsOf,
  type LogRecord,
  type LogRecords,
  recordBytes,
  UNCOUNTED_ITEMS,
} from "./records.ts";
import { addedSums, NO_SUMS, type TaskSums } from "./task_sums.ts";

export type { TaskSums } from "./task_sums.ts";

/** An open item that was tried. */
export interface TriedItem {
  /** The sums of its attempts so far; undefined before the first has ended. */
  readonly ended: FieldsOf<"attemptEnded"> | undefined;
  /** What of that it took before it was reopened, which the sums of its task have already. */
  readonly before?: FieldsOf<"attemptEnded"> | undefined;
  /** Attempts under way, or in doubt. */
  readonly intents: readonly FieldsOf<"intent">[];
}

/** What has ended of a task, and what that took. */
interface TaskProgress {
  readonly done: LineSet;
  sums: TaskSums;
}

const NEVER_TRIED: TriedItem = { ended: undefined, intents: [] };

export class OpenWork {
  readonly tasks: OpenColumns = new OpenColumns();
  readonly lanes: LaneMemory;
  readonly #progress = new Map<number, TaskProgress>();
  readonly #tried = new Map<number, Map<number, TriedItem>>();
  /** What open items of tasks took by attempts that ended, without what they took before they were reopened. */
  readonly #taken = new Map<number, TaskSums>();
  readonly #holds = new Map<number, FieldsOf<"held">>();
  /** Tasks whose last item has ended, and that are not final. */
  readonly #finished = new Set<number>();
  readonly ended: EndedWork = new EndedWork();
  #moment: Moment | undefined;
  /** By how much the wall clock was set since the first entry; deadlines are kept without it. */
  #jumpMs = 0;

  constructor(lanes: LaneMemory) {
    this.lanes = lanes;
  }

  /** The time of the entry whose records are next. */
  advance(moment: Moment): void {
    this.#jumpMs += jumpMsSince(this.#moment, moment);
    this.#moment = moment;
    this.lanes.advance(moment);
  }

  /** The deadline of a task as the wall clock shows time now: no jump of it since it was accepted moves the deadline. */
  deadlineMsOf({ deadlineMs }: Pick<OpenTask, "deadlineMs">, now: Moment): number {
    return deadlineMs + this.#jumpMs + jumpMsSince(this.#moment, now);
  }

  /** Whether an item has not ended. */
  isOpen(task: number, item: number): boolean {
    return item < this.tasks.itemsOf(task) && this.#progress.get(task)?.done.has(item) !== true;
  }

  /** What was tried of an open item. */
  tried(task: number, item: number): TriedItem {
    return this.#tried.get(task)?.get(item) ?? NEVER_TRIED;
  }

  /** The items of a task that were tried and are open, or ended with its rest. */
  triedItems(task: number): ReadonlyMap<number, TriedItem> {
    return this.#tried.get(task) ?? new Map<number, TriedItem>();
  }

  /** Of ended items; all 0 of a task without ended items, or that is not open. */
  sumsOf(task: number): TaskSums {
    return this.#progress.get(task)?.sums ?? NO_SUMS;
  }

  /** What open items of a task took by attempts that ended; counts no items. What they took before they were reopened is in `sumsOf`. */
  takenOf(task: number): TaskSums {
    return this.#taken.get(task) ?? NO_SUMS;
  }

  /** The sums of a task of one item that ended so. */
  sumsWith(outcome: FieldsOf<"outcome">): TaskSums {
    return addedSums(NO_SUMS, outcome, outcome.status, 1);
  }

  holdOf(task: number): FieldsOf<"held"> | undefined {
    return this.#holds.get(task);
  }

  /** Tasks whose last item has ended, and that are not final. */
  get finished(): ReadonlySet<number> {
    return this.#finished;
  }

  /** About what it takes to state all of it. */
  get statedBytes(): number {
    let bytes = this.tasks.size * recordBytes("accepted") + this.#holds.size * recordBytes("held");
    for (const { done } of this.#progress.values())
      bytes += recordBytes("sums") + (1 + done.highest / BITS_ITEMS) * recordBytes("doneBits");
    for (const { size } of this.#tried.values())
      bytes += size * (2 * recordBytes("attemptEnded") + recordBytes("intent"));
    return bytes;
  }

  /** `sequence`: of the entry that the record is in. */
  apply(record: LogRecord, sequence: number): void {
    switch (record.is) {
      case "accepted":
        this.#accept(record, sequence);
        break;
      case "intent":
        this.#intend(record);
        break;
      case "attemptEnded":
        this.#endAttempt(record);
        break;
      case "outcome":
        this.#end(record, sequence);
        break;
      case "restEnded":
        this.#endRest(record);
        break;
      case "laneFact":
        this.lanes.learn(record);
        break;
      case "sent":
        this.lanes.sent(record);
        break;
      case "removed":
        this.#forget(record.task);
        break;
      case "moved":
        break;
      default:
        this.#applyToTask(record, sequence);
        break;
    }
  }

  /** Writes what there is of an open task, as records that give the same again in an entry of this moment. */
  state(task: OpenTask, records: LogRecords, moment: Moment): void {
    const { number, items, project, kind, restStatus } = task;
    const deadlineMs = this.deadlineMsOf(task, moment);
    records.add("accepted", { task: number, items, deadlineMs, project, kind });
    const hold = this.#holds.get(number);
    if (hold !== undefined) records.add("held", hold);
    for (const { ended, before, intents } of this.triedItems(number).values()) {
      if (before !== undefined && before !== ended) records.add("attemptEnded", before);
      if (ended !== undefined) records.add("attemptEnded", ended); // before it says which are done: of some of these this is kept
      for (const intent of intents) records.add("intent", { ...intent, lane: 0 });
    }
    const progress = this.#progress.get(number);
    if (progress !== undefined) {
      records.add("sums", { task: number, ...progress.sums });
      stateDone(number, progress.done, records);
    }
    const status = ENDED_STATUSES[restStatus - 1];
    if (status !== undefined) records.add("restEnded", { task: number, status, code: 0 });
  }

  #applyToTask(
    record: Extract<
      LogRecord,
      { readonly is: "counted" | "reopened" | "final" | "held" | "wrote" | "sums" | "doneRange" | "doneBits" }
    >,
    sequence: number,
  ): void {
    const row = this.tasks.get(record.task);
    if (row === undefined) return;
    switch (record.is) {
      case "counted":
        this.#change(row, { items: record.items, left: row.left - (row.items - record.items) });
        break;
      case "reopened":
        this.#reopen(row, record);
        break;
      case "final":
        if (row.left === 0) this.#final(row, sequence);
        break;
      case "held":
        if (record.reason === 0) this.#holds.delete(row.number);
        else this.#holds.set(row.number, record);
        break;
      case "wrote":
        this.#progressOf(row).sums = { ...this.#progressOf(row).sums, outBytes: record.end };
        break;
      case "sums":
        this.#takeSums(row, record);
        break;
      case "doneRange":
      case "doneBits":
        this.#takeDone(row, record);
    }
  }

  #accept({ task, items, deadlineMs, project, kind }: FieldsOf<"accepted">, sequence: number): void {
    this.#forget(task);
    this.ended.delete(task);
    const keptMs = deadlineMs - this.#jumpMs;
    const row = {
      number: task,
      items,
      left: items,
      deadlineMs: keptMs,
      project,
      kind,
      restStatus: 0,
      sequence,
    };
    this.tasks.put(row);
    if (items === 0) this.#finished.add(task);
    if (items === 0 || items === UNCOUNTED_ITEMS) this.#progressOf(row);
  }

  #intend(intent: FieldsOf<"intent">): void {
    const { task, item, lane, inputTokens, outputTokens } = intent;
    this.lanes.sent({ lane, requests: 1, inputTokens, outputTokens });
    if (!this.isOpen(task, item)) return;
    const { ended, before, intents } = this.tried(task, item);
    this.#try(task, item, { ended, before, intents: [...intents, intent] });
  }

  #endAttempt(record: FieldsOf<"attemptEnded">): void {
    const { task, item, attempt } = record;
    if (!this.isOpen(task, item)) return;
    const { before, intents: all } = this.tried(task, item);
    const intents = all.filter((intent) => intent.attempt !== attempt);
    this.#try(task, item, { ended: record, before: attempt === 0 ? record : before, intents });
    const rest = ENDED_STATUSES[(this.tasks.get(task)?.restStatus ?? 0) - 1];
    if (rest !== undefined) this.#endRest({ task, status: rest, code: 0 });
  }

  #end(outcome: FieldsOf<"outcome">, sequence: number): void {
    const { task, item, status } = outcome;
    const row = this.tasks.get(task);
    if (row === undefined || !this.isOpen(task, item)) return;
    if (row.items === 1 && !this.#progress.has(task)) {
      this.#final(row, sequence);
      return;
    }
    const progress = this.#progressOf(row);
    const tried = this.tried(task, item);
    progress.done.add(item);
    progress.sums = addedSums(progress.sums, outcome, status, 1, tried.before);
    this.#take(task, tried, undefined);
    this.#untry(task, item);
    this.#change(row, { left: row.left - 1 });
  }

  #endRest({ task, status: last }: FieldsOf<"restEnded">): void {
    const row = this.tasks.get(task);
    if (row === undefined) return;
    const status = ENDED_STATUSES[row.restStatus - 1] ?? last; // what was under way then ends as the others did
    const tried = [...this.triedItems(task)];
    const underWay = tried.flatMap(([item, { intents }]) => (intents.length > 0 ? [item] : []));
    const count = row.left - underWay.length;
    if (count > 0) {
      const progress = this.#progressOf(row);
      progress.sums = addedSums(progress.sums, undefined, status, count);
      for (const [item, { ended, before, intents }] of tried)
        if (intents.length === 0 && this.isOpen(task, item)) {
          progress.sums = addedSums(progress.sums, ended, status, 0, before);
          this.#take(task, { ended, before, intents }, undefined);
        }
      progress.done.addRange(0, row.items);
      for (const item of underWay) progress.done.delete(item);
    }
    this.#change(row, { left: underWay.length, restStatus: ENDED_STATUSES.indexOf(status) + 1 });
  }

  #reopen(row: OpenTask, { item, status }: FieldsOf<"reopened">): void {
    const progress = this.#progressOf(row);
    if (!progress.done.has(item)) return;
    progress.done.delete(item);
    this.#untry(row.number, item);
    progress.sums = addedSums(progress.sums, undefined, status, -1);
    this.#finished.delete(row.number);
    this.#change(row, { left: row.left + 1, restStatus: 0 });
  }

  /** Of a task that is stated again: what was tried of items is stated before which of them are done. */
  #takeDone(row: OpenTask, record: LogRecord & { readonly is: "doneRange" | "doneBits" }): void {
    const { number } = row;
    const { done } = this.#progressOf(row);
    const open = [...this.triedItems(number)].filter(([item]) => this.isOpen(number, item));
    if (record.is === "doneRange") done.addRange(record.first, record.count);
    else
      for (let index = 0; index < BITS_ITEMS; index += 1)
        if (((record.bits[index >>> 3] ?? 0) & (1 << (index & 7))) !== 0) done.add(record.first + index);
    for (const [item, tried] of open) if (!this.isOpen(number, item)) this.#take(number, tried, undefined);
  }

  #takeSums(row: OpenTask, record: LogRecord & { readonly is: "sums" }): void {
    const { is: _is, task: _task, ...sums } = record;
    this.#progressOf(row).sums = sums;
    const ended = sums.completed + sums.failed + sums.expired + sums.cancelled;
    this.#change(row, { left: row.items - ended });
  }

  #progressOf({ number, items }: Pick<OpenTask, "number" | "items">): TaskProgress {
    const known = this.#progress.get(number);
    if (known !== undefined) return known;
    const progress = { done: new LineSet(Math.min(items, 8_192)), sums: NO_SUMS };
    this.#progress.set(number, progress);
    return progress;
  }

  #change(row: OpenTask, change: Partial<Pick<OpenTask, "items" | "left" | "restStatus">>): void {
    const { items, left, restStatus, kind } = { ...row, ...change };
    this.tasks.update(row.number, { items, left, restStatus, kind });
    if (left === 0) this.#finished.add(row.number);
  }

  #try(task: number, item: number, tried: TriedItem): void {
    this.#take(task, this.tried(task, item), tried);
    const items = this.#tried.get(task) ?? new Map<number, TriedItem>();
    this.#tried.set(task, items);
    items.set(item, tried);
  }

  #untry(task: number, item: number): void {
    const items = this.#tried.get(task);
    items?.delete(item);
    if (items?.size !== 0) return;
    this.#tried.delete(task);
    this.#taken.delete(task); // no rest of floats stays
  }

  /** What was tried of an open item has changed; undefined: it is not open any more. */
  #take(task: number, from: TriedItem, to: TriedItem | undefined): void {
    if (from.ended === to?.ended && from.before === to?.before) return;
    const without = addedSums(this.takenOf(task), from.before, "failed", 0, from.ended);
    this.#taken.set(task, to === undefined ? without : addedSums(without, to.ended, "failed", 0, to.before));
  }

  #final({ number, kind }: OpenTask, sequence: number): void {
    this.ended.add(number, kind, sequence);
    this.#forget(number);
  }

  #forget(task: number): void {
    this.tasks.delete(task);
    this.#progress.delete(task);
    this.#tried.delete(task);
    this.#taken.delete(task);
    this.#holds.delete(task);
    this.#finished.delete(task);
  }
}
