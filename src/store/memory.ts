/**
 * A store in plain memory: for tests, and for runs that need no restart. Same contract as the embedded one, but
 * nothing survives the process, and calls take effect at once.
 */
import { PerigeeError } from "../errors.ts";
import { CallOrder } from "./call_order.ts";
import type {
  LogCommit,
  LoggedAnswer,
  LoggedTask,
  LoggedTaskQuery,
  OpenedLog,
  StoredLogEntry,
} from "./log_rows.ts";
import { MemoryLog } from "./memory_log.ts";
import { MemoryRecords } from "./memory_records.ts";
import { hasOutputs, type OwnedOutput, syncOutputs, writeOutputs } from "./outputs.ts";
import { ownedOutputs } from "./packed/pack_log.ts";
import { copyChanges } from "./record_changes.ts";
import type { ProjectScope, RecordChange, RecordQuery, StoredRecord } from "./records.ts";
import type { JournalEntry, Store, StoredEntry, StoredTask } from "./store.ts";

/** A new, empty store. It copies what it receives and what it returns. */
export function createMemoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore implements Store {
  /** By id, in order of creation. */
  readonly #tasks = new Map<string, StoredTask>();
  readonly #idByName = new Map<string, string>();
  readonly #journals = new Map<string, StoredEntry[]>();
  /** All entries in the order of their appends. */
  #entries: StoredEntry[] = [];
  readonly #records = new MemoryRecords();
  readonly #log = new MemoryLog();
  #isClosed = false;
  readonly #order = new CallOrder();

  putTask(task: StoredTask): Promise<void> {
    const copy = { ...task };
    return this.#order.behind(async () => this.#put(copy));
  }

  #put(task: StoredTask): void {
    this.#assertOpen();
    const holder = this.#idByName.get(task.name);
    if (holder !== undefined && holder !== task.id) {
      throw new PerigeeError("conflict", `another task has the name ${JSON.stringify(task.name)}`);
    }
    const replaced = this.#tasks.get(task.id);
    if (replaced !== undefined) this.#idByName.delete(replaced.name);
    this.#tasks.set(task.id, task);
    this.#idByName.set(task.name, task.id);
  }

  task(id: string): Promise<StoredTask | undefined> {
    return this.#order.behind(async () => this.#find(id));
  }

  taskByName(name: string): Promise<StoredTask | undefined> {
    return this.#order.behind(async () => this.#find(this.#idByName.get(name)));
  }

  #find(id: string | undefined): StoredTask | undefined {
    this.#assertOpen();
    const task = id === undefined ? undefined : this.#tasks.get(id);
    return task === undefined ? undefined : { ...task };
  }

  tasks(options: { readonly after?: string; readonly limit: number }): Promise<readonly StoredTask[]> {
    return this.#order.behind(async () => this.#list(options));
  }

  #list(options: { readonly after?: string; readonly limit: number }): StoredTask[] {
    this.#assertOpen();
    const all = [...this.#tasks.values()];
    const afterIndex = options.after === undefined ? -1 : all.findIndex((task) => task.id === options.after);
    if (options.after !== undefined && afterIndex < 0) return [];
    return all.slice(afterIndex + 1, afterIndex + 1 + options.limit).map((task) => ({ ...task }));
  }

  async append(entries: readonly JournalEntry[]): Promise<void> {
    this.#assertOpen();
    const copies = entries.map((entry) => ({ ...entry, records: entry.records.slice() }));
    return this.#write(entries, () => this.#push(copies));
  }

  async #write(outputs: readonly OwnedOutput[], apply: () => void): Promise<void> {
    if (!hasOutputs(outputs)) return this.#order.behind(async () => apply());
    await this.#order.after(
      () => writeOutputs(outputs),
      async () => apply(),
    );
    await syncOutputs(outputs);
  }

  #push(entries: readonly JournalEntry[]): void {
    this.#assertOpen();
    for (const { taskId, wallMs, records } of entries) {
      const journal = this.#journals.get(taskId) ?? [];
      const entry = { taskId, wallMs, records, sequence: journal.length + 1 };
      journal.push(entry);
      this.#journals.set(taskId, journal);
      this.#entries.push(entry);
    }
  }

  async *journal(taskId: string): AsyncGenerator<StoredEntry, void, undefined> {
    this.#assertOpen();
    await this.#order.behind(async () => undefined);
    for (let index = 0; ; index += 1) {
      this.#assertOpen();
      const entry = this.#journals.get(taskId)?.[index];
      if (entry === undefined) return;
      yield copyOf(entry);
    }
  }

  async *latestEntries(): AsyncGenerator<StoredEntry, void, undefined> {
    this.#assertOpen();
    await this.#order.behind(async () => undefined);
    for (const entry of this.#entries.toReversed()) {
      this.#assertOpen();
      yield copyOf(entry);
    }
  }

  deleteTask(id: string): Promise<void> {
    return this.#order.behind(async () => this.#delete(id));
  }

  /** Its memory is not a file. */
  async scrub(): Promise<void> {
    this.#assertOpen();
  }

  #delete(id: string): void {
    this.#assertOpen();
    const task = this.#tasks.get(id);
    if (task !== undefined) this.#idByName.delete(task.name);
    this.#tasks.delete(id);
    this.#journals.delete(id);
    this.#entries = this.#entries.filter((entry) => entry.taskId !== id);
  }

  async change(changes: readonly RecordChange[]): Promise<void> {
    const copies = copyChanges(changes);
    return this.#order.behind(async () => {
      this.#assertOpen();
      await this.#records.change(copies);
    });
  }

  record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    return this.#order.behind(async () => {
      this.#assertOpen();
      return this.#records.record(project, collection, id);
    });
  }

  records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]> {
    return this.#order.behind(async () => {
      this.#assertOpen();
      return this.#records.records(project, query);
    });
  }

  openLog(): Promise<OpenedLog> {
    return this.#readLog(() => this.#log.open());
  }

  async commitLog(commit: LogCommit): Promise<void> {
    this.#assertOpen();
    return this.#write(ownedOutputs(commit.outputs), () => {
      this.#assertOpen();
      this.#log.commit(commit);
    });
  }

  async *logEntries(): AsyncGenerator<StoredLogEntry, void, undefined> {
    for (let after = 0; ; ) {
      const page = await this.#readLog(() => this.#log.entries(after));
      const last = page.at(-1);
      if (last === undefined) return;
      yield* page;
      after = last.sequence;
    }
  }

  loggedTask(key: string | number): Promise<LoggedTask | undefined> {
    return this.#readLog(() => this.#log.task(key));
  }

  loggedTasks(query: LoggedTaskQuery): Promise<readonly LoggedTask[]> {
    return this.#readLog(() => this.#log.tasks(query));
  }

  loggedAnswers(task: number, from: number, limit: number): Promise<readonly LoggedAnswer[]> {
    return this.#readLog(() => this.#log.answers(task, from, limit));
  }

  #readLog<T>(read: () => T): Promise<T> {
    return this.#order.behind(async () => {
      this.#assertOpen();
      return read();
    });
  }

  close(): Promise<void> {
    return this.#order.behind(async () => {
      this.#isClosed = true;
    });
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new PerigeeError("closed", "the store is closed");
  }
}

function copyOf(entry: StoredEntry): StoredEntry {
  return { ...entry, records: entry.records.slice() };
}
