/**
 * One attempt: `run` called once, and its result.
 *
 *   running -> ended        `run` has settled
 *           -> stopping     cancelled, expired, closed, or longer than an attempt may take -> ended
 *                                                          \-> left behind, when it ignores its signal for `graceMs`
 *
 * A `run` that was left behind may go on, but what it says or returns is dropped. What `run` returns must be an object of JSON; values of
 * secrets are taken out of it, of messages and of log lines.
 *
 * Limits: output 1 MiB, message 1,000 characters, log line 2,000.
 */
import type { Clock } from "../../clock.ts";
import type { AttemptEnd, FailedAttempt, JobAttempt } from "../../jobs/job.ts";
import { keptWaitMs } from "../../providers/retry_after.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import { copyJson } from "../sdk/json_copy.ts";
import { referenceText } from "../sdk/reference.ts";
import type { Notes, OtherExecution, SatelliteCall } from "../sdk/satellite.ts";
import { isSatelliteError, SatelliteError } from "../sdk/satellite_error.ts";
import type { PreparedAttempt } from "./attempt_prepare.ts";
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
export interface RunContext {
  readonly clock: Clock;
  readonly http: GuardedHttp;
  readonly files: Files;
  readonly tasks: Tasks;
  readonly log: (line: SatelliteLogLine) => void;
  /** How long a `run` has to end once its signal has aborted. */
  readonly graceMs: number;
}

/** What is this attempt's own. */
export interface AttemptRunOptions {
  readonly prepared: PreparedAttempt;
  readonly facts: ExecutionFacts;
  readonly attempt: JobAttempt;
  readonly notes: Notes;
  readonly execute: (name: string, other: OtherExecution) => Promise<JsonObject>;
  readonly releasePlace: () => void;
}

/** For one attempt: `run` may be called once. Its result is without the values of secrets. */
export class AttemptRun {
  readonly #context: RunContext;
  readonly #options: AttemptRunOptions;
  #isOver = false;

  constructor(context: RunContext, options: AttemptRunOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Never rejects. */
  async run(): Promise<AttemptEnd> {
    const { clock, graceMs } = this.#context;
    const { prepared, attempt } = this.#options;
    const { satellite } = prepared;
    const limitMs = satellite.attemptMsMax;
    const timer =
      limitMs === undefined ? undefined : clock.timer(limitMs, () => attempt.stop(tooLong(limitMs)));
    const ended = await new Promise<Settled>((resolve) => {
      const leave = (): void => resolve("left behind");
      attempt.onStop(() => void clock.timer(graceMs, leave, { keepsAlive: false }));
      void settle(() => satellite.run(this.#call())).then(resolve);
    });
    this.#isOver = true;
    timer?.cancel();
    if (ended === "left behind") {
      this.#log("warn", "left behind: it did not stop when it was aborted");
      return this.#failed(attempt.stopReason);
    }
    return ended.ok ? this.#completed(ended.value) : this.#failed(ended.error);
  }

  #call(): SatelliteCall {
    const { clock, http, files, tasks } = this.#context;
    const { facts, attempt, prepared, notes, execute, releasePlace } = this.#options;
    return {
      ...prepared.given,
      executionId: facts.id,
      project: facts.project,
      attempt: attempt.number,
      secretValues: prepared.secretValues,
      get signal(): AbortSignal {
        return attempt.signal;
      },
      deadlineWallMs: facts.deadlineWallMs,
      ...{ clock, http, files, tasks },
      notes,
      progress: (done, total) => attempt.show(total === undefined ? { done } : { done, total }),
      execute: async (name, other) => {
        attempt.assertCurrent();
        return await execute(name, other);
      },
      releasePlace,
      log: (level, message) => {
        if (!this.#isOver) this.#log(level, message);
      },
    };
  }

  #log(level: SatelliteLogLine["level"], message: string): void {
    const { facts, attempt, prepared } = this.#options;
    this.#context.log({
      level,
      message: prepared.redaction.redact(String(message)).slice(0, LINE_CHARS_MAX),
      project: facts.project,
      executionId: facts.id,
      satellite: referenceText(facts.satellite),
      attempt: attempt.number,
    });
  }

  #completed(value: unknown): AttemptEnd {
    const copied = copyJson(value);
    if (!copied.ok || !isObject(copied.value))
      return permanent(
        "satellite_error",
        `the output is not an object of JSON${copied.ok ? "" : `: ${copied.reason}`}`,
      );
    const output = this.#options.prepared.redaction.redactJson(copied.value) as JsonObject; // an object stays one
    if (Buffer.byteLength(JSON.stringify(output)) <= OUTPUT_BYTES_MAX) return { kind: "completed", output };
    return permanent("output_too_large", `the output has more than ${OUTPUT_BYTES_MAX} bytes of JSON`);
  }

  #failed(error: unknown): AttemptEnd {
    const { stopReason } = this.#options.attempt;
    if (!isSatelliteError(error)) {
      this.#log(
        "error",
        error instanceof Error ? `${error.name} thrown` : "a value thrown that is not an Error",
      );
      if (isSatelliteError(stopReason)) return this.#failed(stopReason);
      return { kind: "failed", failed: UNKNOWN };
    }
    const { failure, code, message, retryAfterMs } = error;
    const failed = {
      failure,
      code: CODE.test(code) ? code : "satellite_error",
      message: this.#options.prepared.redaction.redact(message).slice(0, MESSAGE_CHARS_MAX),
      retryAfterMs: keptWaitMs(retryAfterMs),
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
  | "left behind"
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

async function settle(run: () => Promise<unknown>): Promise<Settled> {
  try {
    return { ok: true, value: await run() };
  } catch (error) {
    return { ok: false, error };
  }
}
