/**
 * A store in a thread of its own: its calls, packed into messages, and the replies.
 *
 *   open -> closed
 *   open -> failed    (its thread died, or a sync failed: every later call rejects with `store_failed`)
 *
 * Hot: `append` may take the main thread 60 us for an entry of 16 KB (bench/parts/commit.ts); records and outputs are copied
 * once, into buffers that move to the thread. Outputs are written and synced there: one hop a commit instead of three.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { builtFile } from "../built_files.ts";
import { PerigeeError } from "../errors.ts";
import { CallOrder } from "./call_order.ts";
import type { FileRows } from "./file_rows.ts";
import type {
  LogCommit,
  LoggedAnswer,
  LoggedTask,
  LoggedTaskQuery,
  OpenedLog,
  StoredLogEntry,
} from "./log_rows.ts";
import { besideSync, hasOutputs, type OwnedOutput, syncOutputs, writeOutputs } from "./outputs.ts";
import { monotonicMs } from "./packed/lease.ts";
import { packChanges } from "./packed/pack_changes.ts";
import { buffersOfOutputs, pack, packOutputs } from "./packed/pack_entries.ts";
import { buffersOfLog, ownedOutputs, packLog } from "./packed/pack_log.ts";
import {
  type EntryPage,
  type PageStart,
  packScope,
  type StoreReplies,
  type StoreRequest,
  type StoreThreadData,
} from "./packed/requests.ts";
import { ThreadFiles } from "./packed/thread_files.ts";
import type { ProjectScope, RecordChange, RecordQuery, StoredRecord } from "./records.ts";
import type { JournalEntry, Store, StoredEntry, StoredTask } from "./store.ts";

/** Of the thread, whose objects live for a commit: V8's own 48 MB would be resident. */
const YOUNG_HEAP_MB = 12;

/** A store, and what it knows of the space that it has. */
export interface SpacedStore extends Store {
  /**
   * True once there was no space and while the reserve is released: what is in flight can still be recorded, new work
   * should wait. As of the last answered call.
   */
  isSpaceLow(): boolean;
  /** Tries to set the reserve aside again; true when it is complete: then there is enough space again. */
  restoreReserve(): Promise<boolean>;
  /** What the operator should know of how it was opened, such as that it was migrated. */
  readonly notes: readonly string[];
}

/** A store that has files as rows, where its thread does. */
export interface FilesStore extends SpacedStore {
  readonly files: FileRows;
}

/**
 * Starts a thread of `dist/files`, with these data, and opens its store. Rejects with what the thread refuses its opening with. An
 * open store keeps the process alive only while calls are pending.
 */
export async function openThreadedStore(file: string, data: object): Promise<FilesStore> {
  const { port1, port2 } = new MessageChannel();
  const answered = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const leased = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
  leased[0] = 2n ** 63n - 1n;
  const worker = new Worker(builtFile(file), {
    name: "perigee-store",
    // Not the program's own options: a loader of TypeScript costs time here, and `--input-type` would refuse the file.
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_HEAP_MB },
    workerData: { ...data, port: port2, answered, leased } satisfies StoreThreadData,
    transferList: [port2],
  });
  const store = new ThreadedStore(worker, port1, answered, leased);
  await store.opened;
  return store;
}

interface PendingCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: PerigeeError) => void;
}

/** A request before it has its id. */
type Unnumbered<R> = R extends StoreRequest ? Omit<R, "id"> : never;

/** Called when the thread is lost, and for each reply of `store_failed`. */
interface StoreThreadListener {
  lost(error: PerigeeError): void;
  failed(error: PerigeeError): void;
}

class ThreadedStore implements FilesStore {
  /** Settles when the thread has opened the store. */
  readonly opened: Promise<void>;
  notes: readonly string[] = [];
  readonly failed: Promise<PerigeeError>;
  #tellFailed: (error: PerigeeError) => void = () => undefined;
  readonly files: FileRows;
  readonly #thread: StoreThread;
  readonly #leased: BigInt64Array;
  /** What every later call rejects with. */
  #ended: PerigeeError | undefined;
  readonly #order = new CallOrder();
  #closing: Promise<void> | undefined;

