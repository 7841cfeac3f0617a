/**
 * The log of the service: a line of JSON for each request, each fault and each thing that a satellite says, of fields that
 * are allowed and no others.
 *
 * All log lines, of perigee, fastify or a plugin, pass through here: fields that are not named below are left
 * out, and so is every message, because texts of errors and addresses hold what users sent. Of an error: its name, its
 * code, and its stack of places in perigee's code.
 *
 * Lines of one turn are written together.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { SatelliteLogLine } from "../../satellites/executions/attempt_run.ts";
import { StatedError } from "./errors.ts";
import { type FastifyInstance, type FastifyRequest, LogController } from "./fastify.ts";

/** A log line may hold these. Ids, sizes, perigee's own names and codes; never a text, an address or a header of a user. */
const FIELDS = [
  "event",
  "request_id",
  "method",
  "route",
  "status",
  "ms",
  "key_id",
  "project",
  "code",
  "error",
  "at",
  "execution_id",
  "satellite",
  "attempt",
] as const;

type Fields = Partial<Record<(typeof FIELDS)[number], string | number | readonly string[] | undefined>>;

const FRAMES_MAX = 5;
/** Codes of perigee, of Node and of fastify; anything else may be a text. */
const CODE = /^[A-Za-z0-9_]{1,64}$/;

export interface LogOptions {
  readonly clock: Pick<Clock, "wallMs" | "soon">;
  /** `info` has a line for each request, `error` only faults. */
  readonly level: "info" | "error";
  readonly write: (lines: string) => void;
}

/** Options of fastify that replace its log. */
export interface LogSettings {
  readonly logger: object;
  /** Without fastify's own lines, which hold addresses. */
  readonly logController: LogController;
  /** One logger for all requests: children would add their own fields. */
  readonly childLoggerFactory: (logger: FastifyInstance["log"]) => FastifyInstance["log"];
}

export function logSettings({ clock, level, write }: LogOptions): LogSettings {
  let waiting = "";
  const stream = {
    write: (line: string): void => {
      if (waiting === "") {
        clock.soon(() => {
          const lines = waiting;
          waiting = "";
          write(lines);
        });
      }
      waiting += line;
    },
  };
  const time = clockText(clock);
  const logger = {
    level,
    stream,
    base: null,
    timestamp: time,
    serializers: {},
    formatters: { level: (label: string) => ({ level: label }), bindings: () => ({}) },
    hooks: {
      logMethod(this: unknown, given: readonly unknown[], method: (...line: unknown[]) => void): void {
        if (given[0] instanceof RequestLine) {
          method.call(this, given[0]);
          return;
        }
        const fields = fieldsOf(given[0]);
        if (Object.keys(fields).length > 1) method.call(this, fields); // else it was only a message
      },
    },
  };
  const logController = new LogController({ disableRequestLogging: true });
  return { logger, logController, childLoggerFactory: (parent) => parent };
}

/** Hot: made only here, so its fields need no further check. Undefined ones are not written. */
class RequestLine implements Fields {
  readonly event = "request";
  readonly request_id: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly ms: number | undefined;
  readonly key_id: string | undefined;
  readonly project: string | undefined;
  readonly code: string | undefined;

  constructor(request: FastifyRequest, status: number, ms: number | undefined, code: string | undefined) {
    const caller: FastifyRequest["caller"] | undefined = request.caller; // only where the route has a scope
    this.request_id = request.id;
    this.method = request.method;
    this.route = (request.is404 ? undefined : request.routeOptions.url) ?? "none";
    this.status = status;
    this.ms = ms === undefined ? undefined : Math.round(ms * 10) / 10;
    this.key_id = caller?.keyId;
    this.project = caller?.project;
    this.code = code;
  }
}

/** The time of a line; lines of one millisecond share their text. */
function clockText(clock: Pick<Clock, "wallMs">): () => string {
  let madeMs = Number.NaN;
  let text = "";
  return () => {
    const wallMs = clock.wallMs();
    if (wallMs !== madeMs) text = `,"time":"${new Date(wallMs).toISOString()}"`;
    madeMs = wallMs;
    return text;
  };
}

/** A line for each request that is answered or given up, for routes that are registered from now on. */
export function logRequests(app: FastifyInstance): void {
  const codes = new WeakMap<FastifyRequest, string>();
  app.addHook("onError", (request, _reply, error, done) => {
    if (!isRefusal(error)) codes.set(request, codeOf(error));
    done();
  });
  const log = (request: FastifyRequest, status: number, ms: number | undefined): void => {
    app.log.info(new RequestLine(request, status, ms, codes.get(request)));
  };
  app.addHook("onResponse", (request, reply, done) => {
    log(request, reply.statusCode, reply.elapsedTime);
    done();
  });
  app.addHook("onRequestAbort", (request, done) => {
    log(request, 499, undefined);
    done();
  });
}

/** A fault of perigee: an answer of 500 or 503. */
export function logFault(app: FastifyInstance, error: unknown, requestId: string): void {
  app.log.error({ event: "fault", request_id: requestId, ...errorFields(error) });
}

/** That a satellite said something in an attempt; what it said may hold what users sent, and is left out. */
export function logSatellite(app: FastifyInstance, line: SatelliteLogLine): void {
  const { level, project, executionId, satellite, attempt } = line;
  app.log[level]({ event: "satellite", project, execution_id: executionId, satellite, attempt });
}

function fieldsOf(given: unknown): Fields {
  if (given instanceof Error) return { event: "error", ...errorFields(given) };
  if (typeof given !== "object" || given === null) return { event: "note" };
  const { err } = given as { readonly err?: unknown };
  const known = given as Fields; // read only by name
  const fields: Fields = err === undefined ? {} : errorFields(err);
  for (const name of FIELDS) if (known[name] !== undefined) fields[name] = known[name];
  return fields.event === undefined ? { event: "note", ...fields } : fields;
}

function errorFields(error: unknown): Fields {
  if (!(error instanceof Error)) return { error: typeof error };
  const frames = (error.stack ?? "").match(/^ {4}at .*$/gm) ?? [];
  return {
    error: CODE.test(error.name) ? error.name : "Error",
    code: codeOf(error),
    at: frames.slice(0, FRAMES_MAX).map((frame) => frame.trim()),
  };
}

/** Of fastify's own, whose status says all. */
function isRefusal(error: unknown): boolean {
  const { code, statusCode } = error as { readonly code?: unknown; readonly statusCode?: unknown };
  return code === undefined && typeof statusCode === "number" && statusCode < 500;
}

function codeOf(error: unknown): string {
  if (error instanceof PerigeeError) return error.code;
  const { code } = error instanceof StatedError ? error.answer.error : (error as { readonly code?: unknown });
  return typeof code === "string" && CODE.test(code) ? code : "internal_error";
}
