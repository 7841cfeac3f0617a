/**
 * Uploads and downloads under way: so many for each key; one that makes no progress is ended.
 *
 *   waiting (for the other side) -> moved -> waiting ... -> over
 *      \-> stalled, when nothing moves for the idle time: the connection is closed
 */
import type { Clock, Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";

/** Of one key and one direction at a time. */
const TRANSFERS_MAX = 20;
/** Without any progress of the other side. */
const STALL_MS = 60_000;

/** Of a service: both interfaces, and all that is read as a file, count together. */
export interface ServiceTransfers {
  readonly uploads: Transfers;
  readonly downloads: Transfers;
  /** Receives why an answer broke off whose status was sent before: nothing else says it. */
  readonly onBroken: (error: unknown, requestId: string) => void;
}

export function createTransfers(onBroken: ServiceTransfers["onBroken"] = () => undefined): ServiceTransfers {
  return { uploads: new Transfers("uploads"), downloads: new Transfers("downloads"), onBroken };
}

/** Counts what is under way for each key. */
export class Transfers {
  readonly #what: string;
  readonly #max: number;
  readonly #counts = new Map<string, number>();

  constructor(what: "uploads" | "downloads", max: number = TRANSFERS_MAX) {
    this.#what = what;
    this.#max = max;
  }

  /** Returns how to say that it is over, which may be said twice. Throws `too_many`. */
  begin(keyId: string): () => void {
    const count = this.#counts.get(keyId) ?? 0;
    if (count >= this.#max)
      throw new PerigeeError("too_many", `at most ${this.#max} ${this.#what} at a time for one key`, {
        details: { retryAfterSeconds: 5 },
      });
    this.#counts.set(keyId, count + 1);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      const others = (this.#counts.get(keyId) ?? 1) - 1;
      if (others > 0) this.#counts.set(keyId, others);
      else this.#counts.delete(keyId);
    };
  }
}

/** Notices when the other side of one transfer has been silent for too long. */
export class StallWatch {
  readonly #clock: Pick<Clock, "timer">;
  readonly #onStall: () => void;
  readonly #stallMs: number;
  #timer: Timer | undefined;

  constructor(clock: Pick<Clock, "timer">, onStall: () => void, stallMs: number = STALL_MS) {
    this.#clock = clock;
    this.#onStall = onStall;
    this.#stallMs = stallMs;
  }

  /** The other side is to move now. */
  waiting(): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.timer(this.#stallMs, this.#onStall, { keepsAlive: false });
  }

  /** It has, or is no longer waited for. */
  moved(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
