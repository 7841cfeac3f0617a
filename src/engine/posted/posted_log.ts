/**
 * Writes records of posted items to the work log: stages them at once, and calls back when they are durable.
 *
 *   staged -> durable -> called back
 *   staged -> refused, the disk is full -> waits, and all later records wait -> staged again, in order
 *   staged -> refused with the acceptance of its task -> ends
 *   any    -> failed                      the store failed, or space did not return in time: calls back no more
 *
 * While anything waits for disk space the engine admits nothing (`disk_space.ts`).
 */
import type { Clock, Timer } from "../../clock.ts";
import { hasCode, type PerigeeError } from "../../errors.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { type DiskSpace, type Lack, SPACE_CHECK_MS } from "../journal/disk_space.ts";
import { asFailure } from "../journal/file_errors.ts";
import type { PacedCalls } from "../journal/paced_calls.ts";

/** Stages something and returns the promise of its commit. */
export type StageRecord = (log: WorkLog) => Promise<void>;

interface Waiting {
  readonly stage: StageRecord;
  readonly whenDurable: (() => void) | undefined;
  readonly endsWith: (() => boolean) | undefined;
}

interface PostedCommit {
  readonly sinceMs: number;
  readonly durable: Promise<void>;
  readonly records: Waiting[];
}

export interface PostedLogOptions {
  readonly log: WorkLog;
  readonly clock: Clock;
  readonly room: DiskSpace;
  /** See `paced_calls.ts`. */
  readonly calls: PacedCalls;
  /** Called after each commit with its duration: since then the store may use a reserve. */
  readonly onCommitted: (durationMs: number) => void;
  /** Called once; nothing is recorded afterwards. */
  readonly onFailure: (error: PerigeeError) => void;
}

/** One for an engine. Close it before its log. */
export class PostedLog {
  readonly #options: PostedLogOptions;
  #last: PostedCommit | undefined;
  /** Commits that are not durable yet. */
  #underWay = 0;
  #waiting: Waiting[] = [];
  #lack: Lack | undefined;
  #timer: Timer | undefined;
  #failure: PerigeeError | undefined;
  #whenSettled: (() => void)[] = [];

  constructor(options: PostedLogOptions) {
    this.#options = options;
  }

  /** The log with what is durable. */
  get log(): WorkLog {
    return this.#options.log;
  }

  get failure(): PerigeeError | undefined {
    return this.#failure;
  }

  /**
   * Stages a record, now or when there is space; records staged before it take effect before it. `endsWith`: called when its commit was
   * refused; returns whether it is not staged again, because its task was refused as well.
   */
  write(stage: StageRecord, whenDurable?: () => void, endsWith?: () => boolean): void {
    const record = { stage, whenDurable, endsWith };
    if (this.#failure !== undefined) return;
    if (this.#waiting.length > 0) this.#waiting.push(record);
    else this.#stage(record);
  }

  /** Resolves when everything staged is durable, or nothing more will be. */
  settled(): Promise<void> {
    if (this.#isSettled) return Promise.resolve();
    return new Promise((resolve) => this.#whenSettled.push(resolve));
  }

  /** Ends waits for space. May be called twice. */
  close(): void {
    this.#timer?.cancel();
    this.#waiting = [];
    this.#lack?.end();
    this.#lack = undefined;
    this.#tellSettled();
  }

  #stage(record: Waiting): void {
    let durable: Promise<void>;
    try {
      durable = record.stage(this.#options.log);
    } catch (error) {
      this.#fail(error);
      return;
    }
    if (this.#last?.durable === durable) {
      this.#last.records.push(record);
      return;
    }
    const commit: PostedCommit = { sinceMs: this.#options.clock.nowMs(), durable, records: [record] };
    this.#last = commit;
    this.#underWay += 1;
    durable.then(
      () => this.#durable(commit),
      (error: unknown) => this.#refused(commit, error),
    );
  }

  #durable({ records, sinceMs }: PostedCommit): void {
    this.#underWay -= 1;
    this.#options.onCommitted(this.#options.clock.nowMs() - sinceMs);
    if (this.#waiting.length === 0 && this.#lack !== undefined) {
      this.#lack.end();
      this.#lack = undefined;
    }
    const calls = records.flatMap(({ whenDurable }) => whenDurable ?? []);
    if (calls.length > 0) this.#options.calls.run(calls);
    this.#tellSettled();
  }

  #refused({ records }: PostedCommit, error: unknown): void {
    this.#underWay -= 1;
    const isFull = hasCode(error, "disk_full");
    if (!isFull && !hasCode(error, "conflict")) {
      this.#fail(error);
      return;
    }
    const left = records.filter(({ endsWith }) => endsWith?.() !== true);
    this.#waiting.unshift(...left);
    if (left.length === 0) {
      this.#tellSettled(); // the caller of the acceptance says that there is no space
      return;
    }
    if (!isFull) {
      this.#again(); // a task of the same commit was refused because of its id
      return;
    }
    try {
      this.#lack ??= this.#options.room.lack();
      this.#lack.check(error);
      this.#timer?.cancel();
      this.#timer = this.#options.clock.timer(SPACE_CHECK_MS, () => this.#again());
    } catch (cause) {
      this.#fail(cause);
    }
  }

  #again(): void {
    for (const record of this.#waiting.splice(0)) this.#stage(record);
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined || hasCode(error, "closed")) return;
    this.#failure = asFailure(error);
    this.#options.onFailure(this.#failure);
    this.#tellSettled();
  }

  get #isSettled(): boolean {
    return this.#failure !== undefined || (this.#underWay === 0 && this.#waiting.length === 0);
  }

  #tellSettled(): void {
    if (!this.#isSettled) return;
    for (const resolve of this.#whenSettled.splice(0)) resolve();
  }
}
