/**
 * The audit log: who made and revoked keys, took and gave files, made and ended tasks. Appended to, never changed.
 *
 *   open -> closed
 *   open -> failed    (a sync failed, or the disk did: nothing more is written, `flush` and `close` reject)
 *
 * Events are gathered for 200 ms and synced together. The service and the command line write to the same files, so a
 * group is written under a lock, after all lines that are there by then; what a process that died left of a line is cut.
 * On a full disk events wait for the next group. What is cut off at the end by someone else cannot be noticed by the
 * chain itself: keep a copy of its last hash elsewhere if that matters.
 *
 * Limits: 10,000 events wait at most; those beyond are counted, and the count is written. Kept for 13 months.
 */
import { join } from "node:path";
import type { Clock, Timer } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { openPrivately } from "../folder/data_dir.ts";
import { loadSqlite } from "../sqlite_database.ts";
import { isBusy, storeFailure } from "../sqlite_failure.ts";
import { AuditChain } from "./audit_chain.ts";
import type { AuditEvent, TimedEvent } from "./audit_line.ts";

const GROUP_MS = 200;
const GROUP_EVENTS_MAX = 1_000;
const WAITING_EVENTS_MAX = 10_000;
/** Failed logins are counted for so long, then written as one line. */
const COUNT_MS = 60_000;
const LOCK_RETRY_MS = 10;
const LOCK_TRIES_MAX = 500;
/** A close waits less: another process holds the lock for some milliseconds, while it writes one group. */
const LOCK_TRIES_AT_CLOSE = 50;

/** What the rest of the service needs of it. */
export interface Audit {
  /** Takes the event, which is on the disk some 200 ms later. Never throws, never waits. */
  note(event: AuditEvent): void;
}

/** Keeps others from writing at the same time. */
export interface AuditLock {
  /** False when another has it. */
  tryTake(): boolean;
  release(): void;
  close(): void;
}

/** Where nobody else writes it. */
export const NO_LOCK: AuditLock = { tryTake: () => true, release: () => undefined, close: () => undefined };

export interface AuditOptions {
  /** Must exist. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly disk: Disk;
  /** Called when a group could not be written: its events wait, or are lost when the code is `store_failed`. */
  readonly onFailure?: (error: unknown) => void;
  /** Default: a lock of the operating system on `audit.lock` in the folder, which ends with the process. */
  readonly lock?: AuditLock;
}

/** Opens the log; makes nothing before the first event. Throws an error of SQLite's when the lock cannot be made. */
export async function openAuditLog(options: AuditOptions): Promise<AuditLog> {
  return new AuditLog(options, options.lock ?? (await systemLock(options.dataDir)));
}

export class AuditLog implements Audit {
  readonly #options: AuditOptions;
  readonly #lock: PatientLock;
  #waiting: TimedEvent[] = [];
  #lost = 0;
  readonly #failedLogins = new FailedLogins();
  #groupTimer: Timer | undefined;
  /** The last group; they are written one after another. */
  #written: Promise<void> = Promise.resolve();
  readonly #chain: AuditChain;
  #failure: unknown;
  #isClosed = false;

  constructor(options: AuditOptions, lock: AuditLock) {
    this.#options = options;
    this.#lock = new PatientLock(lock, options.clock);
    this.#chain = new AuditChain(options);
  }

  note(event: AuditEvent): void {
    if (event.kind !== "login.failed") {
      this.#push({ ...event, wallMs: this.#options.clock.wallMs() });
      return;
    }
    this.#failedLogins.add(this.#options.clock, () => this.#pushCount());
  }

  /** Resolves when all that was noted is on the disk. Rejects when it is not: `disk_full` may pass, others do not. */
  async flush(): Promise<void> {
    this.#groupTimer?.cancel();
    this.#groupTimer = undefined;
    this.#written = this.#written.catch(() => undefined).then(() => this.#writeAll());
    await this.#written;
  }

