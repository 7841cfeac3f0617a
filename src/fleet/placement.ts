/**
 * Which partitions a worker takes, makes and releases: decided by each worker for itself, from the same rows.
 *
 *   a free partition       goes to the worker with the fewest; if that one does not take it, to the next one 2 s later, and so on
 *   a worker without one   takes a free one; else waits for a worker with two or more, which releases one when that has drained; after 95 s
 *                          without one, makes a new one, unless two exist for each worker; where no worker has two and none is leaving, makes a
 *                          new one at once
 *   a leaving worker       releases all, and those that have none wait for them
 *
 * Workers may decide from different rows: taking a partition is atomic in the database, so a wrong guess costs a second. A worker never
 * releases its only partition, so what is decided ends: see the property tests.
 */

/** A worker that lives. */
export interface LiveWorker {
  readonly id: string;
  /** Whether it takes partitions: its role is not `api`, and it is not leaving. */
  readonly isTaker: boolean;
}

/** A partition of the fleet. */
export interface HeldPartition {
  readonly part: number;
  /** The id of its worker; undefined while it is free. */
  readonly owner: string | undefined;
}

/** What the database knows. */
export interface FleetRows {
  readonly workers: readonly LiveWorker[];
  readonly partitions: readonly HeldPartition[];
}

/** What a worker knows of itself. */
export interface OwnState {
  readonly id: string;
  readonly isLeaving: boolean;
  /** Open or being opened, the oldest first. */
  readonly kept: readonly number[];
  /** Being released. */
  readonly closing: readonly number[];
  /** Those that it could not open in the last 30 s. */
  readonly barred: ReadonlySet<number>;
  /** Milliseconds for which it has seen a partition free; 0 for one that is not. */
  readonly freeMs: (part: number) => number;
  /** Milliseconds since it last had a partition. */
  readonly idleMs: number;
}

export type PlacementStep =
  | { readonly kind: "take"; readonly part: number }
  | { readonly kind: "make" }
  | { readonly kind: "release"; readonly part: number };

/** How long each worker has for its turn before the next one takes a free partition. */
export const TURN_MS = 2_000;
/** How long a worker without a partition waits for one that is released: longer than one drains and closes (owned_partitions.ts). */
export const HANDOVER_MS = 95_000;
/**
 * For each worker: while so many exist, a worker that was not released one waits on. Otherwise each time that a busy machine is late, the fleet would
 * have one partition more, for ever.
 */
const PARTITIONS_MAX = 2;

/** What the worker does now; mostly nothing. */
export function placementSteps(rows: FleetRows, own: OwnState): PlacementStep[] {
  if (own.isLeaving) return own.kept.map((part) => ({ kind: "release", part }));
  const free = rows.partitions
    .filter(
      ({ part, owner }) => owner === undefined && !own.kept.includes(part) && !own.closing.includes(part),
    )
    .map(({ part }) => part)
    .toSorted((one, other) => one - other);
  const loads = loadsOf(rows, own);
  if (!loads.has(own.id)) return []; // its own row is not in the reading yet
  const taken = taking(free, loads, own);
  if (taken.length > 0) return taken.map((part) => ({ kind: "take", part }));
  if (own.kept.length === 0) return makes(free, loads, rows, own) ? [{ kind: "make" }] : [];
  return releasing(free.length, rows, own).map((part) => ({ kind: "release", part }));
}

/** How many partitions each worker has, of those that take any. */
function loadsOf({ workers, partitions }: FleetRows, own: OwnState): Map<string, number> {
  const loads = new Map(workers.filter(({ isTaker }) => isTaker).map(({ id }) => [id, 0]));
  for (const { owner } of partitions) {
    const before = owner === undefined ? undefined : loads.get(owner);
    if (owner !== undefined && before !== undefined) loads.set(owner, before + 1);
  }
  if (loads.has(own.id)) loads.set(own.id, own.kept.length);
  return loads;
}

function taking(free: readonly number[], before: ReadonlyMap<string, number>, own: OwnState): number[] {
  const loads = new Map(before);
  return free.filter((part) => {
    const order = [...loads].toSorted(([one, few], [other, many]) => few - many || (one < other ? -1 : 1));
    const [first] = order[0] ?? [];
    if (first !== undefined) loads.set(first, (loads.get(first) ?? 0) + 1);
    const turn = order.findIndex(([id]) => id === own.id);
    return !own.barred.has(part) && own.freeMs(part) >= turn * TURN_MS;
  });
}

/** Whether a worker without a partition makes one: none is free for it, and no worker has one to release for it. */
function makes(
  free: readonly number[],
  loads: ReadonlyMap<string, number>,
  { partitions }: FleetRows,
  own: OwnState,
): boolean {
  if (own.closing.length > 0) return false; // it has lost one, which may be released for it before it is closed here
  if (own.idleMs >= HANDOVER_MS && partitions.length < PARTITIONS_MAX * loads.size) return true;
  const idle = [...loads]
    .filter(([, load]) => load === 0)
    .map(([id]) => id)
    .toSorted();
  const spare = [...loads.values()].reduce((sum, load) => sum + Math.max(0, load - 1), 0);
  const usable = free.filter((part) => !own.barred.has(part)).length;
  const leaving = partitions.filter(({ owner }) => owner !== undefined && !loads.has(owner)).length;
  return idle.indexOf(own.id) >= usable + spare + leaving;
}

/** The partitions that it took last, where other workers have none and it is its turn to release some. */
function releasing(freeCount: number, rows: FleetRows, own: OwnState): readonly number[] {
  // As the others see it: with what it is releasing.
  const loads = loadsOf(rows, { ...own, kept: [...own.kept, ...own.closing] });
  const idle = [...loads.values()].filter((load) => load === 0).length;
  let gives = 0;
  for (let needed = idle - freeCount; needed > 0; needed -= 1) {
    const [most] = [...loads].toSorted(([one, many], [other, few]) => few - many || (one < other ? -1 : 1));
    if (most === undefined || most[1] < 2) break;
    loads.set(most[0], most[1] - 1);
    if (most[0] === own.id) gives += 1;
  }
  const count = gives - own.closing.length;
  return count > 0 ? own.kept.slice(-count) : [];
}
