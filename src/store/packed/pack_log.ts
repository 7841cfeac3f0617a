/**
 * Commits of the work log as they move to the store's thread. They are columns already: only their outputs are copied.
 */
import { PerigeeError } from "../../errors.ts";
import type { LogCommit, LogOutput } from "../log_rows.ts";
import type { OwnedOutput } from "../outputs.ts";
import { buffersOfOutputs, CALL_BYTES_MAX } from "./pack_entries.ts";
import type { PackedLog, PackedOutputs } from "./requests.ts";

/** With the numbers of tasks as their ids. */
export function ownedOutputs(outputs: readonly LogOutput[]): OwnedOutput[] {
  return outputs.map(({ task, ...output }) => ({ taskId: String(task), output }));
}

/** Throws `usage` above 512 MiB. */
export function packLog(commit: LogCommit, outputs: PackedOutputs | undefined): PackedLog {
  const packed = { ...commit, outputs };
  const bytes = packedLogBytes(packed);
  if (bytes <= CALL_BYTES_MAX) return packed;
  throw new PerigeeError("usage", `commitLog takes at most ${CALL_BYTES_MAX} bytes, got ${bytes}`);
}

/** What moves instead of being copied. */
export function buffersOfLog({ records, accepted, answers, outputs }: PackedLog): ArrayBuffer[] {
  const own = [records, accepted.requests, answers.records, answers.texts];
  return [...own.map((bytes) => bytes.buffer), ...buffersOfOutputs(outputs)];
}

/** About what it takes in the store. */
export function packedLogBytes({ records, accepted, answers, outputs }: PackedLog): number {
  const own = records.byteLength + accepted.requests.byteLength + answers.texts.byteLength;
  return own + (outputs?.bytes.byteLength ?? 0);
}
