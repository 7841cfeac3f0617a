/**
 * A satellite that runs elsewhere: each attempt is one signed request to its host (`protocol.ts`), over guarded egress.
 *
 *   sent -> working (progress, logs, notes) -> output | error of the satellite
 *     \-> refused by the host                \-> ambiguous: the connection was lost, or silent for 45 s
 *
 * The host validates input, config and output by its own schemas; here they are checked as far as their JSON Schemas go.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { retryAfterMs } from "../../providers/retry_after.ts";
import { isObject, type Json, type JsonObject } from "../../work/json.ts";
import { fromWire, type SatelliteDescription } from "../sdk/description.ts";
import type { GuardedHttp, GuardedResponse } from "../sdk/guarded_http.ts";
import { issuesOf, schemaOfJsonSchema } from "../sdk/json_schema.ts";
import type { Satellite, SatelliteCall } from "../sdk/satellite.ts";
import { SatelliteError } from "../sdk/satellite_error.ts";
import {
  ANSWER_BYTES_MAX,
  type ExecutedOther,
  FrameReader,
  type OrbitRequest,
  parseRunLine,
  type RunLine,
  SILENCE_MS_MAX,
} from "./protocol.ts";
import { signOrbit } from "./signature.ts";

/** Where a satellite is hosted. */
export interface OrbitEndpoint {
  readonly url: string;
  readonly secret: string;
}

/** A hosted satellite as it was registered. */
export interface RemoteOptions {
  readonly endpoint: OrbitEndpoint;
  readonly described: SatelliteDescription;
  /** Of the verified description; each request asks the host whether it still has that one. */
  readonly verifiedHash?: string | undefined;
  /** Called when it has another one; the attempt fails for good. */
  readonly onChanged?: () => void;
}

const ANSWER_MS_MAX = 30_000;
const DESCRIPTION_BYTES_MAX = 256 * 1024;
/** What the notes of the hosted satellite are kept under, as one. */
const NOTES = "hosted";

/** Its schemas check what they can; `run` throws as `Satellite.run` says. */
export function remoteSatellite(options: RemoteOptions): Satellite {
  const { described, endpoint } = options;
  const { name, description, inputSchema, configSchema, outputSchema, example } = described;
  const { destinationConcurrency, attemptsMax, attemptMsMax } = described;
  return {
    ...{ name, description, isRepeatable: described.isRepeatable === true },
    input: schemaOfJsonSchema(inputSchema),
    config: schemaOfJsonSchema(configSchema),
    ...(outputSchema === undefined ? {} : { output: schemaOfJsonSchema(outputSchema) }),
    ...(example === undefined ? {} : { example }),
    ...(destinationConcurrency === undefined ? {} : { destinationConcurrency }),
    ...(attemptsMax === undefined ? {} : { attemptsMax }),
    ...(attemptMsMax === undefined ? {} : { attemptMsMax }),
    destination: () => new URL(endpoint.url).host,
    run: (call) => new RemoteAttempt(options, call).run(),
  };
}

/** What the host says of a satellite now. Throws `SatelliteError`, and `invalid_request` for what is not a valid description. */
export async function describeRemote(
  http: GuardedHttp,
  clock: Clock,
  endpoint: OrbitEndpoint,
  satellite: string,
): Promise<SatelliteDescription> {
  const response = await send(http, clock, endpoint, { type: "describe", satellite });
  if (response.status !== 200) throw refusalOf(response, clock);
  return fromWire(parsed(response.body));
}

interface Sending {
  readonly timeoutMs?: number;
  readonly responseBytesMax?: number;
  readonly onBody?: (chunk: Uint8Array, status: number) => void;
  readonly signal?: AbortSignal;
}

function send(
  http: GuardedHttp,
  clock: Clock,
  endpoint: OrbitEndpoint,
  request: OrbitRequest,
  sending: Sending = {},
): Promise<GuardedResponse> {
  const body = Buffer.from(JSON.stringify(request));
  const signed = signOrbit({ id: `orb_${randomUUID()}`, wallMs: clock.wallMs(), body }, endpoint.secret);
  return http.request({
    url: endpoint.url,
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...("execution_id" in request ? { "idempotency-key": request.execution_id } : {}),
      ...signed,
    },
    body,
    ...{ timeoutMs: ANSWER_MS_MAX, responseBytesMax: DESCRIPTION_BYTES_MAX, ...sending },
  });
}

