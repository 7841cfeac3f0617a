/**
 * Submitted lists that are posted tasks: few items of one sla, each list a row and a record of the work log. What else is submitted are
 * runs (`run_list.ts`).
 *
 *   offered -> accepted (durable) -> final -> open again (retry) | forgotten
 *           -> undefined: an item cannot be measured, and ends as the line of a run does; or the list goes with batches, as runs do
 *
 * Limits: those of the acceptance. Of a list that is final nothing is in memory.
 */
import { hasCode, PerigeeError } from "../../errors.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { Store } from "../../store/store.ts";
import { objectNumber } from "../../work/object_id.ts";
import type { Task, TaskObject } from "../../work/task.ts";
import { unlessAborted } from "../abort.ts";
import type { EngineCore } from "../core.ts";
import { SPACE_CHECK_MS } from "../journal/disk_space.ts";
import { Acceptance, type SmallTask } from "../posted/acceptance.ts";
import type { AdmittedWork } from "../posted/admitting.ts";
import type { PostedOptions } from "../posted/open_posted.ts";
import { PostedItemReader } from "../posted/posted_reader.ts";
import { bodyOf, type PostedRecord, rowIdOf, rowToPosted } from "../posted/posted_record.ts";
import { PostedRetries } from "../posted/posted_retries.ts";
import type { PostedWork } from "../posted/posted_work.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import { ProgressFeed, type ProgressOptions } from "../runs/progress_feed.ts";
import { heldWaitMs } from "../runs/watch.ts";
import type { ItemTrace } from "../trace.ts";
import { ListEnds } from "./list_ends.ts";
import { ListMoney } from "./list_money.ts";
import { ListProgress } from "./list_progress.ts";
import { traceLogged } from "./log_trace.ts";
import { closedBefore, type SubmittedList, taskOfObjects } from "./submitted_task.ts";

/** Lists are accepted whatever they take. */
const ADMITTED: AdmittedWork = {
  estimatedUsd: 0,
  hold: { release: () => undefined },
  room: { release: () => undefined },
};
const ADMISSION = { admit: () => Promise.resolve(ADMITTED) };
/** How long a caller waits for space on a full disk. */
const ROOM_WAIT_MS = 60_000;
const PROJECT = "";

interface ListOptions extends ProgressOptions {
  readonly signal?: AbortSignal;
}

/** The items of a list, as lines that `taskLines` made. */
export type FewItems = Pick<
  SmallTask,
  "id" | "lines" | "slaMinutes" | "note" | "check" | "tap" | "retentionDays"
>;

/** Stored with the first list: then the log is opened at each start. */
const MARK = { project: PROJECT, collection: "posted_lists", id: "first", parent: "", createdWallMs: 0 };

/** Whether the folder has had posted lists. */
export async function hasPostedLists(store: Pick<Store, "record">): Promise<boolean> {
  return (await store.record(MARK.project, MARK.collection, MARK.id)) !== undefined;
}

/** Goes on with those that are open. */
export async function openPostedLists(
  core: EngineCore,
  log: WorkLog,
  openPosted: (options: PostedOptions) => PostedWork,
): Promise<PostedLists> {
  const { store, room } = core.storage;
  if (!(await hasPostedLists(store)))
    await room.answerFor(() => store.change([{ kind: "put", record: { ...MARK, body: "{}" } }]));
  const money = await ListMoney.open(core, log);
  const lists = new PostedLists(core, log, money, openPosted);
  core.sending.backlog.countUnread((project, deadlineMs) => lists.work.unreadItems(project, deadlineMs));
  const takenUsd = await money.takenUsd();
  if (takenUsd > 0) await lists.work.groups.countSpent(takenUsd);
  await lists.work.prepare();
  lists.work.open();
  return lists;
}

/** One for an engine. */
export class PostedLists {
  readonly work: PostedWork;
  readonly #core: EngineCore;
  readonly #log: WorkLog;
  readonly #money: ListMoney;
  readonly #acceptance: Acceptance<AdmittedWork>;
  readonly #reader: PostedItemReader;
  readonly #retries: PostedRetries<AdmittedWork>;
  /** Of open lists that this process accepted, or runs again. */
  readonly #ends = new Map<number, ListEnds>();
  readonly #changing = new Set<number>();
  readonly #unsubscribe: () => void;

