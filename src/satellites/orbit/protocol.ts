/**
 * What an engine and the host of a satellite say to each other (docs/reference/orbit.md): signed POSTs of JSON to one
 * address. `describe`, `noted` and `executed` are answered at once; `run` with lines of JSON while the satellite works:
 *
 *   (progress | log | note | execute | blank)* -> output | error
 *     note waits for a request `noted` of the same number, execute for `executed`
 *   the connection ends before that -> the attempt is ambiguous; the host aborts it when the engine disconnects
 *
 * Limits: a request has 4 MiB, a line 1 MiB and 64 KiB, an answer to `run` 16 MiB. A blank line every 10 s says that the
 * host is alive; after 45 s without a byte the engine gives up.
 */
import { z } from "../../schema.ts";
import { isObject, type Json, type JsonObject, own } from "../../work/json.ts";
import { NAME } from "../sdk/reference.ts";
import type { OtherExecution } from "../sdk/satellite.ts";
import { SATELLITE_FAILURES, type SatelliteFailure } from "../sdk/satellite_error.ts";

export const REQUEST_BYTES_MAX: number = 4 * 1024 * 1024;
export const LINE_BYTES_MAX: number = (1024 + 64) * 1024;
export const ANSWER_BYTES_MAX: number = 16 * 1024 * 1024;
export const BEAT_MS: number = 10_000;
export const SILENCE_MS_MAX: number = 45_000;
const MESSAGE_CHARACTERS_MAX = 2_000;

/** Requests of the engine; what is sent is exactly this. */
export type OrbitRequest =
  | { readonly type: "describe"; readonly satellite: string }
  | RunRequest
  | {
      readonly type: "noted";
      readonly satellite: string;
      readonly execution_id: string;
      readonly number: number;
      /** Whether it is durable now; otherwise it was too large. */
      readonly is_kept: boolean;
    }
  | ({
      readonly type: "executed";
      readonly satellite: string;
      readonly execution_id: string;
      readonly number: number;
    } & ExecutedOther);

/** The result of a satellite that a hosted one has called. */
export interface ExecutedOther {
  readonly output?: JsonObject | undefined;
  /** Of one that gave no output. */
  readonly error?: OtherError | undefined;
}

/** Why the other one has no output, in the words and class that it ended with. */
export interface OtherError {
  readonly failure: SatelliteFailure;
  readonly code: string;
  readonly message: string;
}

/** One attempt of one execution. Input, config and notes are JSON of at most 4 MiB in all. */
export interface RunRequest {
  readonly type: "run";
  readonly satellite: string;
  readonly execution_id: string;
  readonly project: string;
  readonly attempt: number;
  /** ISO 8601. */
  readonly deadline: string;
  readonly input: JsonObject;
  readonly config: JsonObject;
  /** What earlier attempts noted. */
  readonly notes: JsonObject;
  /** Values of secrets in input and config, so that the host can take them out of its log. Absent: not known. */
  readonly secrets?: readonly string[] | undefined;
  /** Hash of the description that was verified; the host refuses when its own differs. */
  readonly description?: string | undefined;
}

const json = z.record(z.string(), z.unknown()) as unknown as z.ZodType<JsonObject>; // parsed from JSON
const satellite = z.string().regex(NAME);
const execution_id = z.guid();

/** What a host takes. */
export const orbitRequest: z.ZodType<OrbitRequest> = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("describe"), satellite }),
  z.strictObject({
    type: z.literal("run"),
    satellite,
    execution_id,
    project: z.string().regex(NAME),
    attempt: z.int().min(1),
    deadline: z.iso.datetime(),
    input: json,
    config: json,
    notes: json,
    secrets: z.array(z.string()).optional(),
    description: z.string().optional(),
  }),
  z.strictObject({
    type: z.literal("noted"),
    satellite,
    execution_id,
    number: z.int().min(1),
    is_kept: z.boolean(),
  }),
  z.strictObject({
    type: z.literal("executed"),
    satellite,
    execution_id,
    number: z.int().min(1),
    output: json.optional(),
    error: z
      .strictObject({
        failure: z.enum(["not_sent", "refused", "ambiguous", "permanent"]),
        code: z.string(),
        message: z.string(),
      })
      .optional(),
  }),
]);

