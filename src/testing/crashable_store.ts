/**
 * Durable state in memory that outlives the process using it, for simulations: open it, crash it, open it again.
 *
 *   closed -> open -> closed          (`close`)
 *             open -> crashed -> open (`crash`, then `open` by the next process)
 *
 * A write takes effect when its commit ends. At a crash the writes that had not been answered have happened up to a
 * point that the seed decides and not beyond it: commits are made in order. Calls of the dead process reject.
 */
import type { Clock } from "../clock.ts";
import { type ErrorCode, PerigeeError } from "../errors.ts";
import { CallOrder } from "../store/call_order.ts";
import type {
  LogCommit,
  LoggedAnswer,
  LoggedTask,
  LoggedTaskQuery,
  OpenedLog,
  StoredLogEntry,
} from "../store/log_rows.ts";
import { createMemoryStore } from "../store/memory.ts";
import { besideSync, hasOutputs, type OwnedOutput, syncOutputs, writeOutputs } from "../store/outputs.ts";
import { ownedOutputs } from "../store/packed/pack_log.ts";
import { copyChanges } from "../store/record_changes.ts";
import type { ProjectScope, RecordChange, RecordQuery, StoredRecord } from "../store/records.ts";
import type { JournalEntry, Store, StoredEntry, StoredTask } from "../store/store.ts";

export interface CrashableStoreOptions {
  /** Times the commits when `commitMs` is given. */
  readonly clock?: Clock;
  /** Virtual time of a commit; default 0, only promises. Commits begun meanwhile end after it. */
  readonly commitMs?: number;
  /** Decides how many of the unanswered writes a crash lets happen; default none. */
  readonly random?: () => number;
}

/** The state, and the power over it. */
export interface CrashableStore {
  /** Throws `data_dir_in_use` while an earlier one is open. */
  open(): Promise<Store>;
  /** The process that has it open dies now. */
  crash(): void;
  /** The next writes reject with this code, once each, and do not happen; after `store_failed` all calls reject. */
  failNext(code: "disk_full" | "store_failed", times?: number): void;
  /** No write is made to fail any more. */
  failNoMore(): void;
  /** Commits that took effect so far. */
  readonly commits: number;
}

/** New, empty state. */
export function createCrashableStore(options: CrashableStoreOptions = {}): CrashableStore {
  return new CrashableState(options);
}

interface PendingWrite {
  readonly apply: () => Promise<void>;
  /** Ends the caller's wait with an error. */
  readonly kill: (error: PerigeeError) => void;
}

class CrashableState implements CrashableStore {
  readonly #options: CrashableStoreOptions;
  readonly #memory = createMemoryStore();
  readonly #failures: ("disk_full" | "store_failed")[] = [];
  #pending: PendingWrite[] = [];
  #session: Session | undefined;
  #commits = 0;

  constructor(options: CrashableStoreOptions) {
    this.#options = options;
  }

  get commits(): number {
    return this.#commits;
  }

  async open(): Promise<Store> {
    if (this.#session !== undefined)
      throw new PerigeeError("data_dir_in_use", "the store is held by another engine");
    const session: Session = new Session(
      this.#memory,
      (apply) => this.#write(apply),
      () => {
        if (this.#session === session) this.#session = undefined;
      },
    );
    this.#session = session;
    return session;
  }

  crash(): void {
    const pending = this.#pending;
    this.#pending = [];
    const died = new PerigeeError("store_failed", "the process of this store has died");
    this.#session?.end(died);
    this.#session = undefined;
    const happened = Math.floor((this.#options.random?.() ?? 0) * (pending.length + 1));
    for (const [index, write] of pending.entries()) {
      // The memory store takes effect before its promise settles, so the next process sees it at once.
      if (index < happened) void this.#apply(write.apply).catch(() => undefined);
      write.kill(died);
    }
  }

  failNext(code: "disk_full" | "store_failed", times = 1): void {
    for (let index = 0; index < times; index += 1) this.#failures.push(code);
  }

  failNoMore(): void {
    this.#failures.length = 0;
  }

  async #write(apply: () => Promise<void>): Promise<void> {
    const code = this.#failures.shift();
    if (code !== undefined) {
      const failure = new PerigeeError(code, "the write was made to fail");
      if (code === "store_failed") this.#session?.fail(failure);
      throw failure;
    }
    await new Promise<void>((resolve, reject) => {
      const write: PendingWrite = { apply, kill: reject };
      this.#pending.push(write);
      const commit = (): void => {
        const index = this.#pending.indexOf(write);
        if (index < 0) return;
        this.#pending.splice(index, 1);
        this.#apply(apply).then(resolve, reject);
      };
      const { clock, commitMs } = this.#options;
      if (clock === undefined || commitMs === undefined) queueMicrotask(commit);
      else clock.timer(commitMs, commit);
    });
  }

  #apply(apply: () => Promise<void>): Promise<void> {
    this.#commits += 1;
    return apply();
  }
}

/** What one process has of the state. */
class Session implements Store {
  readonly #memory: Store;
  readonly #write: (apply: () => Promise<void>) => Promise<void>;
  readonly #release: () => void;
  readonly failed: Promise<PerigeeError>;
  #tellFailed: (error: PerigeeError) => void = () => undefined;
  #ended: PerigeeError | undefined;
  readonly #order = new CallOrder();
  /** Settles when all writes so far have: `close` and reads wait for them. */
  #lastWrite: Promise<unknown> = Promise.resolve();

  constructor(memory: Store, write: (apply: () => Promise<void>) => Promise<void>, release: () => void) {
    this.#memory = memory;
    this.#write = write;
    this.#release = release;
    this.failed = new Promise((resolve) => {
      this.#tellFailed = resolve;
    });
  }

  fail(error: PerigeeError): void {
    this.#tellFailed(error);
    this.end(error);
  }

  /** Every later call rejects with this. */
  end(error: PerigeeError): void {
    this.#ended ??= error;
  }

  putTask(task: StoredTask): Promise<void> {
    const copy = { ...task };
    return this.#begin(() => this.#memory.putTask(copy));
  }

  async append(entries: readonly JournalEntry[]): Promise<void> {
    const copies = entries.map(({ output, ...entry }) => ({ ...entry, records: entry.records.slice() }));
    return this.#writeWith(entries, () => this.#memory.append(copies));
  }

  async #writeWith(outputs: readonly OwnedOutput[], apply: () => Promise<void>): Promise<void> {
    if (!hasOutputs(outputs)) return this.#begin(apply);
    this.#assertUsable();
    const written = this.#order.after(
      () => writeOutputs(outputs),
      () => besideSync(this.#writeNow(apply), syncOutputs(outputs)),
    );
    this.#wrote(written);
    await written;
  }

  openLog(): Promise<OpenedLog> {
    return this.#behindWrites(() => this.#memory.openLog());
  }

  async commitLog(commit: LogCommit): Promise<void> {
    return this.#writeWith(ownedOutputs(commit.outputs), () =>
      this.#memory.commitLog({ ...commit, outputs: [] }),
    );
  }

