/**
 * Submitted lists: `submit`, `task` and `object` with the shapes of the interface (2.1 to 2.3).
 *
 * A list of few items of one sla is a posted task (`posted_lists.ts`), unless a listener, a cap or batches need runs. Every other one becomes one
 * run for each different sla in it: items without sla run at once, and `submit` waits for them.
 * Every item is a line of a file beside the journal, so a million objects need no row each; an object's id is its
 * task's with the item's number folded into the last four bytes.
 *
 *   spooled -> stored (from here on it survives anything) -> begun -> over (its runs have ended) -> forgotten
 *   over -> begun      some of its items are run again
 *
 * Limits: while a list is stored, its lines in memory. 39 bytes of columns an item while a task is begun. Tasks whose runs have ended
 * are kept in memory for the 64 last read; another one is read from the disk again.
 */
import { randomUUID } from "node:crypto";
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { StoredTask } from "../../store/store.ts";
import type { Item } from "../../work/item.ts";
import { objectNumber, stemOf } from "../../work/object_id.ts";
import type { Task, TaskObject } from "../../work/task.ts";
import { unlessAborted } from "../abort.ts";
import type { Source } from "../files/input.ts";
import { submittedPath } from "../files/task_files.ts";
import type { Summary } from "../items/progress.ts";
import { asFailure } from "../journal/file_errors.ts";
import type { OpenCalls } from "../open_calls.ts";
import { taskLines } from "../posted/acceptance.ts";
import type { PostedRecord } from "../posted/posted_record.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import {
  checkProgressOptions,
  type ProgressEnd,
  ProgressFeed,
  type ProgressOptions,
  progressOfAll,
} from "../runs/progress_feed.ts";
import type { Run } from "../runs/run.ts";
import type { EngineRunOptions } from "../runs/run_open.ts";
import { withBatch } from "../shown/recorded_batches.ts";
import { batchesOf, type ItemTrace, traceItem } from "../trace.ts";
import { groupBySla, isFew, type ListGroups } from "./list_items.ts";
import type { FewItems, PostedList, PostedLists } from "./posted_lists.ts";
import { type ListPlaces, RunList, type Submission, taskOf } from "./run_list.ts";
import { partRunId, type SubmissionBody, submissionIn } from "./submission_body.ts";
import { type SubmittedIn, SubmittedPart } from "./submitted_part.ts";
import { closedBefore, type SubmittedList, type SubmittedTask, submittedTask } from "./submitted_task.ts";

/** Items of one list at most. */
const ITEMS_MAX = 1_000_000;
/** Tasks kept in memory when their runs have ended. */
const OVER_KEPT_MAX = 64;

/** Options of `engine.submit`. */
export interface SubmitOptions extends ProgressOptions {
  /** Aborting rejects `submit` with its reason. A task that is stored by then continues all the same. */
  readonly signal?: AbortSignal;
}

type RunItems = (source: Source, options: EngineRunOptions) => Run;

/** The lists that are posted tasks. */
interface ListsInLog {
  /** Undefined before the first one, in this process or before. */
  readonly lists: Promise<PostedLists> | undefined;
  openLists(): Promise<PostedLists>;
}

/** A list that is stored, and how its call is answered. */
interface AcceptedList {
  readonly id: string;
  readonly list: SubmittedList;
  readonly answered: () => Promise<Task>;
}

export class Submissions {
  readonly #core: SubmittedIn;
  readonly #run: RunItems;
  readonly #posted: ListsInLog;
  readonly #open = new Map<string, Promise<Submission>>();
  /** Of the open ones, those whose runs have ended; the one read last is the last. */
  readonly #over = new Set<string>();
  /** Lists that are not stored yet. */
  readonly #accepting = new Set<Promise<AcceptedList>>();

  constructor(core: SubmittedIn, run: RunItems, posted: ListsInLog) {
    this.#core = core;
    this.#run = run;
    this.#posted = posted;
  }

  /** At the start: continues a submission that was not done. */
  async resume({ id, body }: StoredTask): Promise<void> {
    const submission = submissionIn(body);
    if (submission === undefined || submission.isDone) return;
    await this.#begin(id, submission).catch(() => undefined); // a caller that asks for it gets the error; others continue
  }

