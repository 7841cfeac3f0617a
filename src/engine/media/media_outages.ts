/**
 * Files that cannot be read for now, because of their disk or store: how long already, and when that is too long.
 *
 *   read --a fault of its place--> failing: tried again, and no try counts against the item
 *     ^          | read as a whole       |--longer than `waitMs`--> given up: the fault is the item's
 *     +----------+
 *
 * A try that fails takes 2 s. So the items that wait for their next try are a few thousand at most, however long
 * their input is: those that wait have their turn before new ones.
 *
 * Limit: 65,536 files; those beyond are given up at once. A notice a minute.
 */
import type { Clock } from "../../clock.ts";

const WAIT_MS = 1_800_000;
const FAILURE_MS = 2_000;
const NOTICE_MS = 60_000;
const FILES_MAX = 65_536;

export interface MediaOutagesOptions {
  readonly clock: Clock;
  /** How long a file is tried; default 30 min. */
  readonly waitMs: number | undefined;
  readonly notice: (message: string) => void;
}

/** One for an engine. */
export class MediaOutages {
  readonly #options: MediaOutagesOptions;
  /** When each file failed first, by the name that lines have for it. */
  readonly #sinceMs = new Map<string, number>();
  #noticedMs = Number.NEGATIVE_INFINITY;

  constructor(options: MediaOutagesOptions) {
    this.#options = options;
  }

  /** It was read as a whole. */
  read(name: string): void {
    if (this.#sinceMs.size > 0) this.#sinceMs.delete(name);
  }

  /** It could not be read; `reason` is for the operator. Returns whether it is to be tried again. */
  failed(name: string, reason: string): boolean {
    const { clock, waitMs = WAIT_MS } = this.#options;
    const nowMs = clock.nowMs();
    const sinceMs = this.#sinceMs.get(name) ?? nowMs;
    if (nowMs - sinceMs >= waitMs || (this.#sinceMs.size >= FILES_MAX && !this.#sinceMs.has(name))) {
      this.#sinceMs.delete(name);
      return false;
    }
    this.#sinceMs.set(name, sinceMs);
    this.#notice(nowMs, `${reason}; lines that name files there are tried again until they can be read`);
    return true;
  }

  /** What a try that failed takes, at most `mostMs`. Rejects with the signal's reason. */
  pause(mostMs: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#options.clock.sleep(Math.max(0, Math.min(FAILURE_MS, mostMs)), { signal });
  }

  #notice(nowMs: number, message: string): void {
    if (nowMs - this.#noticedMs < NOTICE_MS) return;
    this.#noticedMs = nowMs;
    this.#options.notice(message);
  }
}
