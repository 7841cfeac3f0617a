/**
 * A cap that runs share, as it is named in calls and in the configuration; see `shared_caps.ts`.
 */

/** A named cap, as an option of runs. */
export interface CapTerms {
  /** Runs of the same name share it. */
  readonly name: string;
  /** What providers may bill for all of them, what is in doubt included. */
  readonly usd: number;
}
