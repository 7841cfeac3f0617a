/**
 * Where the answers of a part of a task are: in the part's own lot, and for lines that were run again in the lot of the
 * last retry which has them. A line of a retry has the number that it has in the part.
 */
import type { LineSet } from "../../work/line_set.ts";
import { unpackLines } from "../lots/line_bits.ts";
import type { Lot } from "../lots/lot.ts";
import type { Lots } from "../lots/lots.ts";
import type { TaskPart, TaskRecord } from "../lots/task_record.ts";

/** A lot with lines of a part. */
export interface Layer {
  readonly lot: Lot;
  /** As the task names it, and its number among the task's parts. */
  readonly part: TaskPart;
  readonly index: number;
  /** Of the task's objects: the part that they are numbered by. */
  readonly base: number;
  /** The part's own lot is shared with other tasks. */
  readonly isShared: boolean;
  /** Later retries have lines of it. */
  readonly isOverlaid: boolean;
  /** Whether the line of the part with this number, from 1, is in this layer. */
  readonly stands: (number: number) => boolean;
}

const asked = new WeakMap<Lot, LineSet>();

/** The numbers of the parts that are no retries: they have the task's objects. */
export function basesOf({ parts }: Pick<TaskRecord, "parts">): readonly number[] {
  return [...parts.keys()].filter((index) => parts[index]?.again === undefined);
}

/** The lots of a part that is no retry, its own first. */
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
  return layers.find(({ stands }) => stands(number)) as Layer; // the part's own lot has all that no other has
}

function linesOf(lot: Lot): LineSet {
  const known = asked.get(lot) ?? unpackLines(lot.record.again?.lines ?? "");
  asked.set(lot, known);
  return known;
}
