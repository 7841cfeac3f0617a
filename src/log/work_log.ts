/**
 * THE work log: what is to be done, what was tried and how it ended, for all tasks of a store in one log.
 *
 *   opening -> open -> closed
 *              open -> failed     a sync or the store itself failed: every later call is refused with `store_failed`
 *   call       staged -> under way -> committed     one commit at a time; what is staged meanwhile makes the next one
 *                        under way -> refused       `disk_full`, `conflict`: nothing of it has happened, it may be called again
 *                        under way -> under way     the output of a task takes no bytes: its lines become answers, and it continues
 *
 * What a call says counts once its commit is durable: until then the log answers as if it had not been called. A task is a
 * number, an item a task and its place from 0. `open_work.ts` draws the states of both.
 *
 * Texts are rows (the request of a task in its row, answers by task and item) or lines of a file that is written and synced with the
 * commit. Records hold no texts, so erased texts are gone.
 *
 * Hot: 5,000 posts or 9,000 lines a second (bench/jobs/work_log.ts, docs/decisions/0022-work-log.md).
 */
import assert from "node:assert";
import { crc32 } from "node:zlib";
import type { Moment } from "../clock.ts";
import type { DiskFile } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import type { LogStore } from "../store/log_rows.ts";
import type { AcceptedWork, EndedItem } from "./accepted_work.ts";
import type { EndedWork } from "./ended_tasks.ts";
import type { KeptFact, SentSum } from "./lane_memory.ts";
import { LogCommits, type LogCommitsOptions } from "./log_commits.ts";
import type { LogCutOptions } from "./log_cut.ts";
import type { OpenTask } from "./open_columns.ts";
import type { OpenWork, TaskSums, TriedItem } from "./open_work.ts";
import { type ReadLog, readLog, type UnsureWrite } from "./read_log.ts";
import {
  type EndedStatus,
  type FieldsOf,
  NOTES_ITEM,
  type OutcomeFields,
  recordOf,
  SUMS_ITEM,
  UNCOUNTED_ITEMS,
} from "./records.ts";

export type { AcceptedWork, EndedItem } from "./accepted_work.ts";

export interface WorkLogOptions extends LogCommitsOptions, LogCutOptions {}

const OPENED = new WeakSet<LogStore>();
const NO_BYTES = new Uint8Array();
const HELD_PAGE = 256;
const NO_ATTEMPT = { attempt: 0, nextMs: 0 };

/**
 * Opens the log of a store, which stays open when the log is closed. Throws `data_dir_in_use` while another log of it is open, and
 * what reading throws: `store_damaged`, `data_dir_newer`, `data_dir_older`.
 */
export async function openWorkLog(options: WorkLogOptions): Promise<WorkLog> {
  if (OPENED.has(options.store))
    throw new PerigeeError("data_dir_in_use", "the work log of this store is open already");
  OPENED.add(options.store);
  try {
    return new WorkLog(options, await readLog(options.store, options));
  } catch (error) {
    OPENED.delete(options.store);
    throw error;
  }
}

/**
 * The log of one store. Calls may overlap; they take effect in their order. Those that write return a promise that resolves
 * when what they say has survived a power cut, and rejects with `disk_full` or `conflict` (another task of the same commit has an id that
 * is in use) when nothing of it has happened, or with `store_failed`. All calls of one commit return the same promise, which
 * nobody needs to wait for. Writing calls throw `closed`, `store_failed`, and `too_large` above 256 MiB that wait.
 */
export class WorkLog {
  /** Rows of tasks and answers, as of the last commit and those before the call. */
  readonly rows: Pick<LogStore, "loggedTask" | "loggedTasks" | "loggedAnswers">;
  /** Writes of the last process that may not have survived a power cut. */
  readonly unsure: readonly UnsureWrite[];
  readonly ended: EndedWork;
  /** What the operator should know of how it was opened. */
  readonly notes: readonly string[];
  /** What open items of a task took by attempts that ended; it counts no items. What they took before they were reopened is in `sumsOf`. */
  readonly takenOf: (task: number) => TaskSums = (task) => this.#work.takenOf(task);
  /** Resolves when a task whose end is being written has ended. */
  readonly untilEnded: LogCommits["untilEnded"] = (task) => this.#commits.untilEnded(task);
  readonly #options: WorkLogOptions;
  readonly #work: OpenWork;
  readonly #read: ReadLog;
  readonly #commits: LogCommits;

