/**
 * The closed sets of codes: `ErrorCode` for what is thrown at a caller, `FailureCode` for what an item ends with.
 *
 * A `PerigeeError` is the fault of a call (arguments, configuration, the world); a failure is data and belongs
 * to one item (`work/outcome.ts`). Programs branch on codes, people read messages.
 */

/** Codes of thrown errors. */
export type ErrorCode =
  | "usage" // the command line or an argument is wrong
  | "invalid_config" // a configuration file, option or environment variable is wrong
  | "input_unreadable" // the input cannot be opened or read
  | "input_changed" // the input is not the file that this run began with
  | "unsupported_encoding" // UTF-16, gzip or zip bytes where JSONL was expected
  | "invalid_array" // a .json file, or a stream that began as an array, that is not one array
  | "duplicate_key" // two lines carry the same key
  | "output_unwritable" // the output cannot be opened or written
  | "output_changed" // the output no longer holds what was recorded
  | "data_dir_in_use" // another process holds the data folder
  | "data_dir_newer" // the data folder was written by a newer version
  | "data_dir_older" // the data folder was written by a version too old to be read
  | "store_damaged" // recorded state does not pass its checks
  | "store_failed" // the store could not write or sync
  | "disk_full" // no space left, and none was freed in time
  | "internal_error" // a fault of perigee itself
  | "interrupted" // stopped by a signal; the same command continues
  | "closed" // the engine was closed
  | "not_found" // no task or object with that id
  | "file_damaged" // the bytes of a file are missing or not those that were stored
  | "conflict" // the id is in use by other work
  | "not_ready" // asked for what is not there yet
  | "too_large" // more bytes than are taken
  | "too_deep" // objects and lists nested in each other beyond the bound
  | "too_many" // more items or calls than are taken
  | "sla_infeasible" // the window is too short for what waits already
  | "budget_exceeded" // the project's spending cap leaves no money for it
  | "unauthenticated" // no key, or one that is not accepted
  | "forbidden" // the key may not do this
  | "invalid_request" // what was sent does not have the documented form
  | "idempotency_mismatch" // the Idempotency-Key was used before with another request
  | "idempotency_in_progress" // the first request with this Idempotency-Key is not answered yet
  | "blocked_destination"; // an address that requests of users may not go to

/** Codes of failed items, as `error.code` in the output. */
export type FailureCode =
  | "invalid_json"
  | "invalid_line"
  | "invalid_utf8"
  | "line_too_long"
  | "too_deep"
  | "duplicate_member"
  | "invalid_key"
  | "duplicate_key"
  | "unknown_model"
  | "provider_missing" // no provider of that name is configured
  | "key_missing" // the provider needs a key, and it is not set
  | "price_unknown" // a cost cap cannot bound a model whose price nobody knows
  | "invalid_config"
  | "invalid_contents"
  | "unsupported_request"
  | "media_unreadable" // a file that it names is missing or cannot be sent
  | "tokenizer_failed"
  | "ambiguous"
  | "expired"
  | "cancelled"
  | "budget_exceeded"
  | "cost_unbounded" // under a cap, and nothing bounds what it may cost
  | "rate_limited"
  | "request_too_large"
  | "context_length_exceeded"
  | "invalid_request"
  | "model_not_found"
  | "authentication_failed"
  | "quota_exceeded"
  | "filtered"
  | "empty_output"
  | "invalid_response"
  | "schema_unmet" // answered as often as allowed, and no answer fits the schema
  | "response_too_large"
  | "provider_error"
  | "overloaded"
  | "timeout"
  | "connection_failed"
  | "connection_lost"
  | "input_changed"
  | "output_damaged";

/** Thrown for the fault of a call or of the world. The message says what was found, what was expected, and where. */
export class PerigeeError extends Error {
  readonly code: ErrorCode;
  /** Facts for programs, e.g. `{ lines: [3, 9] }`; never a prompt, a key or a provider's body. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly details?: Readonly<Record<string, unknown>> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "PerigeeError";
    this.code = code;
    this.details = options.details ?? {};
  }
}

/** The message of what was thrown, which can be any value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The refusal of a member, parameter or header of a request. */
export function refusedParam(param: string, message: string, cause?: unknown): PerigeeError {
  return new PerigeeError("usage", `${param}: ${message}`, {
    ...(cause === undefined ? {} : { cause }),
    details: { param },
  });
}

/** Whether it was thrown with this code. */
export function hasCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof PerigeeError && error.code === code;
}

/** What was looked for; undefined where the call rejects with `not_found`, and as it rejects with any other error. */
export async function ifFound<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (hasCode(error, "not_found")) return undefined;
    throw error;
  }
}
