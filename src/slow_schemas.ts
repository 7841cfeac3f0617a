/**
 * How much time schemas may take that take long: of one schema, and of all in a process, so that neither one whose checks stay just
 * below the limit of a single check nor many of them keep a process from its work.
 *
 *   a check above 100 ms is long: its time is taken from the allowance of its schema (4.5 s) and of the process (20 s)
 *   a schema without allowance      its answers are not checked, as if the check had run into its limit
 *   a process without allowance     a check may take 100 ms and a compilation 1 s; after a long one its schema waits a minute or more
 *
 * Both get back a second a minute, so that a schema is not blamed for ever for a moment in which the machine was busy. However many slow
 * schemas there are, they take 20 s, and then a second a minute and each 100 ms a minute; before, each took 5 s, or all of the time.
 */

/** What is given back of the time that passes. */
const GIVEN_BACK = 1 / 60;
const SCHEMA_MS = 4_500;
const PROCESS_MS = 20_000;
/** How long a schema is left alone at least while the process has no allowance. */
const PAUSE_MS = 60_000;
/** Checks take 0.5 ms. */
const LONG_MS = 100;
const CHECK_MS = 1_000;
const COMPILE_MS = 5_000;
const LATE_COMPILE_MS = 1_000;

/** Milliseconds that may be taken, some of which are given back as time passes. Times are monotonic. */
class Allowance {
  readonly #mostMs: number;
  #takenMs = 0;
  #atMs = 0;

  constructor(mostMs: number) {
    this.#mostMs = mostMs;
  }

  isSpent(nowMs: number): boolean {
    this.#giveBack(nowMs);
    return this.#takenMs >= this.#mostMs;
  }

  take(ms: number, nowMs: number): void {
    this.#giveBack(nowMs);
    this.#takenMs += ms; // also beyond what is allowed: that is given back first
  }

  #giveBack(nowMs: number): void {
    const backMs = Math.max(0, nowMs - this.#atMs) * GIVEN_BACK;
    this.#takenMs = Math.max(0, this.#takenMs - backMs);
    this.#atMs = Math.max(this.#atMs, nowMs);
  }
}

/** One for a process. */
export class SlowSchemas {
  readonly #all = new Allowance(PROCESS_MS);

  /** How long a compilation may take. */
  compileMs(nowMs: number): number {
    return this.#all.isSpent(nowMs) ? LATE_COMPILE_MS : COMPILE_MS;
  }

  /** A compilation took so long, and ended now. */
  compiled(tookMs: number, nowMs: number): void {
    if (tookMs > LONG_MS) this.#all.take(tookMs, nowMs);
  }

  /** For the checks of one schema. */
  schema(): SchemaTime {
    return new SchemaTime(this.#all);
  }
}

/** The time of one schema's checks. */
export class SchemaTime {
  readonly #all: Allowance;
  readonly #own = new Allowance(SCHEMA_MS);

  constructor(all: Allowance) {
    this.#all = all;
  }

  /** How long its next check may take; 0: it may not be checked now. */
  checkMs(nowMs: number): number {
    if (this.#own.isSpent(nowMs)) return 0;
    return this.#all.isSpent(nowMs) ? LONG_MS : CHECK_MS;
  }

  /** Its check took so long, and ended now. */
  checked(tookMs: number, nowMs: number): void {
    if (tookMs < LONG_MS) return;
    this.#own.take(this.#all.isSpent(nowMs) ? SCHEMA_MS + PAUSE_MS * GIVEN_BACK : tookMs, nowMs);
    this.#all.take(tookMs, nowMs);
  }
}
