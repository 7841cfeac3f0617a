/**
 * The watch over one run: its deadline, what holds it, its engine's failure, and the waits that end with them.
 *
 *   at work --nothing but held items is left--> held --something is answered--> at work
 *   held --only the caller can change it; a key was never accepted--> given up at once
 *   held --for `waitMs` since the last line or the last answer of its lanes; 2 min if only an account without money holds--> given up
 *
 * With `finish`, a run that is given up reads the rest of its stream before its items end. It is open meanwhile: a stop,
 * a cancel and the deadline end the reading, and so does an answer.
 */
import type { Timer } from "../../clock.ts";
import type { EngineCore } from "../core.ts";
import { type Hold, type HoldReason, isCallers, NO_HOLDS, type RunHolds } from "../items/holds.ts";
import { DRAIN_MS } from "../items/item_owner.ts";
import type { RunState } from "../items/run_state.ts";

/** What is watched beside the run. */
type WatchedCore = Pick<EngineCore, "storage" | "recording" | "sending">;

const WAIT_MS = 1_800_000;
const QUOTA_WAIT_MS = 120_000;

export interface WatchOptions {
  /** How long what passes by itself is waited for; undefined: 30 min, 2 min for an account without money or quota. */
  readonly waitMs: number | undefined;
  /** What holds all of it, where its source replaces a lost one. */
  readonly standIn: Hold | undefined;
  /** Whether held items end after the wait. It then waits for the end of a stream, whose lines would be lost otherwise. */
  readonly isFinishing: boolean;
  /**
   * Reads what the source still has, for as long as that is wanted; undefined when nothing is left to read. Called, with
   * `isFinishing`, before `onHeld`: lines that were not read when the rest ends would be lost.
   */
  readonly readRest: (isWanted: () => boolean) => Promise<void> | undefined;
  /** Called once for each hold that was waited for long enough. */
  readonly onHeld: (reason: HoldReason) => void;
  /** Called with what holds items, after each check. */
  readonly onHolds: (holds: readonly Hold[]) => void;
}

