/**
 * Retention: removes what is older than its retention time, a little at a time.
 *
 *   resting (an hour) -> sweeping: each kind, the oldest first, until one is young enough -> resting
 *
 * A sweep depends only on what is stored, so a restart loses nothing. What cannot be removed yet, such as a task whose objects are not
 * final or a file that a task uses, is skipped and tried again an hour later.
 *
 * Limits: 100 records at a time, a second apart; the first sweep is a minute after the start.
 */
import type { Clock, Timer } from "../clock.ts";
import { hasCode, PerigeeError } from "../errors.ts";
import { EVERY_PROJECT, type RecordStore, type StoredRecord } from "../store/records.ts";
import { FILES } from "./files/file_record.ts";
import type { Files } from "./files/files.ts";
import { recordToTask, TASKS } from "./lots/task_record.ts";
import type { OpenedTasks } from "./open_tasks.ts";
import type { Tasks } from "./shapes/tasks.ts";

/** One kind of records, and how long they are kept. */
export type Kept = KeptRecords | KeptElsewhere;

/** Something other than records, and how long it is kept. */
export interface KeptElsewhere {
  readonly keepMs: number;
  /** Removes what ended before a time (Unix), a little at a time. */
  readonly sweep: (oldestWallMs: number, signal: AbortSignal) => Promise<void>;
}

/** Records of one kind. */
export interface KeptRecords {
  readonly collection: string;
  /** Counted from `createdWallMs`: the shortest time that they are kept. */
  readonly keepMs: number;
  /** Removes one that is old enough; false if it stays. If absent, there is only the record. */
  readonly remove?: (record: StoredRecord, oldestWallMs: number) => Promise<boolean>;
  /** The ids of those of a page that must stay for now. If absent, `remove` decides. */
  readonly inUse?: (records: readonly StoredRecord[]) => Promise<ReadonlySet<string>>;
}

/** Something outside of records, and how long it is kept. */
export interface Sweep {
  readonly keepMs: number;
  /** Removes what is older than a time (Unix). `pause` rests between pages; it rejects once retention is closed. */
  readonly sweep: (oldestWallMs: number, pause: () => Promise<void>) => Promise<void>;
}

export interface RetentionOptions {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly kinds: readonly Kept[];
  /** Called before each sweep, and once at the start; if it returns false nothing is removed. Default: true. */
  readonly isClockTrusted?: () => Promise<boolean>;
  /** What else has an age limit. */
  readonly sweeps?: readonly Sweep[];
  /** Called for unexpected failures; the next sweep tries again. */
  readonly onFault?: (error: unknown) => void;
}

/** Sweeps once an hour until it is closed. */
export interface Retention {
  /** Resolves when no removal is under way any more. */
  close(): Promise<void>;
}

const FIRST_MS = 60_000;
const REST_MS = 3_600_000;
const PAGE = 100;
const PACE_MS = 1_000;

/** Starts to remove old records until it is closed. */
export function startRetention(options: RetentionOptions): Retention {
  return new HourlyRetention(options);
}

/** Tasks are removed this long after they have ended. */
export function keptTasks(tasks: Pick<Tasks, "task" | "remove">, keepMs: number): KeptRecords {
  return {
    collection: TASKS,
    keepMs,
    remove: async (record, oldestWallMs) => {
      const { project, id } = recordToTask(record);
      const { status, finishedWallMs = Number.POSITIVE_INFINITY } = await tasks.task(project, id);
      if (status === "submitted" || finishedWallMs > oldestWallMs) return false;
      await tasks.remove(project, id);
      return true;
    },
  };
}

/** The same for posted tasks. */
export function keptPosted(
  tasks: Pick<OpenedTasks, "sweep">,
  keepMs: number,
  removed: (project: string, id: string) => void,
): KeptElsewhere {
  return { keepMs, sweep: (oldestWallMs, signal) => tasks.sweep(oldestWallMs, removed, signal) };
}

