/**
 * One attempt: `run` called once, and what came of it.
 *
 *   running -> ended        `run` has settled
 *           -> stopping     cancelled, expired, closed, or longer than an attempt may take -> ended
 *                                                          \-> left behind, when it ignores its signal for `graceMs`
 *
 * Who was left behind may still run, but what it says or gives is nobody's. What `run` gives must be an object of JSON; values of
 * secrets are taken out of it, of messages and of log lines.
 *
 * Limits: output 1 MiB, message 1,000 characters, log line 2,000.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { Files } from "../../tasks/files.ts";
import type { Tasks } from "../../tasks/tasks.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import { copyJson } from "../sdk/json_copy.ts";
import { referenceText } from "../sdk/reference.ts";
import type { Notes, OtherExecution, SatelliteCall } from "../sdk/satellite.ts";
import { isSatelliteError, SatelliteError } from "../sdk/satellite_error.ts";
import type { PreparedAttempt } from "./attempt_prepare.ts";
import type { FailedAttempt } from "./attempt_retry.ts";
import type { ExecutionFacts } from "./execution_record.ts";

const OUTPUT_BYTES_MAX = 1 << 20;
const MESSAGE_CHARS_MAX = 1_000;
const LINE_CHARS_MAX = 2_000;
const CODE = /^[a-z0-9_]{1,64}$/;

/** A line for the operator, of ids and what the satellite says of itself. */
export interface SatelliteLogLine {
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  readonly project: string;
  readonly executionId: string;
  /** `satellite/<namespace>/<name>` */
  readonly satellite: string;
  readonly attempt: number;
}

/** What all attempts share. */
export interface RunParts {
  readonly clock: Clock;
  readonly http: GuardedHttp;
  readonly files: Files;
  readonly tasks: Tasks;
  readonly log: (line: SatelliteLogLine) => void;
  /** How long a `run` has to end once its signal has aborted. */
  readonly graceMs: number;
}

/** What is this attempt's own. `attempt` counts from 1 over all processes. */
export interface RunOptions {
  readonly prepared: PreparedAttempt;
  readonly facts: ExecutionFacts;
  readonly attempt: number;
  readonly onProgress: (done: number, total: number | undefined) => void;
  readonly execute: (name: string, other: OtherExecution, signal: AbortSignal) => Promise<JsonObject>;
}

/** What came of an attempt, without the values of secrets. */
export type AttemptEnd =
  | { readonly kind: "completed"; readonly output: JsonObject }
  | { readonly kind: "failed"; readonly failed: FailedAttempt };

/** For one attempt: `run` may be called once, `stop` at any time and again. */
export class AttemptRun {
  readonly #parts: RunParts;
  readonly #options: RunOptions;
  readonly #stopping = new AbortController();
  #isOver = false;

  constructor(parts: RunParts, options: RunOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  /** Ends it before its time; the first reason stays. */
  stop(reason: unknown): void {
    if (!this.#isOver) this.#stopping.abort(reason);
  }

  /** Throws `closed` when it is over: what it does from then on is nobody's. */
  assertCurrent(): void {
    if (this.#isOver) throw new PerigeeError("closed", "this attempt is over");
  }

  /** Called once; never rejects. */
  async run(notes: Notes): Promise<AttemptEnd> {
    const { clock, graceMs } = this.#parts;
    const { satellite } = this.#options.prepared;
    const call = this.#call(notes);
    const { signal } = this.#stopping;
    const limitMs = satellite.attemptMsMax;
    const timer = limitMs === undefined ? undefined : clock.timer(limitMs, () => this.stop(tooLong(limitMs)));
    const settled = settle(async () => satellite.run(call));
    const left = new Promise<undefined>((resolve) => {
      const leave = (): void => void clock.timer(graceMs, () => resolve(undefined), { keepsAlive: false });
      if (signal.aborted) leave();
      else signal.addEventListener("abort", leave, { once: true });
    });
    const ended = await Promise.race([settled, left]);
    this.#isOver = true;
    timer?.cancel();
    if (ended === undefined) {
      this.#log("warn", "left behind: it did not stop when it was told to");
      return this.#failed(signal.reason);
    }
    return ended.ok ? this.#completed(ended.value) : this.#failed(ended.error);
  }

  #call(notes: Notes): SatelliteCall {
    const { clock, http, files, tasks } = this.#parts;
    const { facts, attempt, prepared, onProgress, execute } = this.#options;
    return {
      ...prepared.given,
      executionId: facts.id,
      project: facts.project,
      attempt,
      secretValues: prepared.secretValues,
      signal: this.#stopping.signal,
      deadlineWallMs: facts.deadlineWallMs,
      ...{ clock, http, files, tasks },
      notes,
      progress: (done, total) => {
        if (!this.#isOver) onProgress(done, total);
      },
      execute: async (name, other) => {
        this.assertCurrent();
        return await execute(name, other, this.#stopping.signal);
      },
      log: (level, message) => {
        if (!this.#isOver) this.#log(level, message);
      },
    };
  }

  #log(level: SatelliteLogLine["level"], message: string): void {
    const { facts, attempt, prepared } = this.#options;
    this.#parts.log({
      level,
      message: prepared.redaction.redact(String(message)).slice(0, LINE_CHARS_MAX),
      project: facts.project,
      executionId: facts.id,
      satellite: referenceText(facts.satellite),
      attempt,
    });
  }

  #completed(value: unknown): AttemptEnd {
    const copied = copyJson(value);
    if (!copied.ok || !isObject(copied.value))
      return permanent(
        "satellite_error",
        `the output is no object of JSON${copied.ok ? "" : `: ${copied.reason}`}`,
      );
    const output = this.#options.prepared.redaction.redactJson(copied.value) as JsonObject; // an object stays one
    if (Buffer.byteLength(JSON.stringify(output)) <= OUTPUT_BYTES_MAX) return { kind: "completed", output };
    return permanent("output_too_large", `the output has more than ${OUTPUT_BYTES_MAX} bytes of JSON`);
  }

  #failed(error: unknown): AttemptEnd {
    const { signal } = this.#stopping;
    if (!isSatelliteError(error)) {
      this.#log("error", error instanceof Error ? `${error.name} thrown` : "a value thrown that is no error");
      if (signal.aborted && isSatelliteError(signal.reason)) return this.#failed(signal.reason);
      return { kind: "failed", failed: UNKNOWN };
    }
    const { failure, code, message, retryAfterMs } = error;
    const failed = {
      failure,
      code: CODE.test(code) ? code : "satellite_error",
      message: this.#options.prepared.redaction.redact(message).slice(0, MESSAGE_CHARS_MAX),
      retryAfterMs: retryAfterMs !== undefined && retryAfterMs >= 0 ? retryAfterMs : undefined,
    };
    return { kind: "failed", failed };
  }
}

function tooLong(limitMs: number): SatelliteError {
  return new SatelliteError("ambiguous", "timeout", `it took longer than ${Math.ceil(limitMs / 1_000)} s`);
}

/** Its text may be anything, so it is nobody's to see. */
const UNKNOWN: FailedAttempt = {
  failure: "ambiguous",
  code: "satellite_error",
  message: "the satellite failed",
};

function permanent(code: string, message: string): AttemptEnd {
  return { kind: "failed", failed: { failure: "permanent", code, message } };
}

type Settled =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

async function settle(run: () => Promise<unknown>): Promise<Settled> {
  try {
    return { ok: true, value: await run() };
  } catch (error) {
    return { ok: false, error };
  }
}