/** A line of the answer to `run`. */
export type RunLine =
  | { readonly type: "progress"; readonly done: number; readonly total?: number }
  | { readonly type: "log"; readonly level: "info" | "warn" | "error"; readonly message: string }
  | { readonly type: "note"; readonly number: number; readonly name: string; readonly value: Json }
  | ({ readonly type: "execute"; readonly number: number; readonly name: string } & OtherExecution)
  | { readonly type: "output"; readonly output: JsonObject }
  | {
      readonly type: "error";
      readonly failure: SatelliteFailure;
      readonly code: string;
      readonly message: string;
      readonly retry_after_ms?: number;
    };

const LEVELS = ["info", "warn", "error"] as const;
const CODE = /^[a-z0-9_]{1,64}$/;

/** Undefined for an invalid line, or one of an unknown type: those are skipped. */
export function parseRunLine(text: string): RunLine | undefined {
  const given = parsed(text);
  if (!isObject(given)) return undefined;
  switch (own(given, "type")) {
    case "progress":
      return progressOf(given);
    case "log": {
      const level = LEVELS.find((one) => one === own(given, "level")) ?? "info";
      return { type: "log", level, message: messageOf(given) };
    }
    case "note": {
      const number = own(given, "number");
      const name = own(given, "name");
      if (typeof number !== "number" || typeof name !== "string") return undefined;
      return { type: "note", number, name, value: own(given, "value") ?? null };
    }
    case "execute":
      return executeOf(given);
    case "output": {
      const output = own(given, "output");
      return isObject(output) ? { type: "output", output } : undefined;
    }
    case "error":
      return errorOf(given);
    default:
      return undefined;
  }
}

function progressOf(given: JsonObject): RunLine | undefined {
  const done = own(given, "done");
  const total = own(given, "total");
  if (!isCount(done)) return undefined;
  return { type: "progress", done, ...(isCount(total) ? { total } : {}) };
}

function executeOf(given: JsonObject): RunLine | undefined {
  const [number, name, satellite] = [own(given, "number"), own(given, "name"), own(given, "satellite")];
  const [input, config = {}] = [own(given, "input"), own(given, "config")];
  if (typeof number !== "number" || typeof name !== "string" || typeof satellite !== "string")
    return undefined;
  return isObject(input) && isObject(config)
    ? { type: "execute", number, name, satellite, input, config }
    : undefined;
}

function errorOf(given: JsonObject): RunLine {
  const code = own(given, "code");
  const retryAfterMs = own(given, "retry_after_ms");
  return {
    type: "error",
    failure: SATELLITE_FAILURES.find((one) => one === own(given, "failure")) ?? "ambiguous",
    code: typeof code === "string" && CODE.test(code) ? code : "satellite_error",
    message: messageOf(given) || "the satellite failed",
    ...(typeof retryAfterMs === "number" ? { retry_after_ms: retryAfterMs } : {}),
  };
}

function messageOf(given: JsonObject): string {
  const message = own(given, "message");
  return typeof message === "string" ? message.slice(0, MESSAGE_CHARACTERS_MAX) : "";
}

function isCount(value: Json | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Whole lines of bytes that arrive in pieces. */
export class FrameReader {
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  /** The lines that end in it; undefined once a line is longer than it may be. */
  add(chunk: Uint8Array): readonly string[] | undefined {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#pieces.push(chunk.subarray(start, end));
      lines.push(Buffer.concat(this.#pieces).toString("utf8"));
      this.#pieces = [];
      this.#bytes = 0;
      start = end + 1;
    }
    this.#pieces.push(chunk.slice(start));
    this.#bytes += chunk.length - start;
    return this.#bytes > LINE_BYTES_MAX ? undefined : lines;
  }
}
