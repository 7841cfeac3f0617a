/**
 * One attempt of a hosted satellite: from a request of the engine to lines of the answer (`protocol.ts`).
 *
 *   validated -> running -> output | error
 *                  \-> aborted: the engine disconnected, the deadline passed, or the host ends
 *
 * Hosted code has no store: `files` and `tasks` of its call throw. What it throws other than a `SatelliteError` is logged
 * here and reaches the engine as `satellite_error`, without its text. Values of secrets are taken out of everything that it
 * throws and logs; where the engine does not say which values those are, all texts of the config are taken for secrets.
 */
import type { Clock, Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../work/json.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import type { AnySatellite, Notes, OtherExecution, SatelliteCall, Schema } from "../sdk/satellite.ts";
import { isSatelliteError, SatelliteError } from "../sdk/satellite_error.ts";
import { createRedactor, type Redactor } from "../secrets/redaction.ts";
import { BEAT_MS, type ExecutedOther, LINE_BYTES_MAX, type RunLine, type RunRequest } from "./protocol.ts";

const PROGRESS_MS = 200;

export interface HostedRunOptions {
  readonly clock: Clock;
  readonly http: GuardedHttp;
  /** Writes bytes of the answer. */
  readonly write: (text: string) => void;
  /** For the operator of the host. */
  readonly log: (line: string) => void;
}

/** One for each request `run`. What the satellite says after its end is dropped. */
export class HostedRun {
  readonly #options: HostedRunOptions;
  readonly #satellite: AnySatellite;
  readonly #request: RunRequest;
  readonly #abort = new AbortController();
  readonly #redaction: Redactor;
  readonly #notes: Map<string, Json>;
  /** Notes that the engine has not acknowledged, by their number. */
  readonly #waiting = new Map<number, (isKept: boolean) => void>();
  /** Others that were called and have not ended, by their number. */
  readonly #others = new Map<number, (came: ExecutedOther) => void>();
  #number = 0;
  #progressMs = Number.NEGATIVE_INFINITY;

  constructor(options: HostedRunOptions, satellite: AnySatellite, request: RunRequest) {
    this.#options = options;
    this.#satellite = satellite;
    this.#request = request;
    this.#redaction = createRedactor(request.secrets ?? textsIn(request.config));
    this.#notes = new Map(Object.entries(request.notes));
  }

  /** Writes lines up to the last one; never rejects. */
  async run(): Promise<void> {
    const { clock } = this.#options;
    const leftMs = Date.parse(this.#request.deadline) - clock.wallMs();
    const deadline = clock.timer(leftMs, () => this.abort("the execution has expired"));
    const beat = this.#beat();
    try {
      const output = await this.#attempt();
      this.#write(await this.#checked(output));
    } catch (error) {
      this.#write(this.#failureOf(error));
    } finally {
      deadline.cancel();
      beat.cancel();
    }
  }

  abort(why: string): void {
    this.#abort.abort(new PerigeeError("interrupted", why));
    for (const answer of this.#waiting.values()) answer(false);
    this.#waiting.clear();
    for (const answer of this.#others.values()) answer({});
    this.#others.clear();
  }

  /** False when no such one is waited for. */
  executed(number: number, came: ExecutedOther): boolean {
    const answer = this.#others.get(number);
    this.#others.delete(number);
    answer?.(came);
    return answer !== undefined;
  }

  /** False when no such note waits. */
  noted(number: number, isKept: boolean): boolean {
    const answer = this.#waiting.get(number);
    this.#waiting.delete(number);
    answer?.(isKept);
    return answer !== undefined;
  }

  async #attempt(): Promise<JsonObject> {
    const { clock, http } = this.#options;
    const { execution_id, project, attempt, deadline } = this.#request;
    const call: SatelliteCall<unknown, unknown> = {
      input: await validated(this.#satellite.input, this.#request.input, "input"),
      config: await validated(this.#satellite.config, this.#request.config, "config"),
      ...{ executionId: execution_id, project, attempt, clock, http },
      secretValues: this.#request.secrets ?? [],
      signal: this.#abort.signal,
      deadlineWallMs: Date.parse(deadline),
      files: notHere("files"),
      tasks: notHere("tasks"),
      notes: this.#notesOf(),
      progress: (done, total) => this.#progress(done, total),
      execute: (name, other) => this.#execute(name, other),
      log: (level, message) => this.#log(level, String(message)),
    };
    return await this.#satellite.run(call as SatelliteCall<never, never>); // as its schemas gave them
  }

  #notesOf(): Notes {
    return {
      get: (name) => this.#notes.get(name),
      set: (name, value) => {
        this.#abort.signal.throwIfAborted();
        this.#number += 1;
        const number = this.#number;
        return new Promise((resolve, reject) => {
          this.#waiting.set(number, (isKept) => {
            if (this.#abort.signal.aborted) reject(this.#abort.signal.reason);
            else if (!isKept)
              reject(new PerigeeError("too_large", "the notes of an execution have at most 64 KiB"));
            else {
              this.#notes.set(name, value);
              resolve();
            }
          });
          this.#write({ type: "note", number, name, value });
        });
      },
    };
  }

  async #execute(name: string, { satellite, input, config = {} }: OtherExecution): Promise<JsonObject> {
    this.#abort.signal.throwIfAborted();
    this.#number += 1;
    const number = this.#number;
    const came = await new Promise<ExecutedOther>((resolve) => {
      this.#others.set(number, resolve);
      this.#write({ type: "execute", number, name, satellite, input, config });
    });
    if (came.output !== undefined) return came.output;
    this.#abort.signal.throwIfAborted();
    const { failure = "ambiguous", code = "satellite_error", message = "" } = came.error ?? {};
    throw new SatelliteError(failure, code, message);
  }

  #log(level: "info" | "warn" | "error", message: string): void {
    this.#write({ type: "log", level, message: this.#redaction.redact(message).slice(0, 2_000) });
  }

  #progress(done: number, total?: number): void {
    const nowMs = this.#options.clock.nowMs();
    if (nowMs - this.#progressMs < PROGRESS_MS && done !== total) return;
    this.#progressMs = nowMs;
    this.#write({ type: "progress", done, ...(total === undefined ? {} : { total }) });
  }

  async #checked(output: JsonObject): Promise<RunLine> {
    const line: RunLine = { type: "output", output };
    if (!isObject(output))
      throw new SatelliteError("permanent", "invalid_output", "the output is not an object");
    const schema = this.#satellite.output;
    if (schema !== undefined) await validated(schema, output, "output");
    if (Buffer.byteLength(JSON.stringify(line)) < LINE_BYTES_MAX) return line;
    throw new SatelliteError("permanent", "output_too_large", "the output is too large");
  }

  #failureOf(error: unknown): RunLine {
    if (isSatelliteError(error)) {
      const { failure, code, message, retryAfterMs } = error;
      const later = retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs };
      return { type: "error", failure, code, message: this.#redaction.redact(message), ...later };
    }
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    if (!this.#abort.signal.aborted)
      this.#options.log(`satellite ${this.#satellite.name}: ${this.#redaction.redact(text)}`);
    return { type: "error", failure: "ambiguous", code: "satellite_error", message: "the satellite failed" };
  }

  #beat(): Timer {
    const { clock, write } = this.#options;
    const again = (): void => {
      write("\n");
      timer = clock.timer(BEAT_MS, again);
    };
    let timer = clock.timer(BEAT_MS, again);
    return { cancel: () => timer.cancel() };
  }

  #write(line: RunLine): void {
    this.#options.write(`${JSON.stringify(line)}\n`);
  }
}

/** Throws `permanent` with every place where a value is not as the schema says, without the value. */
async function validated(
  schema: Schema<unknown>,
  value: unknown,
  what: "input" | "config" | "output",
): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const places = result.issues.slice(0, 10).map(({ path = [], message }) => {
    const names = path.map((part) => String(typeof part === "object" ? part.key : part));
    return `${[what, ...names].join(".")}: ${message}`;
  });
  const code = what === "output" ? "invalid_output" : "invalid_input";
  throw new SatelliteError("permanent", code, places.join("; "));
}

/** All texts, and the words of each: a credential may follow the name of its scheme. */
function textsIn(value: Json): string[] {
  if (typeof value === "string") return [value, ...value.split(/\s+/)];
  return typeof value === "object" && value !== null
    ? Object.values(value as JsonObject).flatMap(textsIn)
    : [];
}

function notHere<T extends object>(what: string): T {
  const refuse = (): never => {
    throw new SatelliteError(
      "permanent",
      "not_available",
      `${what} are not there for satellites hosted by perigee orbit serve`,
    );
  };
  return new Proxy({}, { get: refuse }) as T; // throws for any member
}
