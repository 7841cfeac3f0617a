/**
 * A finished run that is called again: nothing is sent where its input and its output are what they were.
 *
 *   file     in the same state          -> its summary
 *            touched                    -> is read again, and its summary where it holds the same
 *   stream   read as far as the run was -> its summary, or `input_changed`
 */
import type { Disk } from "../../disk.ts";
import { lineEnds } from "../../jsonl/lines.ts";
import type { StoredTask } from "../../store/store.ts";
import { leaveSource } from "../files/byte_source.ts";
import { isSameState, openOnce, type Source } from "../files/input.ts";
import { checkOutput, noteChanged } from "../files/output_check.ts";
import { streamChanged } from "../files/spool.ts";
import type { TaskBody } from "../files/task_body.ts";
import { removeWorkFiles } from "../files/task_files.ts";
import type { Summary } from "../items/progress.ts";
import { Checksum } from "../journal/checksum.ts";
import { outputChanged } from "../journal/output.ts";
import type { EngineStorage } from "../journal/storage.ts";

const LF = 0x0a;

/** A run that was over before. */
export interface FinishedRun {
  readonly kind: "finished";
  readonly taskId: string;
  readonly body: TaskBody;
  readonly summary: Summary;
  /** False when the run was left before its stream was compared with what the run had answered. */
  readonly isChecked: boolean;
}

/** Undefined when the input was touched, so that it must be read again. Throws `input_changed`. */
export async function askAgain(
  storage: EngineStorage,
  task: StoredTask,
  body: TaskBody,
  source: Source,
  left: Promise<void>,
): Promise<FinishedRun | undefined> {
  if (body.summary === undefined) return undefined;
  const now = typeof source === "string" ? await storage.disk.stat(source) : undefined;
  const isFile = typeof source === "string" && now?.isSeekable !== false;
  const isSame =
    isFile &&
    body.input !== undefined &&
    now !== undefined &&
    isSameState(body.input, { name: source, ...now });
  if (isFile ? !isSame : body.input !== undefined) return undefined;
  const isChecked = isFile || (await isRepeated(storage.disk, body, source, left));
  await removeWorkFiles(storage, task.id, body); // a crash may have prevented it
  return { kind: "finished", taskId: task.id, body, summary: body.summary, isChecked };
}

/** Throws `output_changed` when the output is not what the run left; of one that an earlier version left only the size is known. */
export async function checkFinished(storage: EngineStorage, task: StoredTask, body: TaskBody): Promise<void> {
  try {
    if (body.outChecksum !== undefined) return await checkOutput(storage.disk, body.out, body.outChecksum);
    const sizeBytes = (await storage.disk.stat(body.out))?.sizeBytes;
    if (sizeBytes === body.outBytes) return;
    throw outputChanged(body.out, sizeBytes === undefined ? undefined : `0:${sizeBytes}`, body.outBytes ?? 0);
  } catch (error) {
    throw await noteChanged(storage, task, body, error);
  }
}

/** Whether a stream is the one that the finished run read; false when the run was left meanwhile. */
async function isRepeated(disk: Disk, body: TaskBody, source: Source, left: Promise<void>): Promise<boolean> {
  const once = await openOnce(disk, source);
  const bytes = once.bytes[Symbol.asyncIterator]();
  const repeated = readAgain(bytes, body.streamChecksum ?? "", body.lines).then(() => true);
  try {
    return await Promise.race([repeated, left.then(() => false)]);
  } finally {
    leaveSource(once, bytes);
  }
}

/** Resolves when the bytes are those of the checksum, and, if its number of `lines` is known, end there. Throws `input_changed`. */
async function readAgain(
  bytes: AsyncIterator<Uint8Array>,
  checksum: string,
  lines: number | undefined,
): Promise<void> {
  const lengthBytes = Number(checksum.split(":")[1] ?? 0);
  const sum = new Checksum();
  let ended = 0;
  let last: number = LF;
  while (sum.lengthBytes < lengthBytes || lines !== undefined) {
    const next = await bytes.next();
    if (next.done === true) break;
    const known = next.value.subarray(0, lengthBytes - sum.lengthBytes);
    sum.add(known);
    ended += lineEnds(known);
    last = known.at(-1) ?? last;
    if (lines !== undefined && known.byteLength < next.value.byteLength)
      throw streamChanged(String(sum) === checksum && last === LF ? "longer" : "other");
  }
  const found = last === LF ? ended : ended + 1;
  if (sum.lengthBytes < lengthBytes)
    throw streamChanged(found < (lines ?? Number.POSITIVE_INFINITY) ? "shorter" : "other");
  if (String(sum) !== checksum) throw streamChanged("other");
}
