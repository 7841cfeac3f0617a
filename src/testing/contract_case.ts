/**
 * A contract as a list of cases, for any test runner: `for (const { name, run } of storeContract(make)) it(name, run)`.
 */
import assert from "node:assert/strict";
import { type ErrorCode, hasCode } from "../errors.ts";

/** One promise of a port. `run` rejects with an `AssertionError` when it is not kept. */
export interface ContractCase {
  /** A sentence about behaviour. */
  readonly name: string;
  run(): Promise<void>;
}

/** Fails unless the promise rejects with a `PerigeeError` of this code. */
export async function rejectsWith(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error) => hasCode(error, code));
}
