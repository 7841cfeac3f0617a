/**
 * The end of a run whose every line is settled: its output is checked, put in order if asked to, and its summary stored.
 *
 * Both wait for space on the disk, unless a caller stops the run meanwhile; the next call then says that all is done.
 */
import { resolve } from "node:path";
import { hasCode } from "../../errors.ts";
import { putInOrder } from "../files/order.ts";
import { checkOutput, noteChanged } from "../files/output_check.ts";
import { encodeBody, type TaskBody } from "../files/task_body.ts";
import type { Summary } from "../items/progress.ts";
import { checksumText, lengthOf } from "../journal/checksum.ts";
import { damageNotice } from "../journal/output.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { renewReceipts, writeReceipts } from "../receipts/run_receipts.ts";
import type { FinishedRun } from "../reopening/run_again.ts";
import type { OpenedRun } from "./run_open.ts";

type OpenRun = Extract<OpenedRun, { kind: "open" }>;

interface Finishing {
  /** Aborts when a caller stops the run. */
  readonly signal: AbortSignal;
  readonly completed: () => Summary;
  readonly stopped: () => Summary;
  /** Where its receipts are written; undefined: nowhere. */
  readonly receipts: string | undefined;
}

/** Resolves with the summary once it is durable, or with the one of a stopped run. */
export async function finishRun(
  storage: EngineStorage,
  opened: OpenRun,
  { signal, completed, stopped, receipts }: Finishing,
): Promise<Summary> {
  const { task, body, output } = opened;
  const { disk, store, room } = storage;
  try {
    const answers = checksumText(output.crc32, output.end);
    await checkOutput(disk, output.path, answers).catch((error: unknown) => {
      if (!opened.keepsDamage || !hasCode(error, "output_changed")) throw error;
      storage.notice(damageNotice(output.path));
    });
    const outChecksum = body.isOrdered ? await putInOrder(storage, task.id, body, output, signal) : answers;
    if (body.isOrdered) await checkOutput(disk, body.out, outChecksum);
    const summary = completed();
    const run = { taskId: task.id, body, summary };
    const written =
      receipts === undefined
        ? {}
        : { receipts: await writeReceipts(storage, run, resolve(receipts), signal) };
    const stream = await streamEnd(opened);
    const outBytes = lengthOf(outChecksum);
    const end = encodeBody({ ...body, ...stream, status: "completed", outBytes, outChecksum, summary });
    await room.waitFor(() => store.putTask({ ...task, body: end }), { signal });
    return { ...summary, ...written };
  } catch (error) {
    if (error !== signal.reason) throw await noteChanged(storage, task, body, error);
    return stopped();
  }
}

/** The summary of a run that was over before; its receipts are written if they are missing. */
export async function finishAgain(
  storage: EngineStorage,
  { taskId, body, summary: stored }: FinishedRun,
  summary: Summary,
  { receipts, signal }: Pick<Finishing, "receipts" | "signal">,
): Promise<Summary> {
  if (receipts === undefined) return summary;
  const run = { taskId, body, summary: stored };
  return { ...summary, receipts: await renewReceipts(storage, run, resolve(receipts), signal) };
}

/** What is kept of a stream when its copy is not. */
async function streamEnd({ input, state }: OpenRun): Promise<Pick<TaskBody, "streamChecksum" | "lines">> {
  if (input.spool === undefined) return {};
  const streamChecksum = await input.spool.checksum();
  return input.spool.isWhole ? { streamChecksum, lines: state.linesRead } : { streamChecksum };
}
