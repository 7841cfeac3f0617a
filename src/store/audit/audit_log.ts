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
import type { Disk, DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { openPrivately } from "../folder/data_dir.ts";
import { loadSqlite } from "../sqlite_database.ts";
import { isBusy, storeFailure } from "../sqlite_failure.ts";
import { auditMonths, auditPath, cutTail, type Month, monthOf, removeOldAudit } from "./audit_files.ts";
import { type AuditEvent, auditLine, CHAIN_START, type ChainEnd, type TimedEvent } from "./audit_line.ts";

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

interface OpenFile {
  readonly file: DiskFile;
  readonly month: Month;
  sizeBytes: number;
}

export class AuditLog implements Audit {
  readonly #options: AuditOptions;
  readonly #lock: AuditLock;
  #waiting: TimedEvent[] = [];
  #lost = 0;
  #failedLogins = 0;
  #countTimer: Timer | undefined;
  #groupTimer: Timer | undefined;
  /** The last group; they are written one after another. */
  #written: Promise<void> = Promise.resolve();
  #open: OpenFile | undefined;
  #end: ChainEnd = CHAIN_START;
  #failure: unknown;
  #isClosed = false;
  readonly #closing = new AbortController();

  constructor(options: AuditOptions, lock: AuditLock) {
    this.#options = options;
    this.#lock = lock;
  }

  note(event: AuditEvent): void {
    if (event.kind !== "login.failed") {
      this.#push({ ...event, wallMs: this.#options.clock.wallMs() });
      return;
    }
    this.#failedLogins += 1;
    this.#countTimer ??= this.#options.clock.timer(COUNT_MS, () => this.#pushCount(), { keepsAlive: false });
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
    this.#closing.abort(lockedError());
    try {
      await this.flush();
    } finally {
      await this.#open?.file.close();
      this.#open = undefined;
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
    this.#countTimer?.cancel();
    this.#countTimer = undefined;
    const count = this.#failedLogins;
    this.#failedLogins = 0;
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
        await this.#underLock(() => this.#append());
      } catch (error) {
        const failure = storeFailure(error, "cannot write the audit log");
        if (failure.code === "store_failed") this.#failure = failure;
        throw failure;
      }
    }
  }

  async #append(): Promise<void> {
    const open = await this.#openNewest();
    const count = Math.min(this.#waiting.length, GROUP_EVENTS_MAX);
    const events = this.#waiting.slice(0, count);
    const lost = this.#lost;
    if (lost > 0 && count === this.#waiting.length)
      events.push({ kind: "events.lost", count: lost, wallMs: this.#options.clock.wallMs() });
    let end = this.#end;
    const texts = events.map((event) => {
      const line = auditLine(event, end);
      end = line.end;
      return `${line.text}\n`;
    });
    const bytes = Buffer.from(texts.join(""));
    await open.file.write(bytes, open.sizeBytes);
    await sync(open.file);
    open.sizeBytes += bytes.byteLength;
    this.#end = end;
    this.#waiting.splice(0, count);
    if (events.length > count) this.#lost -= lost;
  }

  /** The file of this month, or of a later one when there is one, at its end. */
  async #openNewest(): Promise<OpenFile> {
    const { dataDir, disk, clock } = this.#options;
    const now = monthOf(clock.wallMs());
    const known = this.#open;
    // What another process wrote, or this one left half written, makes it longer or shorter.
    if (known !== undefined && known.month >= now && (await known.file.sizeBytes()) === known.sizeBytes)
      return known;
    await known?.file.close();
    this.#open = undefined;
    await removeOldAudit(disk, dataDir, now);
    const last = (await auditMonths(disk, dataDir, now)).at(-1);
    if (last !== undefined && last < now) {
      const before = await disk.open(auditPath(dataDir, last), "write");
      this.#end = (await cutTail(before)).end;
      await before.close();
    }
    const month = Math.max(now, last ?? now);
    const file = await disk.open(auditPath(dataDir, month), "write");
    const { sizeBytes, end } = await cutTail(file);
    if (sizeBytes > 0 || last === undefined) this.#end = end;
    this.#open = { file, month, sizeBytes };
    return this.#open;
  }

  async #underLock(work: () => Promise<void>): Promise<void> {
    const { signal } = this.#closing;
    const [triesMax, options] = signal.aborted ? [LOCK_TRIES_AT_CLOSE, {}] : [LOCK_TRIES_MAX, { signal }];
    for (let tries = 0; !this.#lock.tryTake(); tries += 1) {
      if (tries >= triesMax) throw lockedError();
      await this.#options.clock.sleep(LOCK_RETRY_MS, options);
    }
    try {
      await work();
    } finally {
      this.#lock.release();
    }
  }
}

function lockedError(): PerigeeError {
  return new PerigeeError("conflict", "another process keeps the audit log locked");
}

/** A sync that failed is final, for any reason: a second one would succeed without having written. */
async function sync(file: DiskFile): Promise<void> {
  await file.sync().catch((cause: unknown) => {
    throw new PerigeeError("store_failed", "cannot sync the audit log", { cause });
  });
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
