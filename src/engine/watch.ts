/**
 * The watch over one run: its deadline, its account stops, its engine's failure, and the waits that end with them.
 */
import type { Timer } from "../clock.ts";
import type { AccountStop } from "./lanes.ts";
import type { EngineParts } from "./parts.ts";
import type { AccountStopReason } from "./run_open.ts";
import type { RunState } from "./run_state.ts";

/** Close it when the run is over. */
export class Watch {
  readonly #parts: EngineParts;
  readonly #state: RunState;
  readonly #onAccountStop: (reason: AccountStopReason) => void;
  readonly #timers: Timer[] = [];
  readonly #unsubscribe: readonly (() => void)[];
  #pauseTimer: Timer | undefined;
  #isGivenUp = false;
  /** Why the engine cannot go on: nothing is recorded any more. */
  #failure: Error | undefined;
  #onEngineFailure: (error: Error) => void = () => undefined;
  #waits: {
    readonly isOver: () => boolean;
    /** Whether it goes on although the run has failed, because its engine still records. */
    readonly outlivesRun: boolean;
    readonly resolve: () => void;
    readonly reject: (error: Error) => void;
  }[] = [];
  /** Resolves when the run is no longer open; rejects when it or the engine fails. */
  readonly left: Promise<void>;
  /** Never resolves; rejects when the engine fails. */
  readonly #failed: Promise<void>;

  /** `onAccountStop` is called once for each pause that was waited for long enough. */
  constructor(parts: EngineParts, state: RunState, onAccountStop: (reason: AccountStopReason) => void) {
    this.#parts = parts;
    this.#state = state;
    this.#onAccountStop = onAccountStop;
    this.#failure = parts.recorder.failure;
    state.watch(() => this.#look());
    this.#unsubscribe = [
      parts.onAccountStop(() => this.#lookForPause()),
      parts.onFailure((error) => {
        this.#failure = error;
        this.#onEngineFailure(error);
        this.#look();
      }),
    ];
    const { deadlineMs } = state.settings;
    if (Number.isFinite(deadlineMs))
      this.#timers.push(parts.clock.timer(deadlineMs - parts.clock.nowMs(), () => this.#expire()));
    this.left = this.until(() => !state.isOpen);
    this.left.catch(() => undefined); // whoever races it is told
    this.#failed = this.#wait(() => false, true);
    this.#failed.catch(() => undefined);
  }

  /** Resolves once the claim holds; rejects when the run or the engine fails. */
  until(isOver: () => boolean): Promise<void> {
    return this.#wait(isOver, false);
  }

  /** Settles as `work` does; rejects when the engine fails first: what waits for the disk would wait for ever. */
  during(work: Promise<void>): Promise<void> {
    return Promise.race([work, this.#failed]);
  }

  /** As `during`, but a run that fails by itself waits, too: its records are written as long as the engine works. */
  recorded(work: Promise<void>): Promise<void> {
    const failed = new Promise<never>((_, reject) => {
      const { failure } = this.#parts.recorder;
      if (failure !== undefined) reject(failure);
      else this.#onEngineFailure = reject;
    });
    return Promise.race([work, failed]);
  }

  /** Resolves when nothing is in flight, or after the drain time; rejects when the engine fails. */
  async drained(): Promise<void> {
    const { clock, drainMs } = this.#parts;
    const started = clock.nowMs();
    this.#timers.push(clock.timer(drainMs, () => this.#look()));
    await this.#wait(() => this.#state.claimed.size === 0 || clock.nowMs() - started >= drainMs, true);
  }

  close(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#pauseTimer?.cancel();
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
    this.#state.phase = "expired";
    this.#parts.dropRun(this.#state);
    this.#state.changed();
  }

  #look(): void {
    this.#lookForPause();
    const waits = this.#waits;
    this.#waits = [];
    for (const wait of waits) {
      const failure = this.#failure ?? (wait.outlivesRun ? undefined : this.#state.failure);
      if (failure !== undefined) wait.reject(failure);
      else if (wait.isOver()) wait.resolve();
      else this.#waits.push(wait);
    }
  }

  /** A run that its accounts have stopped waits for a probe to succeed, but not for ever. */
  #lookForPause(): void {
    const state = this.#state;
    const stops = this.#accountStops();
    state.pausedBy =
      stops.length === 0 ? undefined : stops.map((one) => `${one.provider} ${one.reason}`).join(", ");
    if (stops.length === 0) {
      this.#pauseTimer?.cancel();
      this.#pauseTimer = undefined;
      this.#isGivenUp = false;
      return;
    }
    if (this.#isGivenUp) return;
    if (reasonOf(stops) === "authentication" && stops.every((one) => !one.hasAnswered)) this.#giveUp();
    else if (!Number.isFinite(state.settings.deadlineMs)) {
      this.#pauseTimer ??= this.#parts.clock.timer(this.#parts.pauseWaitMs, () => this.#giveUp());
    }
  }

  /** The pause has lasted; looks again, because a run under load is not looked at. */
  #giveUp(): void {
    this.#pauseTimer = undefined;
    const stops = this.#accountStops();
    if (stops.length === 0) return;
    this.#isGivenUp = true;
    this.#onAccountStop(reasonOf(stops));
  }

  #accountStops(): readonly AccountStop[] {
    const state = this.#state;
    return state.isOpen && !state.isIdle ? this.#parts.accountStops(state) : [];
  }
}

/** `authentication` when it is a matter of keys alone; what else there is, waiting may cure. */
function reasonOf(stops: readonly AccountStop[]): AccountStopReason {
  return stops.every((one) => one.reason === "authentication") ? "authentication" : "quota";
}
