/**
 * Where the answers of a part of a task are: in the part's own lot, or for lines that ran again in the lot of the last retry that has
 * them. A line of a retry keeps its number in the part.
 */
import type { LineSet } from "../../work/line_set.ts";
import { unpackLines } from "../lots/line_bits.ts";
import type { Lot } from "../lots/lot.ts";
import type { Lots } from "../lots/lots.ts";
import type { TaskPart, TaskRecord } from "../lots/task_record.ts";

/** A lot with lines of a part. */
export interface Layer {
  readonly lot: Lot;
  /** The part in the task's record, and its index there. */
  readonly part: TaskPart;
  readonly index: number;
  /** The part by which the task's objects are numbered. */
  readonly base: number;
  /** The part's own lot is shared with other tasks. */
  readonly isShared: boolean;
  /** Later retries have some of its lines. */
  readonly isOverlaid: boolean;
  /** Whether the current line of the part with this number, from 1, is in this layer. */
  readonly stands: (number: number) => boolean;
}

const asked = new WeakMap<Lot, LineSet>();

/** The indexes of the parts that are not retries: they have the task's objects. */
export function basesOf({ parts }: Pick<TaskRecord, "parts">): readonly number[] {
  return [...parts.keys()].filter((index) => parts[index]?.again === undefined);
}

/** The lots of a part that is not a retry, its own first. */
export async function layersOf(
  lots: Pick<Lots, "find">,
  { parts }: Pick<TaskRecord, "parts">,
  base: number,
): Promise<readonly Layer[]> {
  const own = parts[base] as TaskPart;
  const found = [
    { lot: await lots.find(own.lotId), part: own, index: base, lines: undefined as LineSet | undefined },
  ];
  for (const [index, part] of parts.entries()) {
    if (part.again?.part !== base) continue;
    const lot = await lots.find(part.lotId);
    found.push({ lot, part, index, lines: linesOf(lot) });
  }
  const isShared = found[0]?.lot.record.taskId === undefined;
  return found.map(({ lines, ...layer }, place) => ({
    ...layer,
    base,
    isShared,
    isOverlaid: place < found.length - 1,
    stands: (number) =>
      (lines === undefined || lines.has(number)) &&
      !found.slice(place + 1).some((later) => later.lines?.has(number) === true),
  }));
}

/** The layer of a line of the part. */
export function layerOf(layers: readonly Layer[], number: number): Layer {
  return layers.find(({ stands }) => stands(number)) as Layer; // the part's own lot has all other lines
}

function linesOf(lot: Lot): LineSet {
  const known = asked.get(lot) ?? unpackLines(lot.record.again?.lines ?? "");
  asked.set(lot, known);
  return known;
}
