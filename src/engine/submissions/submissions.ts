/**
 * Submitted lists: `submit`, `task` and `object` with the shapes of the interface (2.1 to 2.3).
 *
 * A list of few items of one sla is a posted task (`posted_lists.ts`), unless a listener, a cache, `schemaTries` or batches need runs. Every other one becomes one
 * run for each different sla in it (`run_lists.ts`): items without sla run at once, and `submit` waits for them.
 * Every item is a line of a file beside the journal, so a million objects need no row each; an object's id is its
 * task's with the item's number folded into the last four bytes. The id of a task that the caller named follows from that name.
 *
 * Limits: while a list is stored, its lines in memory.
 */

import { randomUUID } from "node:crypto";
import { PerigeeError } from "../../errors.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { derivedId } from "../../work/derived_id.ts";
import type { Item } from "../../work/item.ts";
import type { Task, TaskObject } from "../../work/task.ts";
import { unlessAborted } from "../abort.ts";
import { type CacheOptions, checkCache } from "../config/cache_terms.ts";
import type { Summary } from "../items/progress.ts";
import type { OpenCalls } from "../open_calls.ts";
import type { PostedRecord } from "../posted/posted_record.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import {
  checkProgressOptions,
  type ProgressEnd,
  ProgressFeed,
  type ProgressOptions,
  progressOfAll,
} from "../runs/progress_feed.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";
import { withBatch } from "../shown/recorded_batches.ts";
import { batchesOf, type ItemTrace, traceItem } from "../trace.ts";
import { type ChunkOptions, chunkReader } from "./chunk_reader.ts";
import { checksumOf, groupBySla, isFew, postedLines } from "./list_items.ts";
import { readListSchema } from "./list_schema.ts";
import type { FewItems, PostedList, PostedLists } from "./posted_lists.ts";
import { checkRetention } from "./retention_days.ts";
import { RunList, type Submission, taskOf } from "./run_list.ts";
import { type ListName, notFound, type RunLists, type RunsOfList } from "./run_lists.ts";
import type { SubmittedIn, SubmittedPart } from "./submitted_part.ts";
import { closedBefore, type SubmittedList, type SubmittedTask, submittedTask } from "./submitted_task.ts";

/** Items of one list at most. */
const ITEMS_MAX = 1_000_000;

/** Options of `engine.submit`. */
export interface SubmitOptions extends ProgressOptions, SchemaOptions, CacheOptions, ChunkOptions {
  /**
   * 1 to 512 bytes, the caller's name of this list: the same items under it again are the same task, also in a later process, and nothing
   * of it is asked again. Other items under it are refused with `conflict`. `forget` frees it. Default: every call makes a new task.
   */
  readonly id?: string;
  /**
   * Days, 1 to 3,650, after which the list is removed by itself, as `forget` does; they begin with its deadline, or its acceptance without an sla,
   * and its last retry begins them anew. Default: it is kept until `forget`.
   */
  readonly retentionDays?: number;
  /** Aborting rejects `submit` with its reason. A task that is stored by then continues all the same, unless `onChunk` reads its answer. */
  readonly signal?: AbortSignal;
}

/** The items and the schema of a call. */
interface ReadList extends RunsOfList {
  readonly isFew: boolean;
  readonly reader: ReturnType<typeof chunkReader>;
}

/** The lists that are posted tasks. */
interface ListsInLog {
  /** Undefined before the first one, in this process or before. */
  readonly lists: Promise<PostedLists> | undefined;
  openLists(): Promise<PostedLists>;
  retain(): void;
}

/** A list that is stored, and how its call is answered. */
interface AcceptedList {
  readonly id: string;
  readonly list: SubmittedList;
  readonly answered: () => Promise<Task>;
}

export class Submissions {
  /** The lists that are runs. */
  readonly runs: RunLists;
  readonly #core: SubmittedIn;
  readonly #posted: ListsInLog;
  /** Calls for one task, so that two do not store it twice, or one what another removes. */
  readonly turns: KeyedMutex = new KeyedMutex();
  /** Lists that are not stored yet. */
  readonly #accepting = new Set<Promise<AcceptedList>>();

  constructor(core: SubmittedIn, posted: ListsInLog, runs: RunLists) {
    this.#core = core;
    this.#posted = posted;
    this.runs = runs;
  }

