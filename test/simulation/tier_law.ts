/**
 * I18: which requests may be in a cheaper tier, and what it may cost in time, by the provider's own book.
 *
 *   never     without a deadline; after the tier was to blame for a failure of that line in the same call, but for want of capacity
 *   not late  where only the tier goes wrong: a line whose deadline leaves time for all lines in realtime, and for one answer there
 *             that may fail once, does not expire
 *   not early where only the tier goes wrong: no answer of it is given up while its deadline leaves three times that and two minutes
 */
import { isOfTier, isShed, type Served } from "./provider.ts";
import type { RunBook } from "./run_book.ts";
import type { SimulatedLine } from "./workload.ts";

/** Two answers in realtime while none is measured, 5 s, and what a tenth of answers in the tier take at least. */
const KEPT_MS = 2 * 30_000 + 5_000 + 10_000;
/** An attempt in the tier takes no longer. */
const ATTEMPT_MS_MAX = 900_000;

export interface TierLawOptions {
  readonly books: readonly RunBook[];
  readonly served: readonly Served[];
  /** How a line ended, by its id. */
  readonly endOf: (id: number) => { readonly status: string } | undefined;
  /** Milliseconds that all lines take in realtime, where nothing but the tier goes wrong; otherwise undefined. */
  readonly needMs: number | undefined;
}

/** What is wrong, in words. */
export function* wrongTier({ books, served, endOf, needMs }: TierLawOptions): Generator<string> {
  for (const book of books) {
    const { slaMinutes, index } = book.run;
    const own = served.filter((one) => one.isInTier && one.line.run === index);
    if (slaMinutes === undefined) {
      if (own.length > 0) yield `run ${index} does not have a deadline and was sent in the tier`;
      continue;
    }
    for (const one of own) if (own.some((before) => isLeftAfter(before, one))) yield againText(one);
    if (needMs === undefined || book.acceptedMs === undefined) continue;
    const [deadlineMs, neededMs] = [book.acceptedMs + slaMinutes * 60_000, 1.2 * needMs + KEPT_MS];
    const late = book.lines.find((line) => isForeseen(line) && endOf(line.id)?.status === "expired");
    if (late !== undefined && neededMs <= slaMinutes * 60_000)
      yield `line ${late.id} expired, and ${slaMinutes} minutes leave ${neededMs} ms for realtime`;
    const early = own.find((one) => isEarly(one, deadlineMs - 3 * needMs - 120_000));
    if (early !== undefined) yield `line ${early.line.id} was given up in the tier at ${early.overAtMs}`;
  }
}

/** Whether a failure keeps its line from the tier, and it was sent there all the same. */
function isLeftAfter(before: Served, one: Served): boolean {
  const isBefore =
    before.line.id === one.line.id && before.call === one.call && before.process === one.process;
  return isBefore && (before.overAtMs ?? one.atMs) < one.atMs && isOfTier(before) && !isShed(before);
}

function isEarly({ isCut, atMs, overAtMs = 0 }: Served, untilMs: number): boolean {
  return isCut && overAtMs - atMs < ATTEMPT_MS_MAX - 1 && overAtMs < untilMs;
}

function againText({ line, atMs }: Served): string {
  return `line ${line.id} was sent in the tier again at ${atMs}, which had failed it before`;
}

/** Whether its answer in realtime takes what others do; and a line of a provider that is not known is held until its deadline. */
function isForeseen({ kind, ending }: SimulatedLine): boolean {
  return kind === "item" && ending !== "slow_answer";
}
