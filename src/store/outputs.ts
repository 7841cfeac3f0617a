/**
 * Outputs that go with journal entries: written before the entries are appended, synced beside that.
 *
 * A failure says whose output it is, whether the write or the sync failed, and the system's code: no space for a write
 * can be waited for, a sync that failed is final.
 */
import { type DiskFile, errorCodeOf } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import type { JournalEntry } from "./store.ts";

/** An output, and whose it is. */
export type OwnedOutput = Pick<JournalEntry, "taskId" | "output">;

/** What an `output_unwritable` of `append` says of itself. */
export interface OutputFailure {
  readonly taskId: string;
  readonly operation: "write" | "sync";
  /** The system's, such as `"ENOSPC"`. */
  readonly systemCode: string;
}

/** The error for an output that could not be written or synced. */
export function outputError(
  taskId: string,
  operation: OutputFailure["operation"],
  cause: unknown,
): PerigeeError {
  const systemCode = errorCodeOf(cause) ?? "unknown error";
  const verb = operation === "write" ? "written" : "synced";
  const details: OutputFailure = { taskId, operation, systemCode };
  const message = `the output could not be ${verb} (${systemCode})`;
  return new PerigeeError("output_unwritable", message, { cause, details: { ...details } });
}

/** What the error says, when it is one of these. */
export function outputFailureOf(error: unknown): OutputFailure | undefined {
  if (!(error instanceof PerigeeError) || error.code !== "output_unwritable") return undefined;
  const { taskId, operation, systemCode } = error.details;
  if (typeof taskId !== "string" || typeof systemCode !== "string") return undefined;
  return { taskId, systemCode, operation: operation === "sync" ? "sync" : "write" };
}

/** For stores that have no thread of their own: writes all outputs, those of one file one after another. */
export async function writeOutputs(entries: readonly OwnedOutput[]): Promise<void> {
  const writes = new Map<DiskFile, Promise<void>>();
  for (const { taskId, output } of entries) {
    if (output === undefined) continue;
    const { file, bytes, position } = output;
    const written = (writes.get(file) ?? Promise.resolve()).then(() =>
      file.write(bytes, position).catch((error: unknown) => {
        throw outputError(taskId, "write", error);
      }),
    );
    writes.set(file, written);
  }
  await settleAll([...writes.values()]);
}

/** For stores that have no thread of their own: syncs each file once. */
export async function syncOutputs(entries: readonly OwnedOutput[]): Promise<void> {
  const taskOf = new Map<DiskFile, string>();
  for (const { taskId, output } of entries) if (output !== undefined) taskOf.set(output.file, taskId);
  await settleAll(
    [...taskOf].map(([file, taskId]) =>
      file.sync().catch((error: unknown) => {
        throw outputError(taskId, "sync", error);
      }),
    ),
  );
}

/** Settles when entries are appended and their outputs synced, so that nothing of a rejected call takes effect later. */
export async function besideSync(appended: Promise<void>, synced: Promise<void>): Promise<void> {
  await settleAll([appended, synced]);
}

/** Rejects with the first error, but not before all have settled. */
async function settleAll(promises: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(promises);
  await Promise.all(promises);
}

export function hasOutputs(entries: readonly OwnedOutput[]): boolean {
  return entries.some((entry) => entry.output !== undefined);
}