  /** Rejects with `usage`, before anything is stored. */
  submit(items: readonly Item[], options: SubmitOptions, calls: OpenCalls): SubmittedTask {
    const accepting = this.#accept(items, options);
    this.#accepting.add(accepting);
    const accepted = calls.ended(accepting).finally(() => this.#accepting.delete(accepting));
    return submittedTask(
      accepted.then(({ list }) => list),
      accepted.then(({ id, answered }) => calls.ended(answered(), () => closedBefore(id))),
    );
  }

  /** Resolves when the lists under way are stored, and the runs of all lists have begun. */
  async accepted(): Promise<void> {
    while (this.#accepting.size > 0) await Promise.allSettled(this.#accepting);
    await this.runs.begun();
  }

  async #accept(items: readonly Item[], options: SubmitOptions): Promise<AcceptedList> {
    const { signal } = options;
    checkProgressOptions(options, "submit");
    checkRetention(options.retentionDays, "submit");
    checkCache(options, "submit");
    signal?.throwIfAborted();
    if (items.length === 0) throw new PerigeeError("usage", "a task needs at least one item");
    if (items.length > ITEMS_MAX)
      throw new PerigeeError("usage", `a task has at most ${ITEMS_MAX} items, got ${items.length}`);
    // Before anything is awaited: the caller may change the list, its items and the schema from then on.
    const read = { groups: groupBySla(items), isFew: isFew(items), reader: chunkReader(items, options) };
    const { schemaTries } = options;
    const hasTerms = options.schema !== undefined || schemaTries !== undefined;
    const list = { ...read, schema: hasTerms ? await readListSchema(options) : undefined, schemaTries };
    if (options.retentionDays !== undefined) this.#posted.retain();
    const kept = options.retentionDays === undefined ? {} : { retentionDays: options.retentionDays };
    if (options.id === undefined) return this.#store(list, { id: randomUUID(), ...kept }, options);
    const name = {
      id: derivedId("submit", options.id),
      checksum: checksumOf(list.groups, list.schema?.json),
      ...kept,
    };
    const stored = this.turns.take(name.id, async () => {
      signal?.throwIfAborted();
      return (await this.#attach(name, options)) ?? this.#store(list, name, options);
    });
    return unlessAborted(stored, signal);
  }

  /** The list that has this name; undefined without one. Throws `conflict` if its items are others. */
  async #attach(name: ListName, options: SubmitOptions): Promise<AcceptedList | undefined> {
    const posted = await this.#findPosted(name.id);
    const body = posted === undefined ? await this.runs.bodyOf(name.id) : undefined;
    if (posted === undefined && body === undefined) return undefined;
    if ((posted?.record.note ?? body?.checksum) !== name.checksum)
      throw new PerigeeError(
        "conflict",
        `submit: other items were submitted under the id ${JSON.stringify(options.id)} before (task ${name.id}); use another id, or forget that task`,
      );
    return posted === undefined
      ? this.#asRuns(name.id, this.runs.find(name.id), options)
      : asPosted(posted.lists.attach(posted.record, options), options);
  }

  async #store(list: ReadList, name: ListName, options: SubmitOptions): Promise<AcceptedList> {
    const few = this.#few(list, name, options);
    const posted = few === undefined ? undefined : await this.#post(few, options.signal);
    const accepted =
      posted === undefined
        ? this.#asRuns(name.id, (await this.runs.accept(name, list, options)).begun, options)
        : asPosted(posted, options);
    if (list.reader !== undefined && options.signal !== undefined)
      void list.reader.follow(options.signal, {
        cancel: () => this.turns.take(name.id, () => this.cancel(name.id)),
        over: accepted.list.finished(),
      });
    return accepted;
  }

  #asRuns(id: string, begun: Promise<Submission>, options: SubmitOptions): AcceptedList {
    return { id, list: new RunList(id, begun), answered: () => this.#answer(id, begun, options) };
  }

