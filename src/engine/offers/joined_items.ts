/**
 * How many items of a shard share one request: those that follow each other, may be joined (shard/joined_body.ts), and have the same
 * past.
 *
 * Never joined are items of an alias, which leave for another model one by one; items of a run with second attempts; items whose
 * line was cancelled; and, where lines have the provider's own body, items of a protocol in which the body of one item cannot be made
 * of the body of several.
 */
import type { LaneLimits } from "../../limits/limits.ts";
import type { Shard } from "../../shard/shard.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { AttemptsMade } from "../journal/replay.ts";

/** Bytes of a joined body. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;

/** How long one request may use up the limits of its lane: others wait as long, and a minute must hold several. */
const LIMIT_MS_MAX = 10_000;
const MILLION = { inputTokens: 1_000_000, outputTokens: 0 };

/** Items from `index`, which is open, to the one before `end`; at least 1. `limits`: of their lane. */
export function joinedItems(
  owner: ItemOwner,
  shard: Shard,
  {
    index,
    end,
    limits,
  }: { readonly index: number; readonly end: number; readonly limits: Pick<LaneLimits, "costMs"> },
): number {
  const { joins, alias } = shard.group;
  const { isHedged, keepsBody } = owner.settings;
  if (joins === undefined || alias !== undefined || isHedged) return 1;
  if (keepsBody && !joins.hasOpenaiAnswers) return 1;
  const { made } = owner.items;
  const first = shard.lines[index] as number;
  if (owner.skips(first)) return 1;
  const past = made.get(first);
  const limitedTokens = (LIMIT_MS_MAX * MILLION.inputTokens) / limits.costMs(MILLION);
  const tokensMost = Math.min(limitedTokens, joins.tokensMax);
  let tokens = shard.inputTokens[index] as number;
  let bytes = shard.bodyBytes(index);
  let next = index + 1;
  const last = Math.min(end, index + joins.inputsMax);
  for (; next < last; next += 1) {
    const line = shard.lines[next] as number;
    tokens += shard.inputTokens[next] as number;
    bytes += shard.bodyBytes(next);
    if (tokens > tokensMost || bytes > BODY_BYTES_MAX) break;
    if (!owner.items.isOpen(line) || owner.skips(line)) break;
    if (made.size > 0 && !isSamePast(past, made.get(line))) break;
    if (!wasBatchedAlike(owner, first, line)) break;
  }
  return next - index;
}

/** Whether batches have had both as often, and may have both again. */
function wasBatchedAlike(
  { items: { notBatched, requeues } }: ItemOwner,
  one: number,
  other: number,
): boolean {
  if (notBatched.size === 0 && requeues.size === 0) return true;
  return notBatched.has(one) === notBatched.has(other) && requeues.get(one) === requeues.get(other);
}

function isSamePast(one: AttemptsMade | undefined, other: AttemptsMade | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (
    one.attempts === other.attempts &&
    one.uncounted === other.uncounted &&
    one.ambiguousAttempts === other.ambiguousAttempts &&
    one.uncountedAmbiguous === other.uncountedAmbiguous &&
    one.unusableAnswers === other.unusableAnswers &&
    one.isInDoubt === other.isInDoubt
  );
}