/** Files are removed this long after they were stored; a file that a task uses stays, also one that its requests name. */
export function keptFiles(files: Pick<Files, "remove" | "named">, keepMs: number): KeptRecords {
  return {
    collection: FILES,
    keepMs,
    inUse: async (records) => {
      const named = new Set<string>();
      for (const project of new Set(records.map((record) => record.project))) {
        const ids = records.filter((record) => record.project === project).map(({ id }) => id);
        for (const id of (await files.named(project, new Set(ids))).keys()) named.add(id);
      }
      return named;
    },
    remove: async ({ project, id }) => {
      await files.remove(project, id, { isUnnamed: true });
      return true;
    },
  };
}

class HourlyRetention implements Retention {
  readonly #options: RetentionOptions;
  readonly #closing = new AbortController();
  #timer: Timer | undefined;
  #sweep: Promise<void> = Promise.resolve();

  constructor(options: RetentionOptions) {
    this.#options = options;
    this.#sweep = this.#isClockTrusted().then(() => undefined); // records the time from the start on
    this.#rest(FIRST_MS);
  }

  async close(): Promise<void> {
    this.#closing.abort(new PerigeeError("closed", "the service is closing"));
    this.#timer?.cancel();
    await this.#sweep;
  }

  #rest(ms: number): void {
    if (this.#closing.signal.aborted) return;
    const begin = (): void => {
      this.#sweep = this.#all().then(() => this.#rest(REST_MS));
    };
    this.#timer = this.#options.clock.timer(ms, begin, { keepsAlive: false });
  }

  async #all(): Promise<void> {
    const { sweeps = [], clock } = this.#options;
    const beforeWallMs = clock.wallMs();
    if (!(await this.#isClockTrusted())) return;
    // The check covers only readings up to here: the clock may jump while records are removed.
    const nowWallMs = Math.min(beforeWallMs, clock.wallMs());
    const pause = (): Promise<void> => clock.sleep(PACE_MS, { signal: this.#closing.signal });
    for (const { keepMs, sweep } of sweeps) await this.#try(() => sweep(nowWallMs - keepMs, pause));
    for (const kind of this.#options.kinds) {
      if (this.#closing.signal.aborted) return;
      await this.#try(() => this.#one(kind, nowWallMs));
    }
  }

  async #isClockTrusted(): Promise<boolean> {
    let isTrusted = false;
    await this.#try(async () => {
      isTrusted = (await this.#options.isClockTrusted?.()) ?? true;
    });
    return isTrusted;
  }

  async #try(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#options.onFault?.(error);
    }
  }

  async #one(kind: Kept, nowWallMs: number): Promise<void> {
    const { clock, store } = this.#options;
    if ("sweep" in kind) return kind.sweep(nowWallMs - kind.keepMs, this.#closing.signal);
    const { collection, keepMs, remove, inUse } = kind;
    const oldestWallMs = nowWallMs - keepMs;
    /** The last record that stayed: pages start after records that still exist. */
    let after: string | undefined;
    for (;;) {
      const query = { collection, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const records = await store.records(EVERY_PROJECT, query);
      const old = records.filter(({ createdWallMs }) => createdWallMs <= oldestWallMs);
      const used = old.length === 0 ? undefined : await inUse?.(old);
      if (remove === undefined) await this.#removeRecords(old);
      else
        for (const record of old)
          if (used?.has(record.id) === true || !(await isRemoved(remove(record, oldestWallMs))))
            after = record.id;
      if (old.length < PAGE) return;
      await clock.sleep(PACE_MS, { signal: this.#closing.signal });
    }
  }

  async #removeRecords(records: readonly StoredRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.#options.store.change(
      records.map(({ collection, id }) => ({ kind: "delete", collection, id })),
    );
  }
}

/** False if it cannot be removed now: it is in use, or partly removed already. */
async function isRemoved(removing: Promise<boolean>): Promise<boolean> {
  try {
    return await removing;
  } catch (error) {
    if (hasCode(error, "conflict") || hasCode(error, "not_found")) return false;
    throw error;
  }
}