class RemoteAttempt {
  readonly #options: RemoteOptions;
  readonly #call: SatelliteCall;
  readonly #lines = new FrameReader();
  readonly #stop = new AbortController();
  /** What the host said when it refused. */
  readonly #refusal: Uint8Array[] = [];
  #notes: JsonObject;
  /** The last note; they are kept one after another. */
  #noted: Promise<void> = Promise.resolve();
  #heardMs: number;
  #end: Extract<RunLine, { readonly type: "output" | "error" }> | undefined;

  constructor(options: RemoteOptions, call: SatelliteCall) {
    this.#options = options;
    this.#call = call;
    const notes = call.notes.get(NOTES);
    this.#notes = isObject(notes) ? notes : {};
    this.#heardMs = call.clock.nowMs();
  }

  async run(): Promise<JsonObject> {
    const { signal } = this.#call;
    const silence = this.#listenForSilence();
    try {
      const response = await this.#send();
      await this.#noted;
      if (this.#end === undefined) {
        signal.throwIfAborted();
        this.#stop.signal.throwIfAborted();
        if (response.status !== 200) throw this.#refused(response);
        throw new SatelliteError("ambiguous", "connection_lost", "the answer of the satellite ended early");
      }
    } catch (error) {
      // What was said before the connection broke counts.
      if (this.#end === undefined) throw error;
    } finally {
      silence.cancel();
    }
    return outputOf(this.#end, this.#options.described);
  }

  #send(): Promise<GuardedResponse> {
    const { clock, http, executionId, project, attempt, input, config, secretValues } = this.#call;
    const { deadlineWallMs, signal } = this.#call;
    const { endpoint, described, verifiedHash } = this.#options;
    const request: OrbitRequest = {
      ...{ type: "run", satellite: described.name, execution_id: executionId, project, attempt },
      deadline: new Date(deadlineWallMs).toISOString(),
      ...{ input, config, notes: this.#notes, secrets: secretValues, description: verifiedHash },
    };
    return send(http, clock, endpoint, request, {
      timeoutMs: Math.max(1, deadlineWallMs - clock.wallMs()),
      responseBytesMax: ANSWER_BYTES_MAX,
      signal: AbortSignal.any([signal, this.#stop.signal]),
      onBody: (chunk, status) => this.#onBody(chunk, status),
    });
  }

  #onBody(chunk: Uint8Array, status: number): void {
    this.#heardMs = this.#call.clock.nowMs();
    if (status !== 200) {
      if (this.#refusal.length < 16) this.#refusal.push(chunk.slice(0, 4_096));
      return;
    }
    const lines = this.#lines.add(chunk);
    if (lines === undefined)
      this.#give(new SatelliteError("permanent", "output_too_large", "the satellite's answer is too large"));
    for (const line of lines ?? []) this.#onLine(parseRunLine(line));
  }

  #onLine(line: RunLine | undefined): void {
    if (line === undefined || this.#end !== undefined) return;
    if (line.type === "progress") this.#call.progress(line.done, line.total);
    else if (line.type === "log") this.#call.log(line.level, line.message);
    else if (line.type === "note") this.#noted = this.#noted.then(() => this.#keep(line));
    else if (line.type === "execute") void this.#execute(line);
    else this.#end = line;
  }

  /** Never rejects, as `#keep`. */
  async #execute(line: Extract<RunLine, { readonly type: "execute" }>): Promise<void> {
    const { clock, http, executionId } = this.#call;
    const { endpoint, described } = this.#options;
    const { number, name, satellite, input, config = {} } = line;
    try {
      const came = await this.#call.execute(name, { satellite, input, config }).then(
        (output): ExecutedOther => ({ output }),
        (error: unknown): ExecutedOther => {
          if (!(error instanceof SatelliteError)) throw error;
          const { failure, code, message } = error;
          return { error: { failure, code, message } };
        },
      );
      if (this.#end !== undefined) return;
      const response = await send(http, clock, endpoint, {
        ...{ type: "executed", satellite: described.name, execution_id: executionId, number },
        ...came,
      });
      if (response.status === 204 || this.#end !== undefined) return;
      throw refusalOf(response, clock);
    } catch (error) {
      if (this.#end === undefined) this.#give(error);
    }
  }

  /** Never rejects: a note that the host is not notified of ends the attempt. */
  async #keep({ number, name, value }: Extract<RunLine, { readonly type: "note" }>): Promise<void> {
    const { clock, http, notes, executionId } = this.#call;
    const { endpoint, described } = this.#options;
    try {
      const changed = { ...this.#notes, [name]: value };
      const isKept = await notes.set(NOTES, changed).then(
        () => true,
        () => false,
      );
      if (isKept) this.#notes = changed;
      const response = await send(http, clock, endpoint, {
        ...{ type: "noted", satellite: described.name, execution_id: executionId },
        ...{ number, is_kept: isKept },
      });
      if (response.status === 204 || this.#end !== undefined) return;
      throw refusalOf(response, clock);
    } catch (error) {
      if (this.#end === undefined) this.#give(error);
    }
  }

  #give(reason: unknown): void {
    this.#stop.abort(reason);
  }

  #listenForSilence(): { cancel(): void } {
    const { clock } = this.#call;
    const listen = (): void => {
      const leftMs = this.#heardMs + SILENCE_MS_MAX - clock.nowMs();
      if (leftMs > 0) timer = clock.timer(leftMs, listen);
      else this.#give(new SatelliteError("ambiguous", "timeout", "nothing was heard of the satellite"));
    };
    let timer = clock.timer(SILENCE_MS_MAX, listen);
    return { cancel: () => timer.cancel() };
  }

  #refused(response: GuardedResponse): SatelliteError {
    const refusal = refusalOf({ ...response, body: Buffer.concat(this.#refusal) }, this.#call.clock);
    if (refusal.code === "satellite_changed") this.#options.onChanged?.();
    return refusal;
  }
}

/** Refuses output that does not match the satellite's registered schema, because its readers rely on that schema. */
function outputOf(
  end: Extract<RunLine, { readonly type: "output" | "error" }>,
  { outputSchema }: SatelliteDescription,
): JsonObject {
  if (end.type === "output") {
    const [issue] = outputSchema === undefined ? [] : issuesOf(end.output, outputSchema);
    if (issue === undefined) return end.output;
    const place = ["output", ...issue.path].join(".");
    throw new SatelliteError("permanent", "invalid_output", `${place}: ${issue.message}`);
  }
  const { failure, code, message, retry_after_ms: retryAfterMs } = end;
  throw new SatelliteError(failure, code, message, retryAfterMs === undefined ? {} : { retryAfterMs });
}

/** What a host that refuses means: 429 and 503 are tried later, other 5xx may have happened, the rest is for good. */
function refusalOf({ status, body, headers }: GuardedResponse, clock: Clock): SatelliteError {
  const said = parsed(body);
  const error: Json | undefined = isObject(said) ? said["error"] : undefined;
  const code = isObject(error) ? error["code"] : undefined;
  const message = `the host of the satellite answered ${status}`;
  const waitMs = retryAfterMs(headers, clock.wallMs());
  const later = waitMs === undefined ? {} : { retryAfterMs: waitMs };
  if (status === 429 || status === 503) return new SatelliteError("refused", "host_busy", message, later);
  if (status === 409 && code === "satellite_changed")
    return new SatelliteError("permanent", code, "the satellite is not the one that was verified any more");
  if (status === 401)
    return new SatelliteError("permanent", "host_unauthorized", "the host does not accept the signature");
  if (status === 404)
    return new SatelliteError("permanent", "not_hosted", "the host does not have the satellite");
  const failure = status >= 500 || status === 409 ? "ambiguous" : "permanent";
  return new SatelliteError(failure, "host_failed", message, failure === "permanent" ? {} : later);
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}