  constructor(worker: Worker, port: MessagePort, answered: Int32Array, leased: BigInt64Array) {
    this.#leased = leased;
    this.failed = new Promise((resolve) => {
      this.#tellFailed = resolve;
    });
    this.#thread = new StoreThread(worker, port, answered, {
      failed: (error) => this.#tellFailed(error),
      lost: (error) => this.#lost(error),
    });
    const now = <T>(request: Unnumbered<StoreRequest>, moved: readonly ArrayBuffer[] = []): Promise<T> =>
      this.#ended === undefined ? this.#thread.post<T>(request, moved) : Promise.reject(this.#ended);
    this.files = new ThreadFiles({
      ask: (asked) => now({ kind: "files", asked }),
      change: (changes, moved) => now({ kind: "changeFiles", changes }, moved),
    });
    this.opened = this.#thread.reply<readonly string[]>(0).then((notes) => {
      this.notes = notes;
    });
  }

  isHeld(): boolean {
    return monotonicMs() < Atomics.load(this.#leased, 0);
  }

  putTask(task: StoredTask): Promise<void> {
    return this.#call({ kind: "putTask", task });
  }

  task(id: string): Promise<StoredTask | undefined> {
    return this.#call({ kind: "task", taskId: id });
  }

  taskByName(name: string): Promise<StoredTask | undefined> {
    return this.#call({ kind: "taskByName", name });
  }

  tasks(options: { readonly after?: string; readonly limit: number }): Promise<readonly StoredTask[]> {
    return this.#call({ kind: "tasks", after: options.after, limit: options.limit });
  }

  async append(entries: readonly JournalEntry[]): Promise<void> {
    const outputs = packOutputs(entries);
    const packed = pack(entries, outputs);
    const buffers = [packed.bytes.buffer, ...buffersOfOutputs(outputs)];
    return this.#write({ kind: "append", packed }, buffers, outputs === undefined ? entries : []);
  }

  /** `beside`: outputs that the thread may not reach. */
  async #write(
    request: Unnumbered<StoreRequest>,
    buffers: readonly ArrayBuffer[],
    beside: readonly OwnedOutput[],
  ): Promise<void> {
    if (!hasOutputs(beside)) return this.#call(request, buffers);
    if (this.#ended !== undefined) throw this.#ended;
    await this.#order.after(
      () => writeOutputs(beside),
      () => {
        const synced = syncOutputs(beside); // first: where this thread stores files too, they are in the same commit, or before
        return besideSync(this.#thread.post(request, buffers), synced);
      },
    );
  }

  poll(): void {
    this.#thread.poll();
  }

  journal(taskId: string): AsyncIterable<StoredEntry> {
    return this.#pages({ taskId, afterSequence: 0 });
  }

  latestEntries(): AsyncIterable<StoredEntry> {
    return this.#pages({ taskId: undefined, beforeRow: Number.POSITIVE_INFINITY });
  }

  deleteTask(id: string): Promise<void> {
    return this.#call({ kind: "deleteTask", taskId: id });
  }

  scrub(): Promise<void> {
    return this.#call({ kind: "scrub" });
  }

  async change(changes: readonly RecordChange[]): Promise<void> {
    const packed = packChanges(changes);
    return this.#call({ kind: "change", packed }, [packed.payloads.buffer]);
  }

  record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    return this.#call({ kind: "record", project: packScope(project), collection, recordId: id });
  }

  records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]> {
    return this.#call({ kind: "records", project: packScope(project), query });
  }

  openLog(): Promise<OpenedLog> {
    return this.#call({ kind: "openLog" });
  }

  async commitLog(commit: LogCommit): Promise<void> {
    const owned = ownedOutputs(commit.outputs);
    const outputs = packOutputs(owned);
    const packed = packLog({ ...commit, outputs: [] }, outputs);
    return this.#write(
      { kind: "commitLog", packed },
      buffersOfLog(packed),
      outputs === undefined ? owned : [],
    );
  }

  async *logEntries(): AsyncGenerator<StoredLogEntry, void, undefined> {
    for (let after = 0; ; ) {
      const page = await this.#call<readonly StoredLogEntry[]>({ kind: "logEntries", after });
      const last = page.at(-1);
      if (last === undefined) return;
      yield* page;
      after = last.sequence;
    }
  }

  loggedTask(key: string | number): Promise<LoggedTask | undefined> {
    return this.#call({ kind: "loggedTask", key });
  }

  loggedTasks(query: LoggedTaskQuery): Promise<readonly LoggedTask[]> {
    return this.#call({ kind: "loggedTasks", query });
  }

  loggedAnswers(task: number, from: number, limit: number): Promise<readonly LoggedAnswer[]> {
    return this.#call({ kind: "loggedAnswers", task, from, limit });
  }

  isSpaceLow(): boolean {
    return this.#thread.isSpaceLow;
  }

  restoreReserve(): Promise<boolean> {
    return this.#call({ kind: "takeReserve" });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const closed = this.#call<void>({ kind: "close" });
    this.#ended ??= new PerigeeError("closed", "the store is closed");
    try {
      await closed;
    } catch (error) {
      // A store that failed before has nothing left to close; its calls have said so.
      if (!(error instanceof PerigeeError) || error.code !== "store_failed") throw error;
    } finally {
      await this.#thread.end();
    }
  }

  async *#pages(start: PageStart): AsyncGenerator<StoredEntry, void, undefined> {
    for (let from: PageStart | undefined = start; from !== undefined; ) {
      const page: EntryPage = await this.#call<EntryPage>({ kind: "page", start: from });
      yield* page.entries;
      from = page.next;
    }
  }

  /** The thread answers each kind with the value that `doneBy` has for it (`packed/grouped_requests.ts`): the caller's `T`. */
  #call<T>(request: Unnumbered<StoreRequest>, transfer: readonly ArrayBuffer[] = []): Promise<T> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return this.#order.behind(() => this.#thread.post<T>(request, transfer));
  }

  #lost(error: PerigeeError): void {
    if (this.#ended === undefined) this.#tellFailed(error);
    this.#ended ??= error;
  }
}

