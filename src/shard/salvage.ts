/**
 * What becomes of a block that killed its thread: measured again in a fresh one, and when that dies too, halved until
 * only the poison line is left. That line is rejected with `tokenizer_failed`; all others are measured.
 *
 *   block died -> whole again -> halves -> ... -> one line -> once more -> rejected
 *
 * Halves are made with the `skip` bitmap, so that line numbers and offsets stay as they are.
 */
import type { Block } from "../jsonl/block.ts";
import type { MeasureOptions } from "./measure.ts";
import type { MeasuredBlock, MeasuredGroup, RejectedLine } from "./measured.ts";
import { skipOutside } from "./skip.ts";

/** Measures in a thread that runs nothing else; rejects when the thread dies. Leaves the block to its caller. */
export type LoneMeasure = (block: Block, options: MeasureOptions) => Promise<MeasuredBlock>;

/** Measures a block of which any line may be poison. `keyOf` reads a poison line's key without measuring it. */
export async function salvageBlock(
  block: Block,
  options: MeasureOptions,
  measure: LoneMeasure,
  keyOf: (line: Uint8Array) => string | null,
): Promise<MeasuredBlock> {
  const measureRange = (from: number, to: number): Promise<MeasuredBlock> =>
    measure(block, { ...options, skip: skipOutside(block.lineCount, from, to, options.skip) });
  const salvageRange = async (from: number, to: number): Promise<MeasuredBlock> => {
    try {
      return await measureRange(from, to);
    } catch (error) {
      if (to - from > 1) {
        const middle = (from + to) >>> 1;
        return joinMeasured(await salvageRange(from, middle), await salvageRange(middle, to));
      }
      // The thread may have died late, of the range before this line: only a second death is the line's own. A block
      // of one line has died once before it is passed here.
      const again = block.lineCount === 1 ? Promise.reject(error) : measureRange(from, to);
      return again.catch(() => rejectLine(block.firstLine + from, keyOf(lineOf(block, from)), error));
    }
  };
  return salvageRange(0, block.lineCount);
}

/** Joins the measurements of two runs of lines; the lines of `first` are before those of `second`. */
export function joinMeasured(first: MeasuredBlock, second: MeasuredBlock): MeasuredBlock {
  const groups: MeasuredGroup[] = [...first.groups, ...second.groups];
  const groupOf = new Uint16Array(first.count + second.count);
  groupOf.set(first.groupOf);
  for (let item = 0; item < second.count; item += 1) {
    groupOf[first.count + item] = (second.groupOf[item] as number) + first.groups.length;
  }
  return {
    count: first.count + second.count,
    lines: joinWords(first.lines, second.lines, 0),
    offsets: Float64Array.from([...first.offsets, ...second.offsets]),
    lengths: joinWords(first.lengths, second.lengths, 0),
    inputTokens: joinWords(first.inputTokens, second.inputTokens, 0),
    maxOutputTokens: joinWords(first.maxOutputTokens, second.maxOutputTokens, 0),
    most: joinWords(first.most, second.most, 0),
    groupOf,
    ...joinWarnings(first, second),
    keys: joinBytes(first.keys, second.keys),
    keyEnds: joinWords(first.keyEnds, second.keyEnds, first.keys.byteLength),
    bodies: joinBytes(first.bodies, second.bodies),
    bodyEnds: joinWords(first.bodyEnds, second.bodyEnds, first.bodies.byteLength),
    groups,
    rejected: [...first.rejected, ...second.rejected],
    blankLines: first.blankLines + second.blankLines,
  };
}

/** A measured block without items, of one rejected line. */
function rejectLine(line: number, key: string | null, error: unknown): MeasuredBlock {
  const reason = error instanceof Error ? error.message : "unknown reason";
  const rejected: RejectedLine = {
    line,
    key,
    code: "tokenizer_failed",
    message: `the line could not be measured: its thread ended twice (${reason})`,
  };
  return {
    count: 0,
    lines: new Uint32Array(0),
    offsets: new Float64Array(0),
    lengths: new Uint32Array(0),
    inputTokens: new Uint32Array(0),
    maxOutputTokens: new Uint32Array(0),
    most: new Uint32Array(0),
    groupOf: new Uint16Array(0),
    warnings: new Uint16Array(0),
    warningLists: [],
    keys: new Uint8Array(0),
    keyEnds: new Uint32Array(0),
    bodies: new Uint8Array(0),
    bodyEnds: new Uint32Array(0),
    groups: [],
    rejected: [rejected],
    blankLines: 0,
  };
}

/** The bytes of the line at `index` in the block, with its line end. */
function lineOf(block: Block, index: number): Uint8Array {
  let start = 0;
  for (let line = 0; line < index; line += 1) start = block.bytes.indexOf(0x0a, start) + 1;
  const end = block.bytes.indexOf(0x0a, start);
  return block.bytes.subarray(start, end === -1 ? undefined : end + 1);
}

function joinWarnings(
  first: MeasuredBlock,
  second: MeasuredBlock,
): Pick<MeasuredBlock, "warnings" | "warningLists"> {
  const shift = first.warningLists.length;
  const shifted = Array.from(second.warnings, (number) => (number === 0 ? 0 : number + shift));
  return {
    warnings: Uint16Array.from([...first.warnings, ...shifted]),
    warningLists: [...first.warningLists, ...second.warningLists],
  };
}

function joinWords(first: Uint32Array, second: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const joined = new Uint32Array(first.length + second.length);
  joined.set(first);
  for (let index = 0; index < second.length; index += 1) {
    joined[first.length + index] = (second[index] as number) + shift;
  }
  return joined;
}

function joinBytes(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}
