/**
 * Liveness: whether the rest of a run will ever continue. While a run is open a coarse timer checks it.
 *
 *   moving     something is in flight, a lane's timer or a retry's delay is armed, a commit or a shard is under way, a disk
 *              or money that other processes hold is waited for, or nothing waits (its reader waits for more input)
 *   quiet      items wait and nothing of that is so -> checked again
 *   standing   quiet twice in a row, and nothing has changed in between: nothing will ever wake it
 *
 * A run must never stall: the code that makes an item wait knows what wakes it. If a run stalls nevertheless, it fails
 * with `internal_error`, which names what waits for what, instead of waiting for ever. Nothing recorded is lost.
 */
import type { Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { EngineCore } from "../core.ts";
import type { RunState } from "../items/run_state.ts";

/** A stalled run fails after two checks. */
const LOOK_MS = 30_000;

/** What sends and records the items of a run. */
type LiveCore = Pick<EngineCore, "storage" | "recording" | "sending">;

/** Of one run; close it when the run is over. */
export class Liveness {
  readonly #core: LiveCore;
  readonly #state: RunState;
  #timer: Timer;
  /** Its state at the last check, if it was quiet then. */
  #quiet: string | undefined;

  constructor(core: LiveCore, state: RunState) {
    this.#core = core;
    this.#state = state;
    this.#timer = this.#later();
  }

  close(): void {
    this.#timer.cancel();
  }

  #later(): Timer {
    return this.#core.storage.clock.timer(LOOK_MS, () => this.#look());
  }

  #look(): void {
    const before = this.#quiet;
    const waits = this.#waits();
    this.#quiet = waits === undefined ? undefined : standOf(this.#state);
    this.#timer = this.#later();
    if (waits !== undefined && this.#quiet === before) this.#state.fail(standing(this.#state, waits));
  }

  /** Where its open items wait, as text, if nothing continues with them by itself; otherwise undefined. */
  #standstill(): readonly string[] | undefined {
    const { storage, recording, sending } = this.#core;
    if (recording.committer.isBusy || storage.room.lackingSinceMs !== undefined) return undefined;
    if (this.#state.settings.budget.isLacking) return undefined; // it is drawn again and again
    return sending.lanes.standstill(this.#state);
  }

  /** What waits for what, as text; undefined while something continues by itself, or nothing is left. */
  #waits(): readonly string[] | undefined {
    const { isOpen, items } = this.#state;
    const { inFlight, waitingItems, claimed } = items;
    const isWaiting = claimed.size > 0 || (isOpen && waitingItems > 0);
    return isWaiting && inFlight === 0 ? this.#standstill() : undefined;
  }
}

function standOf({ items, linesRead, phase }: RunState): string {
  const { done, requestsSent, waitingItems, claimed } = items;
  return [done.size, requestsSent, waitingItems, claimed.size, linesRead, phase].join();
}

function standing({ items, phase }: RunState, waits: readonly string[]): PerigeeError {
  const { waitingItems, claimed } = items;
  const where = waits.length === 0 ? "no lane holds them" : waits.join("; ");
  return new PerigeeError(
    "internal_error",
    `the run has stalled: ${waitingItems} items wait to be sent and ${claimed.size} to end (${phase}), and nothing is ` +
      `scheduled that would continue with them: ${where}. This is a fault of perigee, please report it. Nothing answered is lost: ` +
      "run the same command again to continue",
  );
}
