/**
 * Records: what the service keeps besides tasks and journals, in collections the store knows nothing about.
 *
 *   absent -> stored (again and again, by `put`) -> absent (`delete`)
 *
 * A record belongs to one project, and a reader says whose records it reads: `EVERY_PROJECT` is for the engine's
 * own work, never for a request.
 */

/** Reads across projects, for what the process does on its own. */
export const EVERY_PROJECT: unique symbol = Symbol("every project");

/** Whose records a call sees. */
export type ProjectScope = string | typeof EVERY_PROJECT;

/** Texts hold no NUL and no half of a surrogate pair; JSON escapes both. */
export interface StoredRecord {
  /** What it is, such as `file`. Ids are unique within a collection. */
  readonly collection: string;
  readonly id: string;
  readonly project: string;
  /** What it belongs to, to find it by; empty when it belongs to nothing. */
  readonly parent: string;
  readonly createdWallMs: number;
  /** JSON that only its owner reads. */
  readonly body: string;
  /** Texts of users; in a separate column, so that they can be deleted before the rest. */
  readonly payload?: Uint8Array | undefined;
}

export type RecordChange =
  /** Inserts or replaces by collection and id, in its old place; `conflict` when the one there is another project's. */
  | { readonly kind: "put"; readonly record: StoredRecord }
  /** As `put`, but `conflict` when there is one already, of any project. */
  | { readonly kind: "insert"; readonly record: StoredRecord }
  /** No error if it does not exist. */
  | { readonly kind: "delete"; readonly collection: string; readonly id: string }
  /** All records of a parent; no records when `parent` is empty. */
  | { readonly kind: "deleteOf"; readonly collection: string; readonly parent: string };

/** Which records to list, in the order of their creation. */
export interface RecordQuery {
  readonly collection: string;
  /** Empty finds nothing. */
  readonly parent?: string;
  /** Begins after the record of this id; empty if it does not exist, or is another project's. */
  readonly after?: string;
  readonly limit: number;
  /** The newest first. */
  readonly isNewestFirst?: boolean;
  /** Begins, the newest first, at the first record whose body has at most this number. It is found without those before it. */
  readonly atMost?: NumberedPlace;
}

/** A place among records by a member of their bodies, which is never higher in an older one. */
export interface NumberedPlace {
  /** A number; where it is absent it counts as 0. */
  readonly member: string;
  readonly value: number;
}

/** The number of a body at a place. */
export function numberOfBody(body: string, { member }: NumberedPlace): number {
  const number: unknown = (JSON.parse(body) as { readonly [member: string]: unknown })[member];
  return typeof number === "number" ? number : 0;
}

/**
 * Finds the newest row whose body has at most that number, by bisection. It yields a row number; pass to `next` the newest record up to
 * that row, or undefined. Returns the row, 0 without one. Hot: 20 of a million rows are read.
 */
export function* newestAtMost(
  place: NumberedPlace,
): Generator<number, number, { readonly row: number; readonly body: string } | undefined> {
  let [found, low, high] = [0, 1, (yield Number.MAX_SAFE_INTEGER)?.row ?? 0];
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const row = yield middle;
    if (row === undefined) low = middle + 1;
    else if (numberOfBody(row.body, place) > place.value) high = row.row - 1;
    else [found, low] = [row.row, middle + 1];
  }
  return found;
}

/** Part of the port `Store`; its promises are those of `store.ts`. */
export interface RecordStore {
  /**
   * Makes all changes in one transaction, in their order; durable when it resolves. After a `conflict` nothing of the
   * call has happened. Throws `usage` for a text with a NUL or half a surrogate pair, which SQLite would not return.
   */
  change(changes: readonly RecordChange[]): Promise<void>;
  /** Undefined if it does not exist or belongs to another project. */
  record(project: ProjectScope, collection: string, id: string): Promise<StoredRecord | undefined>;
  /** At most `limit`, payloads included unless the query says otherwise. */
  records(project: ProjectScope, query: RecordQuery): Promise<readonly StoredRecord[]>;
}
