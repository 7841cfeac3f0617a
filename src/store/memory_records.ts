/**
 * Records in plain memory, for the memory store.
 */
import { copyRecord, idTaken } from "./record_changes.ts";
import {
  EVERY_PROJECT,
  numberOfBody,
  type ProjectScope,
  type RecordChange,
  type RecordQuery,
  type RecordStore,
  type StoredRecord,
} from "./records.ts";

/** Keeps what it receives, and copies what it returns. */
export class MemoryRecords implements RecordStore {
  /** Collections, each by id in order of creation. */
  readonly #collections = new Map<string, Map<string, StoredRecord>>();

  async change(changes: readonly RecordChange[]): Promise<void> {
    this.#refuseTaken(changes);
    for (const change of changes) this.#apply(change);
  }

  async record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined> {
    const found = this.#collections.get(collection)?.get(id);
    return found !== undefined && isVisible(found, project) ? copyRecord(found) : undefined;
  }

  async records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]> {
    const all = [...(this.#collections.get(query.collection)?.values() ?? [])];
    if (query.isNewestFirst === true) all.reverse();
    const isListed = (one: StoredRecord): boolean =>
      isVisible(one, project) &&
      (query.atMost === undefined || numberOfBody(one.body, query.atMost) <= query.atMost.value) &&
      (query.parent === undefined || (query.parent === one.parent && one.parent !== ""));
    const after = query.after;
    const afterIndex =
      after === undefined ? -1 : all.findIndex((one) => one.id === after && isVisible(one, project));
    if (after !== undefined && afterIndex < 0) return [];
    return all
      .slice(afterIndex + 1)
      .filter(isListed)
      .slice(0, query.limit)
      .map((one) => copyRecord(one));
  }

  /** Throws `conflict` when one of these changes, made in their order, would find its id in use. */
  #refuseTaken(changes: readonly RecordChange[]): void {
    /** What the changes so far would leave of the records they name; undefined when it would be deleted. */
    const left = new Map<string, StoredRecord | undefined>();
    const emptied = new Set<string>();
    for (const change of changes) {
      if (change.kind === "put" || change.kind === "insert") {
        const { record } = change;
        const name = nameOf(record.collection, record.id);
        const stored = this.#collections.get(record.collection)?.get(record.id);
        const isEmptied = stored !== undefined && emptied.has(nameOf(stored.collection, stored.parent));
        const before = left.has(name) || isEmptied ? left.get(name) : stored;
        if (before !== undefined && (change.kind === "insert" || before.project !== record.project))
          throw idTaken(record);
        left.set(name, record);
      } else if (change.kind === "delete") {
        left.set(nameOf(change.collection, change.id), undefined);
      } else if (change.parent !== "") {
        emptied.add(nameOf(change.collection, change.parent));
        for (const [name, record] of left)
          if (record?.collection === change.collection && record.parent === change.parent)
            left.set(name, undefined);
      }
    }
  }

  #apply(change: RecordChange): void {
    if (change.kind === "put" || change.kind === "insert") {
      const records = this.#collections.get(change.record.collection) ?? new Map<string, StoredRecord>();
      records.set(change.record.id, change.record);
      this.#collections.set(change.record.collection, records);
      return;
    }
    const records = this.#collections.get(change.collection);
    if (change.kind === "delete") {
      records?.delete(change.id);
      return;
    }
    if (change.parent === "") return;
    for (const record of [...(records?.values() ?? [])]) {
      if (record.parent === change.parent) records?.delete(record.id);
    }
  }
}

function isVisible(record: StoredRecord, project: ProjectScope): boolean {
  return project === EVERY_PROJECT || record.project === project;
}

/** One text for two, such as collection and id. */
function nameOf(collection: string, name: string): string {
  return JSON.stringify([collection, name]);
}