/**
 * Calls to the store's thread and its replies.
 *
 *   open -> lost    (its thread died: every pending and later call rejects)
 *
 * The thread keeps the process alive only while calls are pending. Replies arrive as messages; `poll` takes them earlier.
 */
class StoreThread {
  readonly #exited: Promise<void>;
  readonly #worker: Worker;
  /** Never keeps the process alive: the worker does, while calls are pending. */
  readonly #port: MessagePort;
  readonly #answered: Int32Array;
  readonly #listener: StoreThreadListener;
  #messagesTaken = 0;
  readonly #pending = new Map<number, PendingCall>();
  #lastId = 0;
  #isSpaceLow = false;
  /** Why nothing is answered any more. */
  #lost: PerigeeError | undefined;

  /** `answered`: how many messages the thread has sent. */
  constructor(worker: Worker, port: MessagePort, answered: Int32Array, listener: StoreThreadListener) {
    this.#worker = worker;
    this.#port = port;
    this.#answered = answered;
    this.#listener = listener;
    port.on("message", (message: StoreReplies) => this.#settle(message));
    port.unref();
    worker.on("error", (cause) => {
      this.poll();
      this.#end(threadLost(cause));
    });
    this.#exited = new Promise((resolveExit) => {
      worker.on("exit", () => {
        this.poll(); // its last words may still be on the way
        this.#end(threadLost(undefined));
        resolveExit();
      });
    });
  }

  /** As of the last reply. */
  get isSpaceLow(): boolean {
    return this.#isSpaceLow;
  }

  /** Sends a request; buffers of `transfer` move to the thread. */
  post<T>(request: Unnumbered<StoreRequest>, transfer: readonly ArrayBuffer[]): Promise<T> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost); // while it waited for its turn
    this.#lastId += 1;
    const answered = this.reply<T>(this.#lastId);
    this.#port.postMessage({ ...request, id: this.#lastId }, transfer);
    return answered;
  }

  /** The reply to an id; 0 is that of the opening. */
  reply<T>(id: number): Promise<T> {
    if (this.#pending.size === 0) this.#worker.ref();
    return new Promise<T>((resolveCall, reject) => {
      this.#pending.set(id, { resolve: (value) => resolveCall(value as T), reject });
    });
  }

  /** Takes in replies that have arrived. */
  poll(): void {
    while (this.#messagesTaken !== Atomics.load(this.#answered, 0)) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) return;
      this.#settle(received.message);
    }
  }

  /** Keeps the process alive until the thread has ended. */
  async end(): Promise<void> {
    this.#worker.ref();
    await this.#exited;
  }

  #settle({ replies, isSpaceLow }: StoreReplies): void {
    this.#messagesTaken = (this.#messagesTaken + 1) | 0; // as an Int32Array counts
    this.#isSpaceLow = isSpaceLow;
    for (const reply of replies) {
      const call = this.#pending.get(reply.id);
      this.#pending.delete(reply.id);
      if (reply.ok) call?.resolve(reply.value);
      else {
        const error = new PerigeeError(reply.code, reply.message, { details: reply.details });
        if (error.code === "store_failed") this.#listener.failed(error);
        call?.reject(error);
      }
    }
    if (this.#pending.size === 0) this.#worker.unref();
  }

  #end(error: PerigeeError): void {
    this.#lost ??= error;
    this.#listener.lost(error);
    for (const call of this.#pending.values()) call.reject(error);
    this.#pending.clear();
  }
}

function threadLost(cause: unknown): PerigeeError {
  const reason = cause instanceof Error ? `: ${cause.message}` : "";
  return new PerigeeError("store_failed", `the store's thread ended${reason}`, { cause });
}
