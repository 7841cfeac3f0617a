/**
 * Records in plain memory, for the memory store.
 */
import { PerigeeError } from "../errors.ts";
import {
  EVERY_PROJECT,
  type ProjectScope,
  type RecordChange,
  type RecordQuery,
  type RecordStore,
  type StoredRecord,
} from "./records.ts";

/** Copies what it is given and what it gives. */
export class MemoryRecords implements RecordStore {
  /** Collections, each by id in order of creation. */
  readonly #collections = new Map<string, Map<string, StoredRecord>>();

  async change(changes: readonly RecordChange[]): Promise<void> {
    this.#refuseTaken(changes);
    for (const change of changes) this.#apply(change);
  }

  async record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    const found = this.#collections.get(collection)?.get(id);
    return found !== undefined && isVisible(found, project) ? copyOf(found) : undefined;
  }

  async records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]> {
    const all = [...(this.#collections.get(query.collection)?.values() ?? [])];
    if (query.isNewestFirst === true) all.reverse();
    const afterIndex = query.after === undefined ? -1 : all.findIndex((one) => one.id === query.after);
    if (query.after !== undefined && afterIndex < 0) return [];
    return all
      .slice(afterIndex + 1)
      .filter((one) => isVisible(one, project) && (query.parent === undefined || one.parent === query.parent))
      .slice(0, query.limit)
      .map(copyOf);
  }

  #refuseTaken(changes: readonly RecordChange[]): void {
    const taken = new Set<string>();
    for (const change of changes) {
      if (change.kind !== "put" && change.kind !== "insert") continue;
      const { collection, id } = change.record;
      const name = JSON.stringify([collection, id]);
      if (change.kind === "insert" && (taken.has(name) || this.#collections.get(collection)?.has(id)))
        throw new PerigeeError("conflict", `there is a ${collection} ${JSON.stringify(id)} already`);
      taken.add(name);
    }
  }

  #apply(change: RecordChange): void {
    if (change.kind === "put" || change.kind === "insert") {
      const records = this.#collections.get(change.record.collection) ?? new Map<string, StoredRecord>();
      records.set(change.record.id, copyOf(change.record));
      this.#collections.set(change.record.collection, records);
      return;
    }
    const records = this.#collections.get(change.collection);
    if (change.kind === "delete") {
      records?.delete(change.id);
      return;
    }
    for (const record of [...(records?.values() ?? [])]) {
      if (record.parent !== change.parent) continue;
      if (change.kind === "deleteOf") records?.delete(record.id);
      else records?.set(record.id, { ...record, payload: undefined });
    }
  }
}

function isVisible(record: StoredRecord, project: ProjectScope): boolean {
  return project === EVERY_PROJECT || record.project === project;
}

function copyOf(record: StoredRecord): StoredRecord {
  return record.payload === undefined ? { ...record } : { ...record, payload: record.payload.slice() };
}
