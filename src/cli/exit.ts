/**
 * How errors look on a terminal, and which exit code each error means. Those of runs that end: run/run.ts.
 */

import { styleText } from "node:util";
import { type ErrorCode, PerigeeError } from "../errors.ts";
import { outputFailure } from "./closed_output.ts";

/** Codes are from sysexits.h where it has one (74: input or output). */
const EXIT_CODES: Readonly<Record<ErrorCode, number>> = {
  usage: 2,
  invalid_config: 2,
  unsupported_encoding: 74,
  invalid_array: 74,
  duplicate_key: 74,
  input_unreadable: 74,
  input_changed: 74,
  output_unwritable: 74,
  output_changed: 74,
  data_dir_in_use: 74,
  data_dir_newer: 74,
  data_dir_older: 74,
  file_damaged: 74,
  store_damaged: 74,
  store_failed: 74,
  disk_full: 74,
  internal_error: 1,
  interrupted: 130,
  closed: 130,
  not_found: 2,
  conflict: 2,
  not_ready: 2,
  too_large: 74,
  too_deep: 74,
  too_many: 2,
  sla_infeasible: 2,
  budget_exceeded: 2,
  unauthenticated: 2,
  forbidden: 2,
  invalid_request: 2,
  idempotency_mismatch: 2,
  idempotency_in_progress: 2,
  blocked_destination: 2,
};

/** Of what the operating system refused, the calls that only read. */
const READING_CALLS: readonly string[] = ["read", "stat", "fstat", "lstat"];

const LISTEN_FAULTS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is taken: end the process that has it, or choose another port",
  EACCES: "needs more rights: choose a port from 1024",
  EADDRNOTAVAIL: "cannot be opened: this machine does not have the address",
};

/** 1 means a fault of perigee: a bug. */
export function exitCodeOf(thrown: unknown): number {
  const error = ofUser(thrown);
  if (error instanceof PerigeeError) return EXIT_CODES[error.code];
  return isSystemError(error) ? EXIT_CODES[systemCode(error)] : 1;
}

/** One line for what a user can mend, the stack for what only we can. */
export function printError(thrown: unknown): void {
  const error = ofUser(thrown);
  const label = styleText("red", "perigee:", { stream: process.stderr });
  if (error instanceof PerigeeError) {
    process.stderr.write(`${label} ${error.code}: ${error.message}\n`);
  } else if (isSystemError(error)) {
    process.stderr.write(`${label} ${systemCode(error)}: ${error.message}\n`);
  } else {
    process.stderr.write(
      `${label} internal error, please report it\n${error instanceof Error ? error.stack : String(error)}\n`,
    );
  }
}

/** The error as `--json` shows it; `status` is that of what the error ended. */
export function errorJson(error: unknown, status: "failed" | "paused" = "failed"): string {
  const known = ofUser(error);
  const { code, message, details } = known instanceof PerigeeError ? known : otherError(known);
  const reason = status === "paused" ? { reason: code } : {};
  return JSON.stringify({ status, ...reason, error: { code, message, ...details } });
}

function otherError(error: unknown): {
  readonly code: string;
  readonly message: string;
  readonly details: object;
} {
  return isSystemError(error)
    ? { code: systemCode(error), message: error.message, details: {} }
    : { code: "internal_error", message: "internal error", details: {} };
}

/** The same error, or `usage` for a port that the command was given and that cannot be opened. */
function ofUser(error: unknown): unknown {
  if (!isSystemError(error) || error.syscall !== "listen") return error;
  const { code, address, port } = error as SystemError & ListenError;
  const why = LISTEN_FAULTS[code];
  if (why === undefined) return error;
  return new PerigeeError("usage", `port ${port} of ${address} ${why}`, { cause: error });
}

/** What the operating system refused: a folder where a file should be, no permission. Its message names the path. */
function isSystemError(error: unknown): error is SystemError {
  return error instanceof Error && "syscall" in error && "errno" in error;
}

interface SystemError extends Error {
  readonly syscall: unknown;
}

interface ListenError {
  readonly code: string;
  readonly address: string;
  readonly port: number;
}

function systemCode({ syscall }: SystemError): "input_unreadable" | "output_unwritable" {
  return READING_CALLS.includes(String(syscall)) ? "input_unreadable" : "output_unwritable";
}

const STANDS_STILL =
  "the command waits for an event that cannot happen, a fault of perigee: please report it; nothing recorded is lost, " +
  "run the same command again to continue";

/** Nothing is left that could wake the command, and it has not ended: Node would end it with 13, which says nothing. */
export function standStill(): void {
  printError(new PerigeeError("internal_error", STANDS_STILL));
  process.exit(exitCodeOf(undefined));
}

/** Ends the process with its exit code once what it wrote has left it: an open timer or socket keeps no finished command alive. */
export async function endProcess(): Promise<never> {
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => stream.write("", () => resolve()));
  const failure = outputFailure();
  if (failure !== undefined) {
    printError(failure);
    process.exitCode ||= exitCodeOf(failure);
  }
  process.exit();
}
