/** The processes that draw from a quota, as rows of its state (`shared_window.ts`). */

/** What is known of a process that draws. */
export interface Holder {
  /** Sequence and answer of the last ask, for its repetition. */
  readonly sequence: number;
  granted: number;
  readonly wasUnknown: boolean;
  readonly askedMs: number;
  readonly lifeMs: number;
  readonly drawMs: number;
  /** Units of its block that count as not yet spent. */
  units: number;
  /** The slot in which the block was charged when it expired. */
  expiredSlot?: number | undefined;
  readonly wanted: number;
  readonly least: number;
  readonly limit: number;
  /** Its turn among those that wait for `least`: lower numbers are served first. Undefined while it does not wait. */
  turn?: number | undefined;
}

/** A process in the state. Its moments are milliseconds before `newestMs`. */
export type HolderRow = readonly [
  name: string,
  sequence: number,
  askedAgo: number,
  units: number,
  lifeMs: number,
  drawMs: number,
  wanted: number,
  least: number,
  limit: number,
  granted: number,
  wasUnknown: 0 | 1,
  turn: number | null,
  expiredSlot: number | null,
];

/** `newestMs`: of the state. */
export function rowOf(name: string, holder: Holder, newestMs: number): HolderRow {
  const { sequence, askedMs, units, lifeMs, drawMs, wanted, least, limit, granted, wasUnknown } = holder;
  const times = [newestMs - askedMs, units, lifeMs, drawMs] as const;
  const asked = [wanted, least, limit, granted, wasUnknown ? 1 : 0] as const;
  return [name, sequence, ...times, ...asked, holder.turn ?? null, holder.expiredSlot ?? null];
}

/** The inverse of `rowOf`. */
export function holderOf(row: HolderRow, newestMs: number): Holder {
  const [
    ,
    sequence,
    ago,
    units,
    lifeMs,
    drawMs,
    wanted,
    least,
    limit,
    granted,
    wasUnknown,
    turn,
    expiredSlot,
  ] = row;
  return {
    ...{ sequence, askedMs: newestMs - ago, units, lifeMs, drawMs, wanted, least, limit, granted },
    ...{ wasUnknown: wasUnknown === 1, turn: turn ?? undefined, expiredSlot: expiredSlot ?? undefined },
  };
}
