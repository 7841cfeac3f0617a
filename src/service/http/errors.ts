/**
 * Errors as answers: every code with its status, in OpenAI's envelope
 * `{error: {message, type, code, param}, request_id}`.
 *
 * What is not a `PerigeeError` is a fault of perigee: it answers 500 and nothing of its text leaves the process.
 */
import { type ErrorCode, PerigeeError } from "../../errors.ts";
import type { FastifyError } from "./fastify.ts";

/** An error as it is sent. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly code: string;
    /** The field at fault, such as `0.sla`. */
    readonly param: string | null;
    /** Facts for programs, such as `earliest_sla_minutes`. */
    readonly [fact: string]: unknown;
  };
}

/** Why no work is taken. It is shown to callers without a key, so it names no path. */
export interface Unready {
  readonly code: Extract<ErrorCode, "closed" | "disk_full" | "store_failed">;
  readonly message: string;
}

/** The service takes no work now: 503, whatever the status of such an error is elsewhere. */
export class NotReady extends Error {
  readonly code: Unready["code"];

  constructor({ code, message }: Unready) {
    super(message);
    this.code = code;
  }
}

/** A refusal whose status and code were chosen where it was thrown, such as that of a provider. */
export class StatedError extends Error {
  readonly answer: ErrorAnswer;

  /** `headers` beside the usual ones, such as `retry-after`. */
  constructor(
    status: number,
    {
      code,
      message,
      param = null,
      headers = {},
    }: {
      readonly code: string;
      readonly message: string;
      readonly param?: string | null;
      readonly headers?: Readonly<Record<string, string>>;
    },
  ) {
    super(message);
    this.answer = { ...plain(status, code, message, param), headers };
  }
}

const STATUSES: Readonly<Record<ErrorCode, number>> = {
  usage: 422,
  invalid_config: 500,
  unsupported_encoding: 415,
  invalid_array: 400,
  duplicate_key: 422,
  input_unreadable: 500,
  input_changed: 500,
  output_unwritable: 507,
  output_changed: 500,
  data_dir_in_use: 503,
  data_dir_newer: 500,
  data_dir_older: 500,
  store_damaged: 500,
  store_failed: 503,
  disk_full: 507,
  internal_error: 500,
  interrupted: 503,
  closed: 503,
  not_found: 404,
  file_damaged: 410,
  conflict: 409,
  not_ready: 409,
  too_large: 413,
  too_many: 422,
  sla_infeasible: 429,
  budget_exceeded: 402,
  unauthenticated: 401,
  forbidden: 403,
  invalid_request: 400,
  too_deep: 400,
  blocked_destination: 422,
  idempotency_in_progress: 409,
  idempotency_mismatch: 409,
};

/** What the framework refuses by itself, by its status. */
const FRAMEWORK_ERRORS: Readonly<Record<number, { readonly code: string; readonly message: string }>> = {
  400: { code: "invalid_request", message: "the request is not well formed" },
  404: { code: "not_found", message: "there is nothing at this address" },
  413: { code: "too_large", message: "the body is larger than is taken here" },
  414: { code: "too_large", message: "the address is longer than is taken here" },
  415: {
    code: "unsupported_media_type",
    message:
      "the body must be JSON in UTF-8, not compressed, with the Content-Type application/json (an upload: multipart/form-data; a cluster: also application/yaml)",
  },
};

/** The one text for what is not there and what is another project's. */
const NOT_FOUND = "nothing with this id is in your project";
const INTERNAL = "the service failed; the request may be tried again";

/** Details that have a separate place. */
const PLACED_DETAILS: readonly string[] = ["param", "retryAfterSeconds"];

/** Returns what to answer; `isOurs` means that the error is to be logged. */
export function answerOf(error: unknown): ErrorAnswer & { readonly isOurs: boolean } {
  if (error instanceof PerigeeError) return answerOfPerigee(error);
  if (error instanceof NotReady)
    return { ...plain(503, error.code, error.message), headers: headersOf(503, Number.NaN) };
  if (error instanceof StatedError) return { ...error.answer, isOurs: false };
  const { statusCode, validation } = error as Partial<FastifyError>;
  if (validation !== undefined) return answerOfValidation(error as FastifyError);
  const known = statusCode === undefined ? undefined : FRAMEWORK_ERRORS[statusCode];
  if (statusCode !== undefined && known !== undefined) return plain(statusCode, known.code, known.message);
  return { ...plain(500, "internal_error", INTERNAL), isOurs: true };
}

/** An answer without a cause in the code, such as 405. */
export function plain(
  status: number,
  code: string,
  message: string,
  param: string | null = null,
): ErrorAnswer & { readonly isOurs: boolean } {
  return { status, headers: {}, error: { message, type: typeOf(status), code, param }, isOurs: false };
}

/** The bytes that are sent. */
export function envelope(error: ErrorAnswer["error"], requestId: string): string {
  return JSON.stringify({ error, request_id: requestId });
}

function answerOfPerigee(error: PerigeeError): ErrorAnswer & { readonly isOurs: boolean } {
  const { code, details } = error;
  const param = typeof details["param"] === "string" ? details["param"] : null;
  const retryAfter = Number(details["retryAfterSeconds"] ?? Number.NaN);
  const isRate = code === "too_many" && retryAfter >= 0;
  const status = isRate ? 429 : STATUSES[code];
  if (status === 500) return { ...plain(500, "internal_error", INTERNAL), isOurs: true };
  const message = status === 503 || status === 507 ? unavailable(status) : messageOf(error);
  const facts = status < 500 && code !== "not_found" ? factsOf(details) : {};
  return {
    status,
    headers: headersOf(status, retryAfter),
    error: { message, type: typeOf(status), code: publicCode(code, isRate), param, ...facts },
    isOurs: status >= 500,
  };
}

function messageOf({ code, message }: PerigeeError): string {
  if (code === "not_found") return NOT_FOUND;
  return message;
}

/** `usage` is what the command line and the library say of a wrong argument. */
function publicCode(code: ErrorCode, isRate: boolean): string {
  if (isRate) return "rate_limited";
  return code === "usage" ? "invalid_request" : code;
}

function unavailable(status: number): string {
  return status === 507 ? "the service has no room to store this" : "the service is not available now";
}

function headersOf(status: number, retryAfterSeconds: number): Readonly<Record<string, string>> {
  if (status === 401) return { "www-authenticate": 'Bearer realm="perigee"' };
  if (retryAfterSeconds >= 0) return { "retry-after": String(Math.ceil(retryAfterSeconds)) };
  return status === 503 || status === 507 ? { "retry-after": "30" } : {};
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 402) return "insufficient_quota";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function factsOf(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(details)
      .filter(([name]) => !PLACED_DETAILS.includes(name))
      .map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  );
}

/** From the schemas of routes: where, and what was expected; never what was found. */
function answerOfValidation({ validation, validationContext }: FastifyError): ErrorAnswer & {
  readonly isOurs: boolean;
} {
  const first = validation?.[0];
  const path = (first?.instancePath ?? "").split("/").filter(Boolean).join(".");
  const place = path === "" ? (validationContext ?? "body") : path;
  return plain(422, "invalid_request", `${place}: ${first?.message ?? "not as documented"}`, place);
}