  /**
   * Writes all pending events and counts. May be called twice. Rejects with `conflict` if another process keeps the files
   * locked for half a second.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#pushCount();
    this.#isClosed = true;
    this.#lock.hurry();
    try {
      await this.flush();
    } finally {
      await this.#chain.close();
      this.#lock.close();
    }
  }

  #push(event: TimedEvent): void {
    if (this.#failure !== undefined || this.#isClosed) return;
    if (this.#waiting.length >= WAITING_EVENTS_MAX) this.#lost += 1;
    else this.#waiting.push(event);
    this.#groupTimer ??= this.#options.clock.timer(GROUP_MS, () => this.#writeGroup(), { keepsAlive: false });
  }

  #pushCount(): void {
    const count = this.#failedLogins.take();
    if (count > 0) this.#push({ kind: "login.failed", count, wallMs: this.#options.clock.wallMs() });
  }

  #writeGroup(): void {
    this.flush().catch((error: unknown) => {
      this.#options.onFailure?.(error);
      // Events that wait are tried again.
      if (this.#failure === undefined && !this.#isClosed)
        this.#groupTimer ??= this.#options.clock.timer(COUNT_MS, () => this.#writeGroup(), {
          keepsAlive: false,
        });
    });
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0 || this.#lost > 0) {
      if (this.#failure !== undefined) throw this.#failure;
      try {
        await this.#lock.during(() => this.#append());
      } catch (error) {
        const failure = storeFailure(error, "cannot write the audit log");
        if (failure.code === "store_failed") this.#failure = failure;
        throw failure;
      }
    }
  }

  async #append(): Promise<void> {
    await this.#chain.open(); // events of meanwhile join the group
    const count = Math.min(this.#waiting.length, GROUP_EVENTS_MAX);
    const events = this.#waiting.slice(0, count);
    const lost = this.#lost;
    if (lost > 0 && count === this.#waiting.length)
      events.push({ kind: "events.lost", count: lost, wallMs: this.#options.clock.wallMs() });
    await this.#chain.append(events);
    this.#waiting.splice(0, count);
    if (events.length > count) this.#lost -= lost;
  }
}

/** Waits for the lock of the files: for five seconds, and for half a second once the log closes. */
class PatientLock {
  readonly #lock: AuditLock;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor(lock: AuditLock, clock: Clock) {
    this.#lock = lock;
    this.#clock = clock;
  }

  /** Rejects with `conflict` when another process keeps the lock. */
  async during(work: () => Promise<void>): Promise<void> {
    const { signal } = this.#closing;
    const [triesMax, options] = signal.aborted ? [LOCK_TRIES_AT_CLOSE, {}] : [LOCK_TRIES_MAX, { signal }];
    for (let tries = 0; !this.#lock.tryTake(); tries += 1) {
      if (tries >= triesMax) throw lockedError();
      await this.#clock.sleep(LOCK_RETRY_MS, options);
    }
    try {
      await work();
    } finally {
      this.#lock.release();
    }
  }

  /** The log closes: what waits now rejects, and what comes waits less. */
  hurry(): void {
    this.#closing.abort(lockedError());
  }

  close(): void {
    this.#lock.close();
  }
}

function lockedError(): PerigeeError {
  return new PerigeeError("conflict", "another process keeps the audit log locked");
}

/** Failed logins since the last line about them: none -> counted, with a timer -> taken. */
export class FailedLogins {
  #count = 0;
  #timer: Timer | undefined;

  /** `due` is called when it is time to write what was counted. */
  add(clock: Clock, due: () => void): void {
    this.#count += 1;
    this.#timer ??= clock.timer(COUNT_MS, due, { keepsAlive: false });
  }

  take(): number {
    const count = this.#count;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#count = 0;
    return count;
  }
}

/** SQLite's own lock, as in `data_dir.ts`: the system frees it with the process. */
async function systemLock(dataDir: string): Promise<AuditLock> {
  const database = openPrivately(await loadSqlite(), join(dataDir, "audit.lock"));
  return {
    tryTake: () => {
      try {
        database.exec("BEGIN EXCLUSIVE");
        return true;
      } catch (error) {
        if (isBusy(error)) return false;
        throw error;
      }
    },
    release: () => database.exec("ROLLBACK"),
    close: () => database.close(),
  };
}
