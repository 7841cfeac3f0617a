/**
 * Space on the disks of an engine: a write that finds no space waits here, and as long as any waits nothing new is sent.
 *
 *   plenty -> lacking (somebody finds no room) -> plenty (nobody lacks it any more)
 *   lacking -> given up                           it lasted for `waitMs`: `disk_full` for the one who waited
 *
 * A full disk is tried again every second.
 */
import type { Clock } from "../../clock.ts";
import { errorCodeOf, isNoSpace } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";

/** How often a full disk is tried again. */
export const SPACE_CHECK_MS = 1_000;

/** How long a call waits for room whose caller waits for the answer. */
const CALL_WAIT_MS = 60_000;

export interface DiskSpaceOptions {
  readonly clock: Clock;
  /** How long work that was accepted waits for room; Infinity: for ever. */
  readonly waitMs: number;
  /** The folder of the store, whose disk is full where nobody names another path. */
  readonly dataDir: string;
  /** Called with false when room ran out and true when it is back for all. */
  readonly onRoom: (hasRoom: boolean) => void;
}

export interface LackOptions {
  readonly waitMs?: number;
  readonly path?: string;
}

/** One for an engine. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  readonly #lacks = new Set<Lack>();
  /** Who does not wait for room. */
  readonly #impatient = new Set<() => void>();
  #lackingSinceMs: number | undefined;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
  }

  get dataDir(): string {
    return this.#options.dataDir;
  }

  /** Monotonic: since when somebody has no room; undefined while all have. */
  get lackingSinceMs(): number | undefined {
    return this.#lackingSinceMs;
  }

  /** Why nothing can be recorded at the moment; undefined when it can. */
  get waitText(): string | undefined {
    return this.#lackingSinceMs === undefined ? undefined : "a full disk";
  }

  /** A path on the full disk: what found no room first. */
  get fullPath(): string {
    const [first] = this.#lacks;
    return first?.path ?? this.#options.dataDir;
  }

  /** Somebody has no room from now on, for a file at `path`; end it once, when they have. */
  lack({ waitMs = this.#options.waitMs, path = this.#options.dataDir }: LackOptions = {}): Lack {
    const { clock } = this.#options;
    const lack = new Lack({ clock, waitMs, path }, () => {
      if (this.#lacks.delete(lack) && this.#lacks.size === 0) this.#change(undefined);
    });
    this.#lacks.add(lack);
    if (this.#lacks.size === 1) this.#change(clock.nowMs());
    return lack;
  }

  /**
   * Writes again and again for as long as there is no room for it, so `write` must be one that may be repeated after
   * `ENOSPC` or `disk_full`. Rejects with `disk_full` when that lasted too long, with `signal.reason` when it is passed
   * up, and with any other error of `write`. `path`: of what is written, if it is not in the data folder.
   */
  async waitFor<T>(
    write: () => Promise<T>,
    { signal, ...options }: LackOptions & { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    let lack: Lack | undefined;
    try {
      for (;;) {
        try {
          return await write();
        } catch (error) {
          if (!isFull(error)) throw error;
          lack ??= this.lack(options);
          lack.check(error);
        }
        await this.#options.clock.sleep(SPACE_CHECK_MS, { signal });
      }
    } finally {
      lack?.end();
    }
  }

  /** As `waitFor`, for no longer than a caller waits for an answer. */
  answerFor<T>(
    write: () => Promise<T>,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    return this.waitFor(write, { ...options, waitMs: Math.min(CALL_WAIT_MS, this.#options.waitMs) });
  }

  /** Writes only while all have space, and once: `disk_full` means that nothing of it remains. Nothing new is sent until the next check then. */
  async once<T>(write: () => Promise<T>): Promise<T> {
    if (this.#lackingSinceMs !== undefined) throw noSpace();
    try {
      return await write();
    } catch (error) {
      if (!isFull(error)) throw error;
      const lack = this.lack();
      this.#options.clock.timer(SPACE_CHECK_MS, () => lack.end(), { keepsAlive: false });
      throw noSpace(error);
    }
  }

  /** Throws `disk_full` as soon as a write has no space; `work`, once begun, continues nevertheless. */
  async orRefuse<T>(work: () => Promise<T>): Promise<T> {
    let refuse = (): void => undefined;
    const refused = new Promise<never>((_resolve, reject) => {
      refuse = () => reject(noSpace());
    });
    if (this.#lackingSinceMs !== undefined) refuse();
    this.#impatient.add(refuse);
    try {
      return await Promise.race([refused, ...(this.#lackingSinceMs === undefined ? [work()] : [])]);
    } finally {
      this.#impatient.delete(refuse);
    }
  }

  #change(lackingSinceMs: number | undefined): void {
    this.#lackingSinceMs = lackingSinceMs;
    if (lackingSinceMs !== undefined) for (const refuse of this.#impatient) refuse();
    this.#options.onRoom(lackingSinceMs === undefined);
  }
}

/** One who has no room. */
export class Lack {
  readonly #options: Pick<DiskSpaceOptions, "clock" | "waitMs">;
  readonly #sinceMs: number;
  readonly #end: () => void;
  /** What found no room last. */
  path: string;

  constructor(
    options: Pick<DiskSpaceOptions, "clock" | "waitMs"> & { readonly path: string },
    end: () => void,
  ) {
    this.#options = options;
    this.path = options.path;
    this.#sinceMs = options.clock.nowMs();
    this.#end = end;
  }

  /** Throws `disk_full` when it was waited for long enough; `cause` is the last refusal of the disk. */
  check(cause: unknown): void {
    const error = this.lasting(cause);
    if (error !== undefined) throw error;
  }

  /** The same as a value; undefined while it may be waited for. */
  lasting(cause: unknown): PerigeeError | undefined {
    const { clock, waitMs } = this.#options;
    if (clock.nowMs() - this.#sinceMs < waitMs) return undefined;
    const seconds = Math.round(waitMs / 1_000);
    return new PerigeeError(
      "disk_full",
      `no space left on the disk of ${this.path} for ${seconds} s; free some and run the same command again`,
      { cause },
    );
  }

  end(): void {
    this.#end();
  }
}

function isFull(error: unknown): boolean {
  const code = errorCodeOf(error);
  return isNoSpace(code) || code === "disk_full";
}

function noSpace(cause?: unknown): PerigeeError {
  return new PerigeeError("disk_full", "no space left on the disk", { cause });
}
