/**
 * A finished run that is called again: nothing is sent where its input and its output are what they were.
 *
 *   file     in the same state          -> its summary
 *            touched                    -> is read again
 *   stream   read as far as the run was -> its summary, or `input_changed`
 */
import { PerigeeError } from "../errors.ts";
import type { StoredTask } from "../store/store.ts";
import { isSameState, openInput, type Source } from "./input.ts";
import type { EngineParts } from "./parts.ts";
import type { Summary } from "./progress.ts";
import type { TaskBody } from "./task_body.ts";
import { spoolPath } from "./task_files.ts";

/** A run that was over before. */
export interface FinishedRun {
  readonly kind: "finished";
  readonly taskId: string;
  readonly body: TaskBody;
  readonly summary: Summary;
  /** False when the run was left before its stream was compared with what the run had answered. */
  readonly isChecked: boolean;
}

/** Undefined when the input was touched, so that it must be read again. Throws `output_changed`, `input_changed`. */
export async function askAgain(
  parts: EngineParts,
  task: StoredTask,
  body: TaskBody,
  source: Source,
  left: Promise<void>,
): Promise<FinishedRun | undefined> {
  if (body.summary === undefined) return undefined;
  const output = await parts.disk.stat(body.out);
  if (output?.sizeBytes !== body.outBytes) {
    throw new PerigeeError(
      "output_changed",
      `${body.out} is not what the finished run left (${output?.sizeBytes ?? "no"} bytes, expected ${body.outBytes}); put it back, or start over with another --data`,
    );
  }
  const now = typeof source === "string" ? await parts.disk.stat(source) : undefined;
  const isFile = typeof source === "string" && now?.isSeekable !== false;
  const isSame =
    isFile &&
    body.input !== undefined &&
    now !== undefined &&
    isSameState(body.input, { name: source, ...now });
  if (isFile ? !isSame : body.input !== undefined) return undefined;
  const isChecked = isFile || (await isRepeated(parts, task.id, body, source, left));
  return { kind: "finished", taskId: task.id, body, summary: body.summary, isChecked };
}

/** Whether a stream is what the finished run was given; false when the run was left meanwhile. */
async function isRepeated(
  parts: EngineParts,
  taskId: string,
  body: TaskBody,
  source: Source,
  left: Promise<void>,
): Promise<boolean> {
  const { spool } = await openInput(parts, source, spoolPath(parts, taskId));
  if (spool === undefined) return false;
  const matched = spool.match(body.lines !== undefined).then(() => true);
  try {
    return await Promise.race([matched, left.then(() => false)]);
  } finally {
    await spool.close();
  }
}
