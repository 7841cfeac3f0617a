/**
 * The text of an ended item in the row of its answer:
 *
 *   13 digits     the Unix time of its end
 *   [...]\n       how it was sent: first request (Unix time, 0 not known), in time (0 not known, 1 yes, 2 no), deadline (Unix time or null),
 *                 model, lane, tier asked, tier, batch, price version. Absent where version 2 of the log wrote it.
 *   {...}\n       its output line
 *
 * Hot path: once an item, 0.5 us.
 */
import type { SentAs, SentFacts, SentLane } from "../journal/sent_rows.ts";

const TIME_CHARS = 13;

/** What was stated of an item when it ended. */
export interface StatedEnd extends SentFacts {
  /** The price sheet and its day; null without a known price. */
  readonly priceVersion: string | null;
}

type Row = readonly [
  startedWallMs: number,
  met: number,
  deadlineWallMs: number | null,
  model: string,
  lane: SentLane | null,
  tierAsked: string | null,
  tier: string | null,
  batch: string | null,
  priceVersion: string | null,
];

/** The text of an item that ended so; `as.deadlineWallMs` is its own. */
export function answerText(stated: StatedEnd, line: string): string {
  const { as, startedWallMs = 0, endedWallMs, isMet, priceVersion } = stated;
  const { deadlineWallMs, model, lane, tierAsked, tier, batch } = as;
  const met = isMet === undefined ? 0 : isMet ? 1 : 2;
  const row: Row = [startedWallMs, met, deadlineWallMs, model, lane, tierAsked, tier, batch, priceVersion];
  return `${String(endedWallMs).padStart(TIME_CHARS, "0")}${JSON.stringify(row)}\n${line}`;
}

/** The parts of a text; `stated` is undefined where an earlier version wrote it. */
export function readAnswerText(text: string): {
  readonly endedWallMs: number;
  readonly stated: StatedEnd | undefined;
  readonly line: string;
} {
  const endedWallMs = Number(text.slice(0, TIME_CHARS));
  if (text[TIME_CHARS] !== "[") return { endedWallMs, stated: undefined, line: text.slice(TIME_CHARS) };
  const end = text.indexOf("\n", TIME_CHARS);
  const row = JSON.parse(text.slice(TIME_CHARS, end)) as Row; // written by `answerText`
  const [startedWallMs, met, deadlineWallMs, model, lane, tierAsked, tier, batch, priceVersion] = row;
  const as: SentAs = { model, lane, tierAsked, tier, batch, deadlineWallMs };
  const stated = {
    as,
    startedWallMs: startedWallMs === 0 ? undefined : startedWallMs,
    endedWallMs,
    isMet: met === 0 ? undefined : met === 1,
    priceVersion,
  };
  return { endedWallMs, stated, line: text.slice(end + 1) };
}