  constructor(
    core: EngineCore,
    log: WorkLog,
    money: ListMoney,
    openPosted: (options: PostedOptions) => PostedWork,
  ) {
    this.#core = core;
    this.#log = log;
    this.#money = money;
    this.work = openPosted({
      workLog: log,
      kind: WORK_KINDS.list,
      waits: {
        answerMs: Number.POSITIVE_INFINITY,
        heldMs: (holds) => heldWaitMs(holds, core.config.waitMs),
      },
      capsOf: () => Promise.resolve([]),
      onTried: () => undefined,
      onEnded: (number, _record, _endedWallMs, item) => this.#ends.get(number)?.add(item),
      onFinal: (number) => this.#final(number),
      onFault: (error) =>
        core.storage.notice(
          `some submitted lists could not go on, and are tried again in a minute: ${String(error)}`,
        ),
    });
    this.#acceptance = new Acceptance(core, this.work, ADMISSION);
    this.#reader = new PostedItemReader(core, log, this.work);
    this.#retries = new PostedRetries({
      ...{ core, log, work: this.work, admission: ADMISSION, reader: this.#reader },
    });
    this.#unsubscribe = core.recording.failures.add((error) => this.#leaveAll(() => error));
  }

  /** Resolves when it is durable; undefined for a list that is to be a run. Waits a minute for a full disk. */
  async offer(few: FewItems, signal: AbortSignal | undefined): Promise<PostedList | undefined> {
    const { clock } = this.#core.storage;
    const untilMs = clock.nowMs() + Math.min(ROOM_WAIT_MS, this.#core.config.diskWaitMs);
    for (;;) {
      try {
        const accepted = await this.#acceptance.offer({ ...few, project: PROJECT, hasOutputFile: false });
        if (accepted === undefined) return undefined;
        const { task } = accepted;
        return new PostedList(this, task, this.#follow(task));
      } catch (error) {
        if (hasCode(error, "usage")) return undefined;
        if (!hasCode(error, "disk_full") || clock.nowMs() >= untilMs) throw error;
      }
      await clock.sleep(SPACE_CHECK_MS, { signal });
    }
  }

  /** One that is stored. Its ends are shared by those who follow it. */
  attach(record: PostedRecord, options: ListOptions): PostedList {
    const ends = this.#ends.get(record.number) ?? this.#follow(record);
    void this.#tell(record, ends, options);
    return new PostedList(this, record, ends);
  }

  /** The task that has this id, or an object that does; undefined for one that is not a list here. */
  async find(id: string): Promise<PostedRecord | undefined> {
    const row = await this.#log.rows.loggedTask(rowIdOf(id));
    return row?.kind === WORK_KINDS.list ? rowToPosted(this.#log, row) : undefined;
  }

  /** Throws `not_found` for one that was forgotten since. */
  async task(record: PostedRecord): Promise<Task> {
    return taskOfObjects(record.id, await this.#objects(record, 0, record.totalItems));
  }

  /** Throws `not_found`. */
  async object(record: PostedRecord, id: string): Promise<TaskObject> {
    return this.objectAt(record, itemOf(record, id));
  }

  /** By its number, from 0. */
  async objectAt(record: PostedRecord, item: number): Promise<TaskObject> {
    const [object] = await this.#objects(record, item, item + 1);
    return object as TaskObject; // each item has one
  }

  /** The life of an object; throws `not_found`. */
  async trace(record: PostedRecord, id: string): Promise<ItemTrace> {
    const item = itemOf(record, id);
    const isOpen = this.#log.isOpen(record.number, item);
    const ended = isOpen ? undefined : (await this.#reader.ended(record, item, item + 1).next()).value;
    const object = isOpen ? await this.objectAt(record, item) : undefined;
    return traceLogged(this.#core.storage.store, this.#log, { record, item, key: id, ended, object });
  }

  /** The task when it is final, or its caller should not wait any longer. */
  async answered(record: PostedRecord, ends: ListEnds, signal?: AbortSignal): Promise<Task> {
    const { number, slaMinutes } = record;
    if (slaMinutes === null)
      await Promise.race([this.work.untilFinal(number, signal), ends.over()]).catch(unlessClosed);
    return unlessAborted(this.task(record), signal);
  }

  /** Runs failed items again; resolves as `answered`. Throws `conflict` while it is at work. */
  async retry(record: PostedRecord, retryFailed: RetryFailed, options: ListOptions): Promise<Task> {
    const { number, id } = record;
    await this.#log.untilEnded(number);
    if (this.#log.has(number) || this.#changing.has(number))
      throw new PerigeeError("conflict", `task ${id} is at work; wait until it is completed`);
    this.#changing.add(number);
    const retried = await this.#money
      .counted(number)
      .then(() => this.#retries.retry(record, retryFailed, 0))
      .finally(() => this.#changing.delete(number));
    const ends = this.#follow(retried.task);
    const told = this.#tell(retried.task, ends, options);
    const task = await this.answered(retried.task, ends, options.signal);
    if (task.status === "completed") await told; // the end is reported before the task is returned
    return task;
  }

  /** Ends what is not under way as `cancelled`, durably; the task as it is then. Changes nothing of one that is final. */
  async cancel(record: PostedRecord): Promise<Task> {
    const { clock } = this.#core.storage;
    const { restStatus = 0, deadlineMs = 0 } = this.#log.task(record.number) ?? {};
    if (restStatus !== 0 || deadlineMs <= clock.wallMs()) return this.task(record);
    const cancelledWallMs = Math.max(clock.wallMs(), record.createdWallMs);
    const cancelled: PostedRecord = { ...record, isCancelled: true, cancelledWallMs };
    await this.work.cancel(record.number, bodyOf(cancelled));
    return this.task(cancelled);
  }

  /** Removes all of it, durably. Throws `conflict` while it is at work. */
  async forget({ number, id }: PostedRecord): Promise<void> {
    await this.#log.untilEnded(number);
    if (this.#log.has(number) || this.#changing.has(number))
      throw new PerigeeError("conflict", `task ${id} is at work; stop or cancel its run first`);
    this.#changing.add(number);
    try {
      await this.#money.counted(number); // it stays in the sum of the engine's cap
      await this.#core.storage.room.answerFor(() => this.#log.erase({ all: [number] }));
    } finally {
      this.#changing.delete(number);
    }
  }

  /** After its work is closed. */
  close(): void {
    this.#unsubscribe();
    this.#money.close();
    this.#leaveAll(closedBefore);
  }

  /** The caller's record may be older than a cancel or a retry, which say how items without an answer ended. */
  async #objects(record: PostedRecord, from: number, to: number): Promise<TaskObject[]> {
    const objects = await this.#reader.objects(record, { from, to });
    if (!objects.some(({ status }) => status === "expired" || status === "cancelled")) return objects;
    const present = await this.find(record.id);
    if (present?.number !== record.number)
      throw new PerigeeError("not_found", `no task ${JSON.stringify(record.id)}: it was forgotten`);
    return this.#reader.objects(present, { from, to });
  }

  #follow({ number, id, totalItems }: PostedRecord): ListEnds {
    const ends = new ListEnds(id, totalItems);
    if (!this.#log.has(number)) {
      ends.end();
      return ends;
    }
    for (let item = 0; item < totalItems; item += 1) if (!this.#log.isOpen(number, item)) ends.add(item);
    this.#ends.set(number, ends);
    return ends;
  }

  #final(number: number): void {
    this.#ends.get(number)?.end();
    this.#ends.delete(number);
    this.#money.ended(number);
  }

  #leaveAll(errorOf: (id: string) => Error): void {
    for (const ends of this.#ends.values()) ends.leave(errorOf(ends.id));
    this.#ends.clear();
  }

  /** Resolves when the listener has received the end. */
  async #tell(record: PostedRecord, ends: ListEnds, options: ProgressOptions): Promise<void> {
    const progress = new ListProgress(this.#core, this.#log, this.work, record);
    const feed = ProgressFeed.open(this.#core.storage.clock, options, () => progress.now());
    if (feed === undefined) return;
    try {
      for await (const _item of ends.each()) await progress.update();
      await progress.update();
      feed.end({ status: "completed" });
    } catch (error) {
      const isClosed = hasCode(error, "closed");
      feed.end(isClosed ? { status: "stopped", reason: "closed" } : { status: "failed", error });
    }
  }
}

/** One list, for the process that accepted it. */
export class PostedList implements SubmittedList {
  readonly #lists: PostedLists;
  readonly #record: PostedRecord;
  readonly #ends: ListEnds;

  constructor(lists: PostedLists, record: PostedRecord, ends: ListEnds) {
    this.#lists = lists;
    this.#record = record;
    this.#ends = ends;
  }

  /** Of its task. */
  get id(): string {
    return this.#record.id;
  }

  answered(signal: AbortSignal | undefined): Promise<Task> {
    return this.#lists.answered(this.#record, this.#ends, signal);
  }

  async finished(): Promise<Task> {
    await this.#ends.over();
    return this.#lists.task(this.#record);
  }

  async *objects(): AsyncGenerator<TaskObject> {
    for await (const item of this.#ends.each()) yield await this.#lists.objectAt(this.#record, item);
  }
}

/** A caller of an engine that closes gets the task as it is. */
function unlessClosed(error: unknown): void {
  if (!hasCode(error, "closed")) throw error;
}

/** The number of an object in its list, from 0; throws `not_found`. */
function itemOf({ id: taskId, totalItems }: PostedRecord, id: string): number {
  const number = objectNumber(taskId, id);
  if (number < 1 || number > totalItems)
    throw new PerigeeError("not_found", `no object ${JSON.stringify(id.slice(0, 64))}`);
  return number - 1;
}
