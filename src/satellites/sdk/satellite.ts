/**
 * The orbit SDK: what a satellite is, and what its `run` receives.
 *
 * A satellite is a function with a name: input and config in, an object out. `run` makes one attempt and never retries:
 * how it throws says whether another attempt may follow, and the runtime decides (`SatelliteError`). The same `run` may
 * be called again after a crash of the process, so it says whether repeating it does harm (`isRepeatable`) and finds in
 * `notes` what it had reached.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Clock } from "../../clock.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import type { GuardedHttp } from "./guarded_http.ts";

/** A schema of any library with Standard Schema, such as zod 4. */
export type Schema<T> = StandardSchemaV1<unknown, T>;

/** What every attempt of an execution has in common. */
export interface SatelliteArguments<Input, Config> {
  readonly input: Input;
  readonly config: Config;
}

/** An input as a caller writes it, and its output if that is always the same. */
export interface SatelliteExample {
  readonly input: JsonObject;
  readonly config: JsonObject;
  readonly output?: JsonObject;
}

/** One attempt. */
export interface SatelliteCall<Input = JsonObject, Config = JsonObject>
  extends SatelliteArguments<Input, Config> {
  /** UUID; the same for every attempt, so that it may serve as an idempotency key. */
  readonly executionId: string;
  /** Whose execution it is. */
  readonly project: string;
  /** From 1; attempts before a restart count. */
  readonly attempt: number;
  /** Values of secrets that were filled into input and config, so that they can be taken out of what is written elsewhere. */
  readonly secretValues: readonly string[];
  /**
   * Aborts when the execution is cancelled, has expired, or the process stops; its reason, which may be
   * thrown, is a `PerigeeError` of code `closed` only in the last case.
   */
  readonly signal: AbortSignal;
  /** Unix time when the execution expires. */
  readonly deadlineWallMs: number;
  readonly clock: Clock;
  /** To requests of users' choosing: guarded against private destinations. */
  readonly http: GuardedHttp;
  /** Files of the project; references between satellites are ids of these. */
  readonly files: Files;
  /** Bulk inference for the project. */
  readonly tasks: Tasks;
  readonly notes: Notes;
  /** Shown in the execution's view while it runs: `done` of `total`, at most a few times a second. */
  progress(done: number, total?: number): void;
  /**
   * Runs another satellite as a separate execution, and returns its output; only for satellites of the project's own
   * namespace. An attempt that is repeated finds the execution of the same `name` again. Throws `SatelliteError` of the other's code
   * when that failed. What is passed on names no secrets.
   */
  execute(name: string, other: OtherExecution): Promise<JsonObject>;
  /**
   * From now on the attempt only waits for the engine or for another service: another execution may begin in its place. Nothing
   * happens while 4,096 attempts wait so, or 2,048 of the project. Absent on hosts, whose attempts hold no place.
   */
  releasePlace?(): void;
  /** Lines for the operator's log; values of secrets are taken out, and nothing of users' texts belongs in it. */
  log(level: "info" | "warn" | "error", message: string): void;
}

/** Another satellite to run. */
export interface OtherExecution {
  /** `satellite/<namespace>/<name>` */
  readonly satellite: string;
  readonly input: JsonObject;
  readonly config?: JsonObject;
}

/** What an execution has reached, kept durably from one attempt to the next: at most 64 KiB of JSON in all. */
export interface Notes {
  get(name: string): Json | undefined;
  /** Durable when it resolves. Throws `too_large`. */
  set(name: string, value: Json): Promise<void>;
}

/**
 * A satellite. Input and config are checked at submission, and again after secrets were filled in. `secret://name` is filled in
 * in `config` and in input fields whose JSON Schema has `"x-secret": true` (zod: `.meta({ "x-secret": true })`); it is plain text
 * in all others, and where a schema says `"x-secret": false`. Mark no field that a user's text may reach.
 */
export interface Satellite<Input = JsonObject, Config = JsonObject> {
  /** `^[a-z0-9][a-z0-9-]{0,62}$` */
  readonly name: string;
  /** What it does, in a sentence or two, for those who choose one. */
  readonly description: string;
  readonly input: Schema<Input>;
  readonly config: Schema<Config>;
  /** What an output looks like; absent: any object. */
  readonly output?: Schema<JsonObject>;
  /** JSON Schemas 2020-12, for schemas without Standard JSON Schema; they win where both exist. */
  readonly inputJsonSchema?: JsonObject;
  readonly configJsonSchema?: JsonObject;
  readonly outputJsonSchema?: JsonObject;
  /** One execution that does no harm: for readers, and run when a community satellite is verified. */
  readonly example?: SatelliteExample;
  /**
   * Whether an attempt of which nothing is known (the connection was lost, the process died) may be repeated: true when
   * repeating does no harm, or when the other side recognises repeats by an id. Otherwise the execution fails as `ambiguous`.
   */
  readonly isRepeatable: boolean | ((call: SatelliteArguments<Input, Config>) => boolean);
  /**
   * The destination of an execution, such as a host: those to one destination share a bound of concurrency and do not delay
   * others. Undefined: nowhere in particular.
   */
  readonly destination?: (call: SatelliteArguments<Input, Config>) => string | undefined;
  /** Executions to one destination at once. Default 16. */
  readonly destinationConcurrency?: number;
  /** Attempts of one execution of which nothing is known, at most; those that did nothing are repeated until its deadline. Default 8. */
  readonly attemptsMax?: number;
  /** An attempt is ended after this. Default: only the execution's deadline. */
  readonly attemptMsMax?: number;
  /** One attempt. Resolves with the output (JSON, at most 1 MiB); throws `SatelliteError`, or anything else for `ambiguous`. */
  run(call: SatelliteCall<Input, Config>): Promise<JsonObject>;
}

/** A satellite of any types, for lists: only what its schemas let through may be passed to its functions. */
export interface AnySatellite extends Omit<Satellite<never, never>, "input" | "config"> {
  readonly input: Schema<unknown>;
  readonly config: Schema<unknown>;
}