  async *logEntries(): AsyncGenerator<StoredLogEntry, void, undefined> {
    await this.#behindWrites(async () => undefined);
    for await (const entry of this.#memory.logEntries()) {
      this.#assertUsable();
      yield entry;
    }
  }

  loggedTask(key: string | number): Promise<LoggedTask | undefined> {
    return this.#behindWrites(() => this.#memory.loggedTask(key));
  }

  loggedTasks(query: LoggedTaskQuery): Promise<readonly LoggedTask[]> {
    return this.#behindWrites(() => this.#memory.loggedTasks(query));
  }

  loggedAnswers(task: number, from: number, limit: number): Promise<readonly LoggedAnswer[]> {
    return this.#behindWrites(() => this.#memory.loggedAnswers(task, from, limit));
  }

  deleteTask(id: string): Promise<void> {
    return this.#begin(() => this.#memory.deleteTask(id));
  }

  scrub(): Promise<void> {
    return this.#behindWrites(() => this.#memory.scrub());
  }

  task(id: string): Promise<StoredTask | undefined> {
    return this.#behindWrites(() => this.#memory.task(id));
  }

  taskByName(name: string): Promise<StoredTask | undefined> {
    return this.#behindWrites(() => this.#memory.taskByName(name));
  }

  tasks(options: { readonly after?: string; readonly limit: number }): Promise<readonly StoredTask[]> {
    return this.#behindWrites(() => this.#memory.tasks(options));
  }

  async change(changes: readonly RecordChange[]): Promise<void> {
    const copies = copyChanges(changes);
    return this.#begin(() => this.#memory.change(copies));
  }

  record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    return this.#behindWrites(() => this.#memory.record(project, collection, id));
  }

  records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]> {
    return this.#behindWrites(() => this.#memory.records(project, query));
  }

  async *journal(taskId: string): AsyncGenerator<StoredEntry, void, undefined> {
    await this.#behindWrites(async () => undefined);
    for await (const entry of this.#memory.journal(taskId)) {
      this.#assertUsable();
      yield entry;
    }
  }

  async *latestEntries(): AsyncGenerator<StoredEntry, void, undefined> {
    await this.#behindWrites(async () => undefined);
    for await (const entry of this.#memory.latestEntries()) {
      this.#assertUsable();
      yield entry;
    }
  }

  async close(): Promise<void> {
    this.#ended ??= new PerigeeError("closed", "the store is closed");
    await this.#lastWrite;
    this.#release();
  }

  async #begin(apply: () => Promise<void>): Promise<void> {
    this.#assertUsable();
    const written = this.#order.behind(() => this.#writeNow(apply));
    this.#wrote(written);
    await written;
  }

  /** One that fails at once does not end the wait for those before it. */
  #wrote(written: Promise<void>): void {
    this.#lastWrite = Promise.allSettled([this.#lastWrite, written]).then(() => undefined); // their results would hold all before them
  }

  /** In its turn; the process may have died meanwhile. */
  #writeNow(apply: () => Promise<void>): Promise<void> {
    if (this.#ended !== undefined && !this.#isEndedBy("closed")) return Promise.reject(this.#ended);
    return this.#write(apply);
  }

  async #behindWrites<T>(read: () => Promise<T>): Promise<T> {
    this.#assertUsable();
    await this.#lastWrite;
    if (this.#ended !== undefined && !this.#isEndedBy("closed")) throw this.#ended;
    return read();
  }

  #assertUsable(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }

  #isEndedBy(code: ErrorCode): boolean {
    return this.#ended?.code === code;
  }
}
