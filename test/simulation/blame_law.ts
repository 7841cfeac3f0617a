/**
 * Blame by comparison, by the provider's own book: which failures of an item may count against it, and which must.
 *
 *   may    since its first failure had ended, its model answered another item
 *   must   the same since its last failure, to a request that was sent after that end and answered before this attempt was sent, no row of
 *          failures has followed that may be taken for an outage (an answer between two outages proves one failure, not those of the second), and items of its lane that were answered in the end have not
 *          failed so often that so long a row may be chance; each call of its run starts again
 *
 * Refusals that speak of the provider (429, overload, account, key) never count, where they arrive, nor does what is a cheaper tier's. Both are looser than the engine's own rule, each
 * on its side: it breaks a law only where it is wrong by any reading.
 */
import { FINAL, isFinal, isOfTier, type Served } from "./provider.ts";

/** They speak of the provider. */
const NEVER: ReadonlySet<string> = new Set([
  "rate_limited",
  "throttled",
  "overloaded",
  "swamped",
  "quota",
  "key_refused",
]);
/** Answers, although nothing that can be used; one that is too large is not delivered. */
const ANSWERED: ReadonlySet<string> = new Set([...FINAL, "empty"]);
/** They are about the item, also if others are answered. */
const OWN: ReadonlySet<string> = new Set(["empty", "too_large"]);
/** With a Retry-After they do, and without one they may be the item's. */
const SOMETIMES: ReadonlySet<string> = new Set(["unavailable"]);
/** Failures in a row that may be taken for an outage. */
const ROW_MIN = 5;

/** Items that were answered in the end, after failures, from which their lane may be taken for flapping. */
const RECOVERED_MIN = 3;
/** How far back, and how long a row of failures is chance then at most. */
const FLAPPING_MS = 300_000;
const CHANCE = 1e-6;
const ROW_MAX = 40;
/** Failures that end an item, at least. */
const BUDGET_MIN = 3;

const endOf = ({ overAtMs }: Served): number => overAtMs ?? Number.POSITIVE_INFINITY;
/** Of two requests of a line that are under way together, the later one may end first. */
const byEnd = (a: Served, b: Served): number => endOf(a) - endOf(b);
/** One that its process has seen: what died with it is nobody's fault. */
const isFailure = (one: Served): boolean => one.overAtMs !== undefined && !isFinal(one);
const mayCount = (one: Served): boolean =>
  isFailure(one) && !isOfTier(one) && (one.isCut || !NEVER.has(one.what));

/** Of an item's requests the failures that may count against it; `toModel` are all requests to its model. */
export function blamedFailures(own: readonly Served[], toModel: readonly Served[]): readonly Served[] {
  const failures = own.filter(mayCount).toSorted(byEnd);
  const first = failures.find(({ what }) => !OWN.has(what));
  if (first === undefined) return failures;
  const answers = toModel.filter((one) => isAnswerOfOthers(one, first) && endOf(one) >= endOf(first));
  return failures.filter((one) => OWN.has(one.what) || answers.some((answer) => endOf(answer) <= endOf(one)));
}

/** The request of an item that was sent although its failures, those that count for sure, had used up what it may have. */
export function overBlamed(
  own: readonly Served[],
  toModel: readonly Served[],
  isUsedUp: (blamed: readonly Served[]) => boolean,
): Served | undefined {
  const failures = own
    .filter((one) => isFailure(one) && !isOfTier(one) && !NEVER.has(one.what) && !SOMETIMES.has(one.what))
    .toSorted(byEnd);
  if (failures.length === 0) return undefined;
  const ends = toModel.toSorted(byEnd);
  const counted: Served[] = [];
  for (const failure of failures) {
    const before =
      failures.findLast((one) => one.call === failure.call && endOf(one) <= failure.atMs) ?? failure;
    const row = failures.filter(({ call, atMs }) => call === failure.call && atMs <= failure.atMs).length;
    const mayBeChance = row <= longestChance(failure, ends) - BUDGET_MIN;
    if (isProven(failure, before, ends) && !mayBeChance) counted.push(failure);
    if (isUsedUp(counted)) return own.find(({ atMs }) => atMs > endOf(failure));
  }
  return undefined;
}

/** Whether others were answered after its failure before, and no row that may be taken for an outage has followed. */
function isProven(failure: Served, last: Served, ends: readonly Served[]): boolean {
  const before = ends.filter((one) => endOf(one) < failure.atMs);
  const answer = before.findLast((one) => isAnswerOfOthers(one, last) && one.atMs > endOf(last));
  if (answer === undefined) return false;
  const later = ends.filter((one) => endOf(one) > endOf(answer) && endOf(one) <= endOf(failure));
  return later.filter((one) => !isAnswer(one)).length < ROW_MIN;
}

/** The longest row of failures that chance explains, by the failures that answered items had up to then. */
function longestChance(failure: Served, ends: readonly Served[]): number {
  const before = ends.filter(
    (one) => endOf(one) <= endOf(failure) && endOf(one) > endOf(failure) - FLAPPING_MS,
  );
  const recovered = new Set<number>();
  let [answers, failures, longest] = [0, 0, 0];
  for (const one of before.toReversed()) {
    if (!isAnswer(one)) continue;
    answers += 1;
    const own = ends.filter(({ line, atMs }) => line.id === one.line.id && atMs < one.atMs);
    const failed = own.length - (own.findLastIndex(isAnswer) + 1);
    if (failed === 0) continue;
    failures += failed;
    recovered.add(one.line.id);
    if (recovered.size < RECOVERED_MIN) continue;
    const row = Math.log(CHANCE) / Math.log(failures / (failures + answers));
    longest = Math.min(ROW_MAX, Math.max(longest, Math.ceil(row)));
  }
  return longest;
}

function isAnswerOfOthers(one: Served, { line }: Served): boolean {
  return isAnswer(one) && one.line.id !== line.id;
}

function isAnswer({ what, isDelivered, overAtMs }: Served): boolean {
  return what === "too_large" ? overAtMs !== undefined : ANSWERED.has(what) && isDelivered;
}
