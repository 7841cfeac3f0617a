/**
 * How an attempt of a satellite fails, in the classes of `dispatch/retry.ts`.
 */

/**
 * `not_sent`: nothing has happened there. `refused`: the other side asked to retry later. Both are repeated until the deadline.
 * `ambiguous`: it may have happened; repeated where the satellite is repeatable, up to its `attemptsMax`. `permanent`: never repeated.
 */
export type SatelliteFailure = "not_sent" | "refused" | "ambiguous" | "permanent";

/** All of them. */
export const SATELLITE_FAILURES: readonly SatelliteFailure[] = [
  "not_sent",
  "refused",
  "ambiguous",
  "permanent",
];

/** Thrown by `run`. The message is shown to the user: no secret, nothing of other projects. */
export class SatelliteError extends Error {
  readonly failure: SatelliteFailure;
  /** For programs, such as `smtp_550`; lower case, digits and underscores. */
  readonly code: string;
  /** Not before this time has passed. */
  readonly retryAfterMs: number | undefined;

  constructor(
    failure: SatelliteFailure,
    code: string,
    message: string,
    options: { readonly cause?: unknown; readonly retryAfterMs?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "SatelliteError";
    this.failure = failure;
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** By its shape, too: a satellite may bring its own copy of the package. */
export function isSatelliteError(error: unknown): error is SatelliteError {
  if (error instanceof SatelliteError) return true;
  if (!(error instanceof Error) || error.name !== "SatelliteError") return false;
  const { failure, code } = error as Partial<SatelliteError> & Error; // checked here
  return SATELLITE_FAILURES.some((one) => one === failure) && typeof code === "string";
}