  /** Undefined for a list that must be runs. */
  #few(
    { groups, isFew: areFew, schema, schemaTries, reader }: ReadList,
    { id, checksum: note, retentionDays }: ListName,
    { onProgress, cache }: SubmitOptions,
  ): FewItems | undefined {
    const [part, another] = groups.parts;
    const needsRuns = [onProgress, cache, schemaTries].some((each) => each !== undefined);
    if (needsRuns || part === undefined || another !== undefined || !areFew) return undefined;
    const lines = postedLines(groups, id, schema?.json);
    if (lines === undefined) return undefined;
    const own = { check: schema?.check, tap: reader?.tap };
    return { id, note, lines, slaMinutes: part.sla, ...own, retentionDays };
  }

  /** Undefined when an item cannot be measured, which ends as the line of a run does, and for a list that goes with batches. */
  async #post(few: FewItems, signal: AbortSignal | undefined): Promise<PostedList | undefined> {
    const lists = await this.#posted.openLists();
    return lists.offer(few, signal);
  }

  /** Throws `not_found`, `conflict` while it is at work. */
  async retry(id: string, retryFailed: RetryFailed, options: SubmitOptions = {}): Promise<Task> {
    checkProgressOptions(options, "retryTask");
    options.signal?.throwIfAborted();
    const posted = await this.#findPosted(id);
    if (posted?.record.id === id) return posted.lists.retry(posted.record, retryFailed, options);
    const { begun } = await this.runs.retry(id, retryFailed);
    return this.#answer(id, begun, options);
  }

  /** Ends what was not sent as `cancelled`; the task as it is then. Throws `not_found`. */
  async cancel(id: string): Promise<Task> {
    const posted = await this.#findPosted(id);
    if (posted?.record.id === id) return posted.lists.cancel(posted.record);
    const submission = await this.runs.find(id);
    await Promise.all(submission.parts.map((part) => part.cancel()));
    return taskOf(id, submission);
  }

  /** Resolves when the items without sla are final. */
  async #answer(id: string, begun: Promise<Submission>, options: SubmitOptions): Promise<Task> {
    const { signal } = options;
    const submission = await unlessAborted(begun, signal);
    const told = this.#tell(options, submission.parts);
    const immediate = submission.parts.filter((part) => part.isImmediate);
    const ends = await unlessAborted(Promise.all(immediate.map((part) => part.waited())), signal);
    const isOver = ends.length === submission.parts.length && ends.every(Boolean);
    if (isOver) await told; // the end is reported before the task is returned
    return taskOf(id, submission);
  }

  /** Resolves when the listener has received the end of the list. */
  async #tell(options: ProgressOptions, parts: readonly SubmittedPart[]): Promise<void> {
    const feed = ProgressFeed.open(this.#core.storage.clock, options, () =>
      progressOfAll(parts.map((part) => part.progress())),
    );
    if (feed !== undefined) feed.end(endOf(await Promise.allSettled(parts.map((part) => part.finished))));
  }

  /** Removes it if it is a posted task; false for another. Throws `conflict` while it is at work. */
  async forgetPosted(id: string): Promise<boolean> {
    const posted = await this.#findPosted(id);
    if (posted?.record.id !== id) return false;
    await posted.lists.forget(posted.record);
    return true;
  }

  /** Whether a task is a submitted list. */
  async has(id: string): Promise<boolean> {
    return (await this.runs.bodyOf(id)) !== undefined || (await this.#findPosted(id))?.record.id === id;
  }

  async task(id: string): Promise<Task> {
    const posted = await this.#findPosted(id);
    if (posted?.record.id === id) return posted.lists.task(posted.record);
    return taskOf(id, await this.runs.find(id));
  }

  async object(id: string): Promise<TaskObject> {
    const posted = await this.#findPosted(id);
    if (posted !== undefined) return posted.lists.object(posted.record, id);
    const { part, line } = await this.runs.place(id);
    const answers = part.answers();
    try {
      return await part.object(id, line, answers);
    } finally {
      await answers.close();
    }
  }

  /** The life of an object; throws `not_found`. */
  async trace(id: string): Promise<ItemTrace> {
    const posted = await this.#findPosted(id);
    if (posted !== undefined) return posted.lists.trace(posted.record, id);
    const { part, runId, line } = await this.runs.place(id);
    const run = await this.#core.storage.store.taskByName(`id:${runId}`);
    if (run === undefined) throw notFound("object", id);
    const { storage } = this.#core;
    const trace = await traceItem(storage, run, { key: id, line, hold: part.holdOf(line) });
    return withBatch(trace, await batchesOf(storage.store, run.id));
  }

  async #findPosted(
    id: string,
  ): Promise<{ readonly lists: PostedLists; readonly record: PostedRecord } | undefined> {
    const lists = await this.#posted.lists;
    const record = await lists?.find(id);
    return lists === undefined || record === undefined ? undefined : { lists, record };
  }
}

function asPosted(list: PostedList, { signal }: SubmitOptions): AcceptedList {
  return { id: list.id, list, answered: () => list.answered(signal) };
}

/** A list ended as the part of it that ended worst. */
function endOf(parts: readonly PromiseSettledResult<Summary>[]): ProgressEnd {
  for (const part of parts) if (part.status === "rejected") return { status: "failed", error: part.reason };
  for (const part of parts) {
    if (part.status === "rejected" || part.value.status === "completed") continue;
    const { status, reason } = part.value;
    return { status, ...(reason === undefined ? {} : { reason }) };
  }
  return { status: "completed" };
}
