/**
 * A store in plain memory: for tests, and for runs that need no restart. Same contract as the embedded one, but
 * nothing survives the process, and calls take effect at once.
 */
import { PerigeeError } from "../errors.ts";
import { MemoryRecords } from "./memory_records.ts";
import { hasOutputs, syncOutputs, writeOutputs } from "./outputs.ts";
import type { ProjectScope, RecordChange, RecordQuery, StoredRecord } from "./records.ts";
import type { JournalEntry, Store, StoredEntry, StoredTask } from "./store.ts";

/** A new, empty store. It copies what it is given and what it gives. */
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
  #isClosed = false;

  async putTask(task: StoredTask): Promise<void> {
    this.#assertOpen();
    const holder = this.#idByName.get(task.name);
    if (holder !== undefined && holder !== task.id) {
      throw new PerigeeError("conflict", `another task has the name ${JSON.stringify(task.name)}`);
    }
    const replaced = this.#tasks.get(task.id);
    if (replaced !== undefined) this.#idByName.delete(replaced.name);
    this.#tasks.set(task.id, { ...task });
    this.#idByName.set(task.name, task.id);
  }

  async task(id: string): Promise<StoredTask | undefined> {
    this.#assertOpen();
    const task = this.#tasks.get(id);
    return task === undefined ? undefined : { ...task };
  }

  async taskByName(name: string): Promise<StoredTask | undefined> {
    this.#assertOpen();
    const id = this.#idByName.get(name);
    return id === undefined ? undefined : this.task(id);
  }

  async tasks(options: { readonly after?: string; readonly limit: number }): Promise<readonly StoredTask[]> {
    this.#assertOpen();
    const all = [...this.#tasks.values()];
    const afterIndex = options.after === undefined ? -1 : all.findIndex((task) => task.id === options.after);
    if (options.after !== undefined && afterIndex < 0) return [];
    return all.slice(afterIndex + 1, afterIndex + 1 + options.limit).map((task) => ({ ...task }));
  }

  async append(entries: readonly JournalEntry[]): Promise<void> {
    this.#assertOpen();
    if (hasOutputs(entries)) await writeOutputs(entries);
    this.#push(entries);
    if (hasOutputs(entries)) await syncOutputs(entries);
  }

  #push(entries: readonly JournalEntry[]): void {
    for (const { taskId, wallMs, records } of entries) {
      const journal = this.#journals.get(taskId) ?? [];
      const entry = { taskId, wallMs, records: records.slice(), sequence: journal.length + 1 };
      journal.push(entry);
      this.#journals.set(taskId, journal);
      this.#entries.push(entry);
    }
  }

  async *journal(taskId: string): AsyncGenerator<StoredEntry, void, undefined> {
    for (let index = 0; ; index += 1) {
      this.#assertOpen();
      const entry = this.#journals.get(taskId)?.[index];
      if (entry === undefined) return;
      yield copyOf(entry);
    }
  }

  async *latestEntries(): AsyncGenerator<StoredEntry, void, undefined> {
    this.#assertOpen();
    for (const entry of this.#entries.toReversed()) {
      this.#assertOpen();
      yield copyOf(entry);
    }
  }

  async deleteTask(id: string): Promise<void> {
    this.#assertOpen();
    const task = this.#tasks.get(id);
    if (task !== undefined) this.#idByName.delete(task.name);
    this.#tasks.delete(id);
    this.#journals.delete(id);
    this.#entries = this.#entries.filter((entry) => entry.taskId !== id);
  }

  async change(changes: readonly RecordChange[]): Promise<void> {
    this.#assertOpen();
    await this.#records.change(changes);
  }

  async record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    this.#assertOpen();
    return this.#records.record(project, collection, id);
  }

  async records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]> {
    this.#assertOpen();
    return this.#records.records(project, query);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new PerigeeError("closed", "the store is closed");
  }
}

function copyOf(entry: StoredEntry): StoredEntry {
  return { ...entry, records: entry.records.slice() };
}