  /** Whether runs of the task have not ended. */
  isAtWork(id: string): boolean {
    return this.#open.has(id) && !this.#over.has(id);
  }

  /** Resolves when the runs of a task are over if all of its items have ended, else at once. */
  async closed(id: string): Promise<void> {
    const submission = await this.#open.get(id)?.catch(() => undefined);
    if (submission?.parts.every((part) => part.isFinal) === true) await submission.over;
  }

  /** Lets go of a task that is not at work. */
  drop(id: string): void {
    this.#over.delete(id);
    this.#open.delete(id);
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
    await Promise.allSettled(this.#open.values());
  }

  async #accept(items: readonly Item[], options: SubmitOptions): Promise<AcceptedList> {
    const { signal } = options;
    checkProgressOptions(options, "submit");
    signal?.throwIfAborted();
    if (items.length === 0) throw new PerigeeError("usage", "a task needs at least one item");
    if (items.length > ITEMS_MAX)
      throw new PerigeeError("usage", `a task has at most ${ITEMS_MAX} items, got ${items.length}`);
    const groups = groupBySla(items); // before anything is awaited: the caller may change the list and its items from then on
    const few = this.#few(items, groups, options);
    const posted = few === undefined ? undefined : await this.#post(few, signal);
    if (posted !== undefined) return { id: posted.id, list: posted, answered: () => posted.answered(signal) };
    const id = randomUUID();
    const body: SubmissionBody = {
      kind: "submission",
      parts: groups.parts,
      ...(groups.parts.length === 1 ? {} : { partOf: groups.partOf }),
      isDone: false,
    };
    try {
      for (const [part, chunks] of groups.lines.entries())
        await this.#spool(id, part, chunks).catch(rethrowFileError);
      signal?.throwIfAborted();
      await this.#store(id, body, signal);
    } catch (error) {
      for (const part of groups.parts.keys())
        await this.#core.storage.disk
          .remove(submittedPath(this.#core.storage, id, part))
          .catch(() => undefined); // the cause is reported below
      throw error;
    }
    const begun = this.#begin(id, body);
    return { id, list: new RunList(id, begun), answered: () => this.#answer(id, begun, options) };
  }

  /** Undefined for a list that must be runs. */
  #few(items: readonly Item[], { parts }: ListGroups, { onProgress }: SubmitOptions): FewItems | undefined {
    const [part, another] = parts;
    const needsRuns = onProgress !== undefined || this.#core.config.cap !== undefined;
    if (needsRuns || part === undefined || another !== undefined || !isFew(items)) return undefined;
    const id = randomUUID();
    return { id, lines: taskLines(id, items), slaMinutes: part.sla };
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
    await this.closed(id);
    const body = submissionIn((await this.#core.storage.store.task(id))?.body);
    if (body === undefined) throw notFound("task", id);
    if (this.isAtWork(id) || !body.isDone)
      throw new PerigeeError("conflict", `task ${id} is at work; wait until it is completed`);
    this.drop(id);
    await this.#store(id, { ...body, isDone: false });
    return this.#answer(id, this.#begin(id, { ...body, isDone: false }, retryFailed), options);
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
    const isRuns = submissionIn((await this.#core.storage.store.task(id))?.body) !== undefined;
    return isRuns || (await this.#findPosted(id))?.record.id === id;
  }

  async task(id: string): Promise<Task> {
    const posted = await this.#findPosted(id);
    if (posted?.record.id === id) return posted.lists.task(posted.record);
    return taskOf(id, await this.#find(id));
  }

  async object(id: string): Promise<TaskObject> {
    const posted = await this.#findPosted(id);
    if (posted !== undefined) return posted.lists.object(posted.record, id);
    const { part, line } = await this.#place(id);
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
    const { part, runId, line } = await this.#place(id);
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

  /** The run of an object, and its line there. */
  async #place(id: string): Promise<{ part: SubmittedPart; runId: string; line: number }> {
    const task = await this.#core.storage.store.taskByName(nameOf(id));
    if (task === undefined) throw notFound("object", id);
    const index = objectNumber(task.id, id) - 1;
    const { parts, places } = await this.#find(task.id);
    const number = index < 0 || index >= places.total ? -1 : (places.partOf[index] as number);
    const part = parts[number];
    if (part === undefined) throw notFound("object", id);
    return { part, runId: partRunId(task.id, number), line: places.lineOf[index] as number };
  }

  async #find(id: string): Promise<Submission> {
    const known = this.#open.get(id);
    if (known !== undefined) {
      if (this.#over.delete(id)) this.#over.add(id);
      return known;
    }
    const body = submissionIn((await this.#core.storage.store.task(id))?.body);
    if (body === undefined) throw notFound("task", id);
    return this.#begin(id, body);
  }

  #begin(id: string, body: SubmissionBody, retryFailed?: RetryFailed): Promise<Submission> {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    const begun = this.#beginParts(id, body, retryFailed);
    this.#open.set(id, begun);
    begun.catch(() => this.#open.delete(id));
    return begun;
  }

  async #beginParts(
    id: string,
    body: SubmissionBody,
    retryFailed: RetryFailed | undefined,
  ): Promise<Submission> {
    const parts = await Promise.all(
      body.parts.map(({ sla, items }, part) =>
        SubmittedPart.begin(this.#core, this.#run, {
          input: submittedPath(this.#core.storage, id, part),
          runId: partRunId(id, part),
          slaMinutes: sla ?? undefined,
          items,
          ...(retryFailed === undefined ? {} : { retryFailed }),
        }),
      ),
    );
    return { parts, places: placesOf(body), over: this.#follow(id, body, parts) };
  }

  /** Marks the task when all of it is answered, and keeps it in memory no longer than others. */
  async #follow(id: string, body: SubmissionBody, parts: readonly SubmittedPart[]): Promise<void> {
    const ended = await Promise.allSettled(parts.map((part) => part.finished)); // each run reports its own failure
    const isAnswered = ended.every((one) => one.status === "fulfilled" && one.value.status === "completed");
    if (isAnswered && !body.isDone) await this.#store(id, { ...body, isDone: true }).catch(() => undefined); // begun again, then
    this.#over.add(id);
    for (const oldest of this.#over) {
      if (this.#over.size <= OVER_KEPT_MAX) return;
      this.#over.delete(oldest);
      this.#open.delete(oldest);
    }
  }

  #store(id: string, body: SubmissionBody, signal?: AbortSignal): Promise<void> {
    const { store, clock, room } = this.#core.storage;
    const task = { id, name: nameOf(id), createdWallMs: clock.wallMs(), body: JSON.stringify(body) };
    return room.answerFor(() => store.putTask(task), { signal });
  }

  /** Writes the lines of one part, durable. */
  async #spool(id: string, part: number, chunks: readonly Uint8Array[]): Promise<void> {
    const file = await this.#core.storage.disk.open(submittedPath(this.#core.storage, id, part), "write");
    try {
      let position = 0;
      for (const bytes of chunks) {
        await file.write(bytes, position);
        position += bytes.byteLength;
      }
      await file.sync();
    } finally {
      await file.close();
    }
  }
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

function rethrowFileError(error: unknown): never {
  throw /^E[A-Z0-9]+$/.test(errorCodeOf(error) ?? "") ? asFailure(error) : error;
}

function placesOf(body: SubmissionBody): ListPlaces {
  const total = body.parts.reduce((sum, part) => sum + part.items, 0);
  const partOf = Uint8Array.from(body.partOf ?? new Uint8Array(total));
  const lineOf = new Uint32Array(total);
  const lines = new Uint32Array(body.parts.length);
  for (let index = 0; index < total; index += 1) {
    const part = partOf[index] as number;
    lines[part] = (lines[part] as number) + 1;
    lineOf[index] = lines[part] as number;
  }
  return { total, partOf, lineOf };
}

/** Under which a task is found by its own id and those of its objects. */
function nameOf(id: string): string {
  return `submission:${stemOf(id)}`;
}

function notFound(what: string, id: string): PerigeeError {
  return new PerigeeError("not_found", `no ${what} ${JSON.stringify(id.slice(0, 64))}`);
}