  constructor(options: WorkLogOptions, read: ReadLog) {
    this.rows = options.store;
    this.unsure = read.unsure;
    this.notes = read.notes;
    this.#options = options;
    this.#read = read;
    this.#work = read.work;
    this.ended = read.work.ended;
    this.#commits = new LogCommits(options, read);
  }

  /** A task is about to be accepted: what is staged before waits for it, a few milliseconds at most. Returns how to end that, once. */
  expect(): () => void {
    return this.#commits.expect();
  }

  /** Calls back for each task of several items that is final, durably, with its kind. */
  onFinal(listener: (task: number, kind: number) => void): void {
    this.#commits.finalListeners.add(listener);
  }

  /** A task's number and when it is durable. Throws `conflict` when a task with its id was accepted a moment ago. */
  accept(work: AcceptedWork): { readonly task: number; readonly durable: Promise<void> } {
    const { id, kind, parent = "", createdWallMs, body } = work;
    const { items = UNCOUNTED_ITEMS, deadlineMs = Number.POSITIVE_INFINITY } = work;
    const isCount = Number.isInteger(items) && items >= 0 && items <= UNCOUNTED_ITEMS;
    assert(isCount, "a task's items are a count of 32 bits");
    assert(Number.isInteger(kind) && kind >= 0 && kind <= 0xff, "a task's kind is a number of 8 bits");
    const staged = this.#commits.stage(true);
    if (this.#commits.hasId(id))
      throw new PerigeeError("conflict", `another task has the id ${JSON.stringify(id)}`);
    const project = this.number(work.project);
    const task = this.#commits.place.nextTask++;
    staged.records.add("accepted", { task, items, deadlineMs, project, kind });
    staged.accept({ number: task, id, project, kind, parent, createdWallMs, body }, work.request ?? NO_BYTES);
    return { task, durable: staged.durable };
  }

  /**
   * The first task that the store does not have yet, accepted or not (then its time is infinite): what the store is given in this turn
   * is committed before it, and after all tasks with lower numbers.
   */
  get nextRow(): LogCommits["nextRow"] {
    return this.#commits.nextRow;
  }

  /** Says how many items a task has that was accepted without a count. */
  count(task: number, items: number): Promise<void> {
    assert(items < UNCOUNTED_ITEMS, "a task has at most 4,294,967,294 items");
    return this.#add("counted", { task, items });
  }

  /** A request is about to be sent: it may be once this is durable. Counts against its lane, with any result. */
  intend(intent: FieldsOf<"intent">): Promise<void> {
    return this.#add("intent", intent);
  }

  /** An attempt ended, and its item continues. One whose request never left counts in `attempts` no more. */
  endAttempt(ended: FieldsOf<"attemptEnded">): Promise<void> {
    return this.#add("attemptEnded", ended);
  }

  /**
   * An item ended, with its answer or the text of its error. The text is a line of its task's output where one is open, and
   * else an answer. Nothing may be staged for an item that is not open: its caller looks first.
   */
  end(outcome: OutcomeFields, text: Uint8Array): Promise<void> {
    const { task, item } = outcome;
    const staged = this.#commits.stage();
    const isLine = this.#commits.outputs.takesLines(task);
    const textCrc32 = text.byteLength === 0 ? 0 : crc32(text);
    const record = staged.records.addOutcome(outcome, text.byteLength, textCrc32, isLine);
    if (isLine) staged.line(task, item, record, text);
    else staged.answer(task, item, record, text);
    return staged.durable;
  }

  /**
   * All items of a counted task that are not under way end so: cancelled, expired. Those under way end by their outcomes, or so as
   * well when an attempt of them ends without one. Those that were tried have an `attemptEnded` as their answer in a final task.
   */
  endRest(task: number, status: EndedStatus, code: number): Promise<void> {
    assert(this.#work.tasks.get(task)?.items !== UNCOUNTED_ITEMS, "a task is counted before its rest ends");
    return this.#add("restEnded", { task, status, code });
  }

  /**
   * Opens items again that have ended; what they took stays in the task's sums, their answers go.
   * A task that is final is open again, with this deadline. `body` takes the place of that of its row. Throws `not_found`.
   */
  async reopen(
    task: number,
    items: readonly EndedItem[],
    deadlineMs: number = Number.POSITIVE_INFINITY,
    body?: string,
  ): Promise<void> {
    await this.untilEnded(task);
    const sums = this.has(task) ? undefined : await this.sumsOf(task);
    const row = sums === undefined ? undefined : await this.rows.loggedTask(task);
    if (this.#commits.isEnding(task)) return this.reopen(task, items, deadlineMs, body);
    const staged = this.#commits.stage();
    if (this.#work.tasks.get(task) === undefined) {
      if (sums === undefined || row === undefined)
        throw new PerigeeError("not_found", `there is no task ${task}`);
      const count = sums.completed + sums.failed + sums.expired + sums.cancelled;
      const { project, kind } = row;
      staged.records.add("accepted", { task, items: count, deadlineMs, project, kind });
      staged.records.add("sums", { task, ...sums });
      staged.records.add("doneRange", { task, first: 0, count });
      staged.drop(task, SUMS_ITEM);
    }
    staged.reopened.add(task);
    if (body !== undefined) staged.changes.bodies.push([task, body, false]);
    for (const { item, status, taken } of items) {
      staged.records.add("reopened", { task, item, status });
      if (taken !== undefined) staged.records.add("attemptEnded", { ...taken, ...NO_ATTEMPT, task, item });
      staged.drop(task, item);
    }
    return staged.durable;
  }

  /** A task waits for a reason that is not its own (a name's number), or, with reason 0, no more. */
  hold(held: FieldsOf<"held">): Promise<void> {
    return this.#add("held", held);
  }

  /** Replaces what was learnt before of this fact of this lane. */
  learn(lane: number, fact: number, value: number, forMs: number): Promise<void> {
    return this.#add("laneFact", { lane, fact, value, forMs, ageMs: 0 });
  }

  /** Tokens that an answer took beyond what its intent said. */
  sentMore(lane: number, inputTokens: number, outputTokens: number): Promise<void> {
    return this.#add("sent", { lane, requests: 0, inputTokens, outputTokens, ageMs: 0 });
  }

  /** Replaces the body of a task's row. `isSpent`: its request is deleted, which nobody needs any more. */
  rewrite(task: number, body: string, isSpent = false): Promise<void> {
    const staged = this.#commits.stage();
    staged.changes.bodies.push([task, body, isSpent]);
    return staged.durable;
  }

  /** Replaces what attempts of a task have noted for later ones; undefined: no notes are kept. */
  note(task: number, notes: Uint8Array | undefined): Promise<void> {
    const staged = this.#commits.stage();
    if (notes === undefined) staged.drop(task, NOTES_ITEM);
    else staged.answer(task, NOTES_ITEM, NO_BYTES, notes);
    return staged.durable;
  }

  /** What `note` has kept. */
  async notesOf(task: number): Promise<Uint8Array | undefined> {
    const [found] = await this.rows.loggedAnswers(task, NOTES_ITEM, 1);
    return found?.item === NOTES_ITEM ? found.text : undefined;
  }

  /** Removes tasks and their rows, also open ones, which then never end. Their texts are on the disk until the next `scrub` of the store. */
  remove(tasks: readonly number[]): Promise<void> {
    const staged = this.#commits.stage();
    for (const task of tasks) staged.records.add("removed", { task });
    staged.changes.removed.push(...tasks);
    return staged.durable;
  }

  /**
   * Erases tasks that are not open: the texts of `texts` (their rows stay), the rows of `all`. When it resolves, no file of the
   * store holds a byte of these texts. Throws `conflict` for an open one.
   */
  async erase({
    texts = [],
    all = [],
  }: {
    readonly texts?: readonly number[];
    readonly all?: readonly number[];
  }): Promise<void> {
    const open = [...texts, ...all].find((task) => this.has(task) || this.#commits.isEnding(task));
    if (open !== undefined) throw new PerigeeError("conflict", `task ${open} is open`);
    const staged = this.#commits.stage();
    staged.changes.erased.push(...texts);
    staged.changes.removed.push(...all);
    await staged.durable;
    await this.#options.store.scrub();
  }

  /** Lines of a task are written to this file from now on, after those that are committed. It stays open until `closeOutput` resolves. */
  openOutput(task: number, file: DiskFile): void {
    this.#commits.outputs.open(task, file);
  }

  /** Waits for what is staged. */
  async closeOutput(task: number): Promise<void> {
    await this.#commits.stage().durable.finally(() => this.#commits.outputs.close(task));
  }

  /** Whether the output of a task took no bytes: its lines are answers until they are released. */
  isOutputHeld(task: number): boolean {
    return this.#commits.outputs.isHeld(task);
  }

  /**
   * Writes lines of a task that are answers to its output, which is open; cheap without any. Throws `output_unwritable` when
   * it still takes no bytes.
   */
  async releaseOutput(task: number): Promise<void> {
    this.#commits.outputs.unhold(task);
    for (let from = 0; from < SUMS_ITEM; ) {
      await this.#commits.stage().durable;
      const page = await this.rows.loggedAnswers(task, from, HELD_PAGE);
      const held = page.filter(({ item }) => item < NOTES_ITEM);
      if (held.length === 0) return;
      const staged = this.#commits.stage();
      for (const { item, record, text = NO_BYTES } of held) {
        const fields = recordOf("outcome", record);
        staged.records.add("moved", { task, item, textBytes: fields.textBytes, textCrc32: fields.textCrc32 });
        staged.line(task, item, record, text);
      }
      await staged.durable;
      if (this.isOutputHeld(task))
        throw new PerigeeError("output_unwritable", `the output of task ${task} still takes no bytes`);
      const dropping = this.#commits.stage(); // only now: a power cut may have taken the lines of the last write
      for (const { item } of held) dropping.drop(task, item);
      await dropping.durable;
      from = (held.at(-1)?.item ?? 0) + 1;
    }
  }

  /** The number of a text (project, lane, price, reason) in records; the same for good. */
  number(text: string): number {
    return this.#read.names.numberOf(text);
  }

  text(number: number): string | undefined {
    return this.#read.names.textOf(number);
  }

  /** Whether a task is open, durably. */
  has(task: number): boolean {
    return this.#work.tasks.has(task);
  }

  /** An open task; undefined for one that has ended, or is not durable yet. */
  task(task: number): OpenTask | undefined {
    const open = this.#work.tasks.get(task);
    return open === undefined ? undefined : this.#dated(open, this.#options.clock.moment());
  }

  /** All open tasks, in the order in which the log states them. Nothing may be awaited between two. */
  *openTasks(): IterableIterator<OpenTask> {
    const now = this.#options.clock.moment();
    for (const open of this.#work.tasks) yield this.#dated(open, now);
  }

  /** Whether an item has not ended. */
  isOpen(task: number, item: number): boolean {
    return this.#work.isOpen(task, item);
  }

  /** Items of an open task that were tried, and are open or ended with its rest; their intents are in doubt when the log was just opened. */
  triedItems(task: number): ReadonlyMap<number, TriedItem> {
    return this.#work.triedItems(task);
  }

  /** What holds a task. */
  holdOf(task: number): FieldsOf<"held"> | undefined {
    return this.#work.holdOf(task);
  }

  /** What the ended items of a task took, which may have ended itself; undefined if no task has this number. */
  async sumsOf(task: number): Promise<TaskSums | undefined> {
    if (this.#work.tasks.get(task) !== undefined) return this.#work.sumsOf(task);
    const [sums] = await this.rows.loggedAnswers(task, SUMS_ITEM, 1);
    if (sums !== undefined) return recordOf("sums", sums.record);
    const [only] = await this.rows.loggedAnswers(task, 0, 1); // of a task of one item
    return only === undefined ? undefined : this.#work.sumsWith(recordOf("outcome", only.record));
  }

  /** What was learnt of lanes. */
  facts(): readonly KeptFact[] {
    return this.#work.lanes.facts(this.#options.clock.moment());
  }

  /** What was sent in the last minute, in sums of a second or less. */
  recentlySent(): readonly SentSum[] {
    return this.#work.lanes.recent(this.#options.clock.moment());
  }

  /** Bytes of all entries. */
  get logBytes(): number {
    return this.#read.cut.logBytes;
  }

  /** Waits for what was called before, also twice. */
  async close(): Promise<void> {
    await this.#commits.close();
    OPENED.delete(this.#options.store);
  }

  #dated(open: OpenTask, now: Moment): OpenTask {
    return { ...open, deadlineMs: this.#work.deadlineMsOf(open, now) };
  }

  #add<K extends "counted" | "intent" | "attemptEnded" | "restEnded" | "held" | "laneFact" | "sent">(
    is: K,
    fields: FieldsOf<K>,
  ): Promise<void> {
    const staged = this.#commits.stage();
    staged.records.add(is, fields);
    return staged.durable;
  }
}
