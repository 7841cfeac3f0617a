/**
 * Items of a call that continue, or end, apart from its others.
 */
import type { ItemCall } from "./item_call.ts";

/** Items that continue, or end, together. `index`: in the shard of their call. */
export interface CallPart {
  readonly index: number;
  readonly count: number;
  /** Whether they were cancelled by themselves. */
  readonly isSkipped: boolean;
}

/** Whether one of several was cancelled, is done or is with a lane, so that they are to be taken apart. */
export function isBroken({ count, owner, lines }: ItemCall): boolean {
  return count > 1 && lines.some((line) => owner.skips(line) || !owner.items.isOpen(line));
}

/** Runs of its items that were cancelled by themselves, or were not. */
export function partsOf({ index, lines, owner }: ItemCall): readonly CallPart[] {
  const parts: { index: number; count: number; isSkipped: boolean }[] = [];
  for (const [place, line] of lines.entries()) {
    const isSkipped = owner.skips(line);
    const part = parts.at(-1);
    if (part?.isSkipped === isSkipped) part.count += 1;
    else parts.push({ index: index + place, count: 1, isSkipped });
  }
  return parts;
}

/** The items of each half. */
export function halvesOf({ index, count: all }: ItemCall): readonly CallPart[] {
  const count = Math.ceil(all / 2);
  return [
    { index, count, isSkipped: false },
    { index: index + count, count: all - count, isSkipped: false },
  ];
}
