/**
 * ServedBatches of OpenAI's interface: each is a task on one file, with two files made of its answers when it is final.
 *
 *   in progress -> (cancelling ->) finalizing -> ended: completed | expired | cancelled | failed
 *
 * Files get ids that were chosen with the batch, so that a kill in between makes no file twice. What a process leaves
 * unfinished the next one finishes. While a batch is open its input cannot be removed.
 */
import { randomUUID } from "node:crypto";
import type { Clock, Timer } from "../../clock.ts";
import { ifFound, PerigeeError } from "../../errors.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { Files, FileView } from "../../tasks/files/files.ts";
import type { Page, PageQuery, TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import type { JsonObject } from "../../work/json.ts";
import { newId } from "../../work/new_id.ts";
import { objectNumber } from "../../work/object_id.ts";
import { toBatchId } from "../shapes/openai_ids.ts";
import { answerLine, errorLine, linesAsBytes } from "./batch_lines.ts";
import {
  BATCHES,
  batchToRecord,
  OPEN,
  recordToBatch,
  type ServedBatchEnd,
  type ServedBatchFault,
  type ServedBatchRecord,
} from "./batch_record.ts";

export interface NewBatch {
  readonly endpoint: string;
  readonly completionWindow: string;
  /** Whole minutes. */
  readonly windowMs: number;
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** What answers to its lines must fit that say nothing themselves. */
  readonly schema?: JsonObject | boolean | undefined;
  /** How old an answer from the cache may be; undefined: none is used. */
  readonly cacheTtl?: string | undefined;
}

/** A batch and the task that does its work; without task once it has ended, or when it never had one. */
export interface BatchView {
  readonly batch: ServedBatchRecord;
  readonly task: TaskView | undefined;
}

const PAGE = 500;
/** The most that a batch lists of its input's errors; all of them are in its error file. */
const FAULTS_MAX = 50;
const FAULT_CHARS_MAX = 300;
/** Of lines that are refused as they are read. */
const UNREADABLE: ReadonlySet<string> = new Set([
  ...["invalid_json", "invalid_line", "invalid_utf8", "line_too_long", "too_deep", "duplicate_member"],
  ...["invalid_key", "duplicate_key", "unknown_model", "invalid_config", "invalid_contents"],
]);
/** After which making the files is tried again, on a full disk for example. */
const RETRY_MS = 10_000;

/** One for a store. The two files of a batch are made once, also over restarts. */
export class ServedBatches {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #tasks: Tasks;
  readonly #files: Files;
  /** Lets go of the input files of open batches. */
  readonly #held = new Map<string, () => void>();
  readonly #ending = new Map<string, Promise<void>>();
  readonly #retries = new Map<string, Timer>();
  /** Changes of records, one after the other. */
  #lastChange: Promise<unknown> = Promise.resolve();
  #stopListening: (() => void) | undefined;
  #isClosed = false;

  constructor(store: Store, clock: Clock, tasks: Tasks, files: Files) {
    this.#store = store;
    this.#clock = clock;
    this.#tasks = tasks;
    this.#files = files;
  }

  /** Takes up what an earlier process left open; resolves before that is done. */
  async open(): Promise<void> {
    const [tasks, files, store] = [this.#tasks, this.#files, this.#store];
    this.#stopListening = tasks.onFinished(({ project, taskId }) => {
      // Most tasks are not batches. One that ends before its file is held here is finished with the open ones below.
      return this.#held.has(taskId) ? this.#finish(project, taskId) : undefined;
    });
    const open: ServedBatchRecord[] = [];
    for (let after: string | undefined; ; ) {
      const query = { collection: BATCHES, parent: OPEN, limit: PAGE };
      const page = await store.records(EVERY_PROJECT, after === undefined ? query : { ...query, after });
      open.push(...page.map(recordToBatch));
      after = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
    for (const { id, inputFileId } of open) this.#held.set(id, files.hold(inputFileId));
    void this.#finishAll(open);
  }

  close(): void {
    this.#isClosed = true;
    this.#stopListening?.();
    for (const timer of this.#retries.values()) timer.cancel();
  }

  /** Throws `not_found` for the file, and what `Tasks.submit` throws. */
  async create(
    project: string,
    { schema, cacheTtl, ...terms }: NewBatch,
    id: string = newId(),
  ): Promise<BatchView> {
    const [tasks, files, store, clock] = [this.#tasks, this.#files, this.#store, this.#clock];
    const release = files.hold(terms.inputFileId);
    const chosen = { outputFileId: randomUUID(), errorFileId: randomUUID() };
    const batch: ServedBatchRecord = { id, project, createdWallMs: clock.wallMs(), ...terms, ...chosen };
    try {
      await this.#checkInput(project, terms.inputFileId);
      await store.change([{ kind: "insert", record: batchToRecord(batch) }]);
    } catch (error) {
      release();
      throw error;
    }
    this.#held.set(id, release);
    try {
      const item = { file_id: terms.inputFileId, sla: terms.windowMs / 60_000 };
      const { metadata } = terms;
      const note = JSON.stringify({ batch_id: toBatchId(id), ...(metadata === null ? {} : { metadata }) });
      const request = {
        items: [item],
        schema,
        cacheTtl,
        hasOutputFile: false,
        keepsBodies: true,
        id,
        note,
        isNewId: true,
      };
      const task = await tasks.submit(project, request);
      if (task.status !== "submitted") void this.#finish(project, id); // an empty file
      return { batch, task };
    } catch (error) {
      await store.change([{ kind: "delete", collection: BATCHES, id }]);
      release();
      this.#held.delete(id);
      throw error;
    }
  }

  async batch(project: string, id: string): Promise<BatchView> {
    return this.#view(await this.#find(project, id));
  }

  /** As `batch`, but one that was never begun is `not_found`: a repeat of its request may begin it. */
  async begun(project: string, id: string): Promise<BatchView> {
    const view = await this.batch(project, id);
    if (view.batch.end?.kind === "failed" && view.batch.end.total === 0) throw noBatch();
    return view;
  }

  async list(project: string, { after, limit }: PageQuery): Promise<Page<BatchView>> {
    const reading = this.#store.records(project, {
      collection: BATCHES,
      limit: limit + 1,
      isNewestFirst: true,
      ...(after === undefined ? {} : { after }),
    });
    // In one turn: nothing is listed behind a record that is removed in between.
    const [records] = await Promise.all([
      reading,
      after === undefined ? undefined : this.#find(project, after),
    ]);
    const items: BatchView[] = [];
    for (const record of records.slice(0, limit)) items.push(await this.#view(recordToBatch(record)));
    return { items, hasMore: records.length > limit };
  }

  /** Idempotent, also once it has ended. */
  async cancel(project: string, id: string): Promise<BatchView> {
    const [tasks, clock] = [this.#tasks, this.#clock];
    const batch = await this.#find(project, id);
    if (batch.end !== undefined) return { batch, task: undefined };
    const cancelled = await this.#change(project, id, (found) => ({
      ...found,
      cancellingWallMs: found.cancellingWallMs ?? clock.wallMs(),
    }));
    const task = await tasks.cancel(project, id);
    return { batch: cancelled, task };
  }

  async #view(batch: ServedBatchRecord): Promise<BatchView> {
    if (batch.end !== undefined) return { batch, task: undefined };
    return { batch, task: await this.#taskOf(batch) };
  }

  async #checkInput(project: string, inputFileId: string): Promise<void> {
    const { purpose } = await this.#files.file(project, inputFileId);
    if (purpose === "batch") return;
    throw new PerigeeError("invalid_request", "the file must have been uploaded with the purpose batch", {
      details: { param: "input_file_id" },
    });
  }

  /** Undefined when it was killed before its task was stored, or the task was erased. */
  #taskOf({ project, id }: ServedBatchRecord): Promise<TaskView | undefined> {
    return ifFound(this.#tasks.task(project, id));
  }

  async #finishAll(open: readonly ServedBatchRecord[]): Promise<void> {
    for (const { project, id } of open) await this.#finish(project, id); // one by one: there may be thousands
  }

  /** Never rejects; what fails is tried again. */
  #finish(project: string, id: string): Promise<void> {
    const known = this.#ending.get(id);
    if (known !== undefined) return known.then(() => this.#finish(project, id)); // it may have looked too early
    const ending = this.#makeFiles(project, id)
      .catch(() => this.#retryLater(project, id))
      .finally(() => this.#ending.delete(id));
    this.#ending.set(id, ending);
    return ending;
  }

  #retryLater(project: string, id: string): void {
    if (this.#isClosed) return;
    this.#retries.get(id)?.cancel();
    const retry = (): void => {
      this.#retries.delete(id);
      void this.#finish(project, id);
    };
    this.#retries.set(id, this.#clock.timer(RETRY_MS, retry, { keepsAlive: false }));
  }

  async #makeFiles(project: string, id: string): Promise<void> {
    const [clock, store] = [this.#clock, this.#store];
    const record = await store.record(project, BATCHES, id);
    const batch = record === undefined ? undefined : recordToBatch(record);
    if (batch === undefined || batch.end !== undefined) return;
    const task = await this.#taskOf(batch);
    if (task?.status === "submitted") return;
    const finalWallMs = task?.finishedWallMs ?? clock.wallMs();
    const total = task?.totalItems ?? 0;
    const completed = task?.counts.completed ?? 0;
    const hasOutput = completed > 0;
    const hasErrors = completed < total;
    if (hasOutput) await this.#keep(batch, batch.outputFileId, "output", this.#answerLines(batch));
    if (hasErrors) await this.#keep(batch, batch.errorFileId, "error", this.#errorLines(batch));
    const { faults, unreadable } = hasErrors ? await this.#faultsOf(batch) : { faults: [], unreadable: 0 };
    const kind = unreadable > 0 && unreadable === total ? "failed" : kindOf(batch, task);
    const counts = { total, completed, hasOutput, hasErrors, faults };
    const end = { kind, finalWallMs, endedWallMs: clock.wallMs(), ...counts };
    await this.#change(project, id, (found) => ({ ...found, end }));
    this.#held.get(id)?.();
    this.#held.delete(id);
  }

  /** Makes a file unless an earlier attempt has. */
  async #keep(
    { project, id: batchId }: ServedBatchRecord,
    id: string,
    what: "output" | "error",
    lines: AsyncIterable<string>,
  ): Promise<FileView> {
    const files = this.#files;
    const name = `${toBatchId(batchId)}_${what}.jsonl`;
    try {
      return await files.file(project, id);
    } catch {
      return files.put(project, { id, name, purpose: "batch_output", chunks: linesAsBytes(lines) });
    }
  }

  async *#answerLines({ project, id }: ServedBatchRecord): AsyncGenerator<string> {
    for await (const line of this.#tasks.answers(project, id, "answers")) yield answerLine(line);
  }

  async *#errorLines({ project, id }: ServedBatchRecord): AsyncGenerator<string> {
    for await (const line of this.#tasks.answers(project, id, "errors")) yield errorLine(line);
  }

  /** `unreadable` counts them all. */
  async #faultsOf({ project, id }: ServedBatchRecord): Promise<{
    readonly faults: readonly ServedBatchFault[];
    readonly unreadable: number;
  }> {
    const faults: ServedBatchFault[] = [];
    let unreadable = 0;
    for await (const { objectId, error } of this.#tasks.answers(project, id, "errors")) {
      if (error === null || !UNREADABLE.has(error.code)) continue;
      unreadable += 1;
      const line = objectNumber(id, objectId);
      const message = error.message.slice(0, FAULT_CHARS_MAX);
      if (faults.length < FAULTS_MAX) faults.push({ code: error.code, message, line });
    }
    return { faults: faults.sort((one, other) => one.line - other.line), unreadable };
  }

  async #find(project: string, id: string): Promise<ServedBatchRecord> {
    const record = await this.#store.record(project, BATCHES, id);
    if (record === undefined) throw noBatch();
    return recordToBatch(record);
  }

  #change(
    project: string,
    id: string,
    change: (found: ServedBatchRecord) => ServedBatchRecord,
  ): Promise<ServedBatchRecord> {
    const changed = this.#lastChange.then(async () => {
      const batch = change(await this.#find(project, id));
      await this.#store.change([{ kind: "put", record: batchToRecord(batch) }]);
      return batch;
    });
    this.#lastChange = changed.catch(() => undefined);
    return changed;
  }
}

function noBatch(): PerigeeError {
  return new PerigeeError("not_found", "there is no batch with this id");
}

function kindOf(batch: ServedBatchRecord, task: TaskView | undefined): ServedBatchEnd["kind"] {
  if (task === undefined || task.status === "failed") return "failed";
  if (task.isCancelled || batch.cancellingWallMs !== undefined) return "cancelled";
  return task.counts.expired > 0 ? "expired" : "completed";
}
