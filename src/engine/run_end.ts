/**
 * The end of what was not sent: one pass over the input in which every line that is neither done nor in flight ends as
 * `expired` or `cancelled`.
 *
 * Keys are read again instead of kept, so that ten million waiting lines cost nothing until here. At most some
 * thousand lines are staged at a time; the disk sets the pace.
 */
import { readBlocks } from "../jsonl/read.ts";
import type { MeasuredBlock } from "../shard/measured.ts";
import type { EngineParts } from "./parts.ts";
import type { OpenedRun } from "./run_open.ts";
import { endMessage } from "./sender.ts";
import { settleUnsent } from "./settle.ts";

/** Lines staged between two looks at the disk; while they are committed, as many more are staged. */
const STAGED_MAX = 8_192;

/** Resolves when every such line is durable. Lines that are faulty get their own error, as they would have. */
export async function endRest(
  parts: EngineParts,
  opened: Extract<OpenedRun, { kind: "open" }>,
  status: "expired" | "cancelled",
): Promise<void> {
  const { state, body } = opened;
  const { done, log } = state.settings;
  const message = endMessage(status);
  let staged = 0;
  let committed: Promise<void> = Promise.resolve();
  const isOver = (line: number): boolean => done.has(line) || state.claimed.has(line);
  const end = (line: number, key: string | null, code: Parameters<typeof settleUnsent>[3]): void => {
    if (isOver(line)) return;
    state.claimed.add(line);
    settleUnsent(state, line, key, code);
    staged += 1;
  };
  const endMeasured = async (measured: MeasuredBlock): Promise<void> => {
    for (const { line, key, code, message: why } of measured.rejected) {
      end(line, key === null ? null : JSON.stringify(key), { status: "failed", code, message: why });
    }
    for (let index = 0; index < measured.count; index += 1) {
      end(measured.lines[index] as number, keyOf(measured, index), { status, code: status, message });
    }
    if (staged < STAGED_MAX) return;
    staged = 0;
    await committed;
    committed = log.settled();
  };
  const options = { wantBodies: false, wantCounts: false, modelOverride: body.model };
  const waiting: Promise<MeasuredBlock>[] = [];
  for await (const event of readBlocks(opened.input.file, { lineBytesMax: parts.lineBytesMax })) {
    if (event.kind === "refused") {
      end(event.refused.line, null, {
        status: "failed",
        code: "line_too_long",
        message: "the line is too long",
      });
      continue;
    }
    const { firstLine, lineCount } = event.block;
    state.linesRead = Math.max(state.linesRead, firstLine + lineCount - 1);
    if (done.size > 0 && done.countWithin(firstLine, firstLine + lineCount - 1) === lineCount) continue;
    waiting.push(parts.measurer.measure(event.block, options));
    const first = waiting.length > parts.measurer.concurrency ? waiting.shift() : undefined;
    if (first !== undefined) await endMeasured(await first);
  }
  for (const measured of waiting) await endMeasured(await measured);
  await log.settled();
}

function keyOf(measured: MeasuredBlock, index: number): string {
  const start = index === 0 ? 0 : (measured.keyEnds[index - 1] as number);
  return Buffer.from(measured.keys.buffer, start, (measured.keyEnds[index] as number) - start).toString();
}