/** Close it when the run is over. */
export class Watch {
  readonly #core: WatchedCore;
  readonly #state: RunState;
  readonly #options: WatchOptions;
  readonly #timers: Timer[] = [];
  readonly #unsubscribe: readonly (() => void)[];
  #holdTimer: Timer | undefined;
  #isGivenUp = false;
  /** Whether the rest of the source is being read, or could not be. */
  #isReadingRest = false;
  /** Lines that had ended at the last check. */
  #settled: number;
  /** When that number last changed; monotonic. */
  #settledAtMs: number;
  /** Why the engine cannot go on: nothing is recorded any more. */
  #failure: Error | undefined;
  #onEngineFailure: (error: Error) => void = () => undefined;
  #waits: {
    readonly isOver: () => boolean;
    /** Whether it continues although the run has failed, because its engine still records. */
    readonly outlivesRun: boolean;
    readonly resolve: () => void;
    readonly reject: (error: Error) => void;
  }[] = [];
  /** Resolves when the run is no longer open; rejects when it or the engine fails. */
  readonly left: Promise<void>;
  /** Never resolves; rejects when the run or the engine fails. */
  readonly #failed: Promise<void>;

  constructor(core: WatchedCore, state: RunState, options: WatchOptions) {
    this.#core = core;
    this.#state = state;
    this.#options = options;
    this.#failure = core.recording.committer.failure;
    this.#settled = state.settings.totals.settled;
    this.#settledAtMs = state.settings.startedMs;
    state.watch(() => this.#look());
    this.#unsubscribe = [
      core.sending.holds.onChange(() => this.#look()),
      core.recording.failures.add((error) => {
        this.#failure = error;
        this.#onEngineFailure(error);
        this.#look();
      }),
    ];
    const { deadlineMs } = state.settings;
    if (Number.isFinite(deadlineMs))
      if (deadlineMs <= core.storage.clock.nowMs()) this.#expire();
      else
        this.#timers.push(
          core.storage.clock.timer(deadlineMs - core.storage.clock.nowMs(), () => this.#expire()),
        );
    this.left = this.until(() => !state.isOpen);
    this.left.catch(() => undefined); // a caller that races it gets the error
    this.#failed = this.#wait(() => false, false);
    this.#failed.catch(() => undefined);
  }

  /** Resolves once the claim holds; rejects when the run or the engine fails. */
  until(isOver: () => boolean): Promise<void> {
    return this.#wait(isOver, false);
  }

  /** Settles as `work` does; rejects when the run or the engine fails first: what waits for the disk would wait for ever. */
  during(work: Promise<void>): Promise<void> {
    return Promise.race([work, this.#failed]);
  }

  /** As `during`, but a run that fails by itself waits, too: its records are written as long as the engine works. */
  recorded(work: Promise<void>): Promise<void> {
    const failed = new Promise<never>((_, reject) => {
      const { failure } = this.#core.recording.committer;
      if (failure !== undefined) reject(failure);
      else this.#onEngineFailure = reject;
    });
    return Promise.race([work, failed]);
  }

  /** Resolves when nothing is in flight, or after the drain time; rejects when the engine fails. */
  async drained(): Promise<void> {
    const { clock } = this.#core.storage;
    const started = clock.nowMs();
    this.#timers.push(clock.timer(DRAIN_MS, () => this.#look()));
    await this.#wait(() => this.#state.items.claimed.size === 0 || clock.nowMs() - started >= DRAIN_MS, true);
  }

  close(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#holdTimer?.cancel();
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
  }

  #wait(isOver: () => boolean, outlivesRun: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waits.push({ isOver, outlivesRun, resolve, reject });
      this.#look();
    });
  }

  #expire(): void {
    if (!this.#state.isOpen) return;
    this.#state.holds = this.#holds().holds;
    this.#state.phase = "expired";
    this.#core.sending.lanes.drop(this.#state);
    this.#state.changed();
  }

  #look(): void {
    this.#lookForHold();
    const waits = this.#waits;
    this.#waits = [];
    for (const wait of waits) {
      const failure = this.#failure ?? (wait.outlivesRun ? undefined : this.#state.failure);
      if (failure !== undefined) wait.reject(failure);
      else if (wait.isOver()) wait.resolve();
      else this.#waits.push(wait);
    }
  }

  /** A run of which nothing but held items is left waits for them, but not for ever. */
  #lookForHold(): void {
    const state = this.#state;
    this.#lookForProgress();
    const found = this.#holds();
    if (state.isOpen) state.holds = found.holds; // lines that end by a deadline say what held them
    this.#options.onHolds(found.holds);
    state.pausedBy = found.isAll ? pausedByText(found.holds) : undefined;
    this.#holdTimer?.cancel();
    this.#holdTimer = undefined;
    if (!found.isAll) {
      this.#isGivenUp = false;
      return;
    }
    if (this.#isGivenUp) return;
    const { clock } = this.#core.storage;
    const leftMs = Math.max(found.sinceMs, this.#settledAtMs) + this.#waitMs(found.holds) - clock.nowMs();
    if (leftMs <= 0) {
      if (state.items.inFlight === 0) this.#giveUp(found.holds); // else a probe is out, which may be answered
    } else if (Number.isFinite(leftMs)) {
      this.#holdTimer = clock.timer(leftMs, () => this.#lookForHold());
    }
  }

  /** Notes when lines end: the wait for held items counts from the last one. */
  #lookForProgress(): void {
    const { settled } = this.#state.settings.totals;
    if (settled === this.#settled) return;
    this.#settled = settled;
    this.#settledAtMs = this.#core.storage.clock.nowMs();
  }

  #giveUp(holds: readonly Hold[]): void {
    this.#isGivenUp = true;
    if (this.#isReadingRest) return; // it looks again when it is over
    const { isFinishing, readRest, onHeld } = this.#options;
    const isWanted = (): boolean => this.#isGivenUp && this.#state.isOpen;
    const reading = isFinishing ? readRest(isWanted) : undefined;
    if (reading === undefined) onHeld(reasonOf(holds));
    else this.#lookAfter(reading);
  }

  /** Looks again once the rest was read: its items may have been answered meanwhile. */
  #lookAfter(reading: Promise<void>): void {
    this.#isReadingRest = true;
    reading.then(
      () => {
        this.#isReadingRest = false;
        this.#isGivenUp = false;
        this.#look();
      },
      (error: Error) => {
        if (this.#state.isOpen) this.#state.fail(error);
      },
    );
  }

  #waitMs(holds: readonly Hold[]): number {
    const { waitMs, isFinishing } = this.#options;
    const { isReading, isToReadAgain } = this.#state;
    if (isFinishing && isReading) return Number.POSITIVE_INFINITY;
    if ((isReading || isToReadAgain) && holds.every(({ reason }) => isCallers(reason)))
      return Number.POSITIVE_INFINITY; // what is to be read may be sent
    return heldWaitMs(holds, waitMs);
  }

  #holds(): RunHolds {
    const state = this.#state;
    const { standIn } = this.#options;
    if (standIn !== undefined) return { ...NO_HOLDS, holds: [standIn] };
    return state.isOpen && !state.items.isIdle ? this.#core.sending.holds.of(state) : NO_HOLDS;
  }
}

/** For how long what holds all items is waited for; `waitMs` as in `WatchOptions`. */
export function heldWaitMs(holds: readonly Hold[], waitMs: number | undefined): number {
  const isFinal = holds.every(
    ({ reason, was_accepted }) => isCallers(reason) || (reason === "authentication" && !was_accepted),
  );
  if (isFinal) return 0;
  const isQuota = holds.every(({ reason }) => reason === "quota" || isCallers(reason));
  return waitMs ?? (isQuota ? QUOTA_WAIT_MS : WAIT_MS);
}

/** Of several, the one that says most about what to do: what only the caller can change, then keys and money. */
function reasonOf(holds: readonly Hold[]): HoldReason {
  const rank = ({ reason }: Hold): number =>
    isCallers(reason) ? 0 : reason === "authentication" ? 1 : reason === "quota" ? 2 : 3;
  const first = [...holds].sort((left, right) => rank(left) - rank(right))[0];
  return first?.reason ?? "outage";
}

/** What holds everything, for people. */
export function pausedByText(holds: readonly Hold[]): string {
  const texts = holds.map(({ provider, reason }) =>
    provider === undefined ? reason : `${provider} ${reason}`,
  );
  return [...new Set(texts)].join(", ");
}
