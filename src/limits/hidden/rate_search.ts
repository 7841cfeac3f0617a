/**
 * The search for a rate (hidden_rate.ts): the rate rises by 15 % a second until a refusal.
 *
 *   off --too few requests, or two raises without a refusal--> searching --a window is found, or enough requests--> off
 *   off, searching --refusals of 10 s and more that no window explains--> trying --what ends it is explained--> off
 *   trying --its end is not explained either, at most 3 times--> trying
 */

const TRIALS_MAX = 3;

/** One for each lane. Times are monotonic. */
export class RateSearch {
  #state: "off" | "searching" | "trying" = "off";
  #trials = 0;
  #openMs = 0;

  get isOn(): boolean {
    return this.#state !== "off";
  }

  /** Whether refusals of 10 s and more began it. */
  get isTrying(): boolean {
    return this.#state === "trying";
  }

  /** Whether a trial may follow the one that ends. */
  get hasTrials(): boolean {
    return this.#trials < TRIALS_MAX;
  }

  /** A fixed window that explains the refusals before the trial began after this time. */
  get openMs(): number {
    return this.#openMs;
  }

  /** Starts a search unless one is running. */
  begin(): void {
    if (this.#state === "off") this.#state = "searching";
  }

  /** Tests whether a window explains the refusals, the last of which was at `openMs`. */
  try(openMs: number): void {
    this.#state = "trying";
    this.#trials += 1;
    this.#openMs = openMs;
  }

  end(): void {
    this.#state = "off";
  }

  /** Returns a function that restores the present state. */
  keep(): () => void {
    const [state, trials, openMs] = [this.#state, this.#trials, this.#openMs];
    return () => {
      [this.#state, this.#trials, this.#openMs] = [state, trials, openMs];
    };
  }
}
