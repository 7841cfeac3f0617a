/**
 * What holds a run: its lines that wait for the caller, and its items in lanes that are in trouble.
 */
import type { Clock } from "../../clock.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import { parseModelId } from "../../work/request.ts";
import type { BatchedWork } from "../batches/batches.ts";
import type { OpenBatch } from "../batches/open_batch.ts";
import type { Failover } from "../failover/failover.ts";
import type { Hold, RunHolds } from "../items/holds.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { SPACE_CHECK_MS } from "../journal/disk_space.ts";
import type { Lane } from "./lane.ts";

/** What the wall time of a clock is ahead of its monotonic one, as it was found first; whole milliseconds beside fractions move by one. */
const WALL_OFFSETS = new WeakMap<Clock, number>();
/** A wall clock that moved by less was not set. */
const CLOCK_STEP_MS = 5;

export interface HoldFacts {
  readonly clock: Clock;
  /** Whether a provider has ever answered with success in this process. */
  readonly hasAnswered: (provider: string) => boolean;
  /**
   * Whether the run stops now. Its next call tries at once, without the wait of this one: only a wait that keeps the lane from
   * sending in later processes, too, has a next try.
   */
  readonly isStopping: boolean;
  /** What the run has with batches. */
  readonly batched: BatchedWork;
  readonly failover: Pick<Failover, "isMoving" | "leavesSoon" | "othersHeld">;
}

/** Everything that is left of a run waits while the disk is full. */
export function diskHold(
  { openItems }: Pick<ItemOwner, "openItems">,
  path: string,
  sinceMs: number,
  clock: Clock,
): Hold {
  return {
    reason: "disk_full",
    since: isoTime(sinceMs, clock),
    next_try: isoTime(clock.nowMs() + SPACE_CHECK_MS, clock),
    items: openItems,
    message: `no space left on the disk of ${path}`,
  };
}

/** Checks every lane; cheap enough for once an attempt while something is held. */
export function holdsOf(owner: ItemOwner, lanes: Iterable<Lane>, facts: HoldFacts): RunHolds {
  const nowMs = facts.clock.nowMs();
  const holds: Hold[] = [];
  let claimed = 0;
  let sinceMs = owner.settings.startedMs;
  const { failover } = facts;
  /** Which lanes the items wait for as well, of those in trouble in which nothing of the run waits. */
  const others = new Set<LaneKey>();
  const idle: Lane[] = [];
  let isAll = !failover.isMoving(owner);
  for (const lane of lanes) {
    const share = lane.shareOf(owner);
    if (share.claimed === 0 && !share.hasMore) {
      if (lane.health.trouble !== undefined) idle.push(lane);
      continue;
    }
    const { trouble } = lane.health;
    if (trouble === undefined) {
      isAll = false;
      continue;
    }
    if (failover.leavesSoon(owner, lane.terms.key)) isAll = false;
    for (const key of failover.othersHeld(owner, lane.terms.key)) others.add(key);
    if (trouble.isAsked) isAll = false; // what it says now is not known yet
    if (share.waiting > 0 && !lane.limits.isStopped(nowMs)) isAll = false; // they go as soon as its rate lets them
    if (share.waiting > 0 && lane.limits.paused.isAsking && trouble.reason !== "quota") isAll = false; // one of them may be answered
    claimed += share.claimed;
    sinceMs = Math.max(sinceMs, trouble.sinceMs);
    const retryMs = Math.max(lane.limits.retryMs(nowMs), share.hasMore ? 0 : lane.health.retryMs(nowMs));
    const keptMs = lane.limits.heldBack(nowMs)?.cooldownMs ?? 0;
    const next = facts.isStopping ? (keptMs > 0 ? nowMs + keptMs : undefined) : nowMs + retryMs;
    holds.push(laneHold(lane, share.claimed + share.waiting, facts, next));
  }
  for (const lane of idle) {
    if (!others.has(lane.terms.key)) continue;
    const next = facts.isStopping ? undefined : nowMs + lane.limits.retryMs(nowMs);
    holds.push(laneHold(lane, 0, facts, next));
  }
  for (const open of facts.batched.troubles) {
    const hold = batchHold(open, facts);
    if (hold === undefined) continue;
    claimed += hold.items;
    holds.push(hold);
    sinceMs = Math.max(sinceMs, open.kept.trouble?.sinceMs ?? sinceMs);
  }
  if (owner.isDetaching === true) claimed += facts.batched.submitted;
  for (const { items, sinceMs: heldMs, mostUsd, ...lines } of owner.items.held.values()) {
    if (lines.reason === "key_changed") claimed += items;
    sinceMs = Math.max(sinceMs, heldMs);
    const need = lines.reason === "cap_reached" ? needOf(owner, mostUsd ?? 0) : {};
    holds.push({ ...lines, since: isoTime(heldMs, facts.clock), next_try: null, items, ...need });
  }
  // Others are in flight for the first time, or wait for the disk.
  return { holds, isAll: isAll && holds.length > 0 && claimed === owner.items.claimed.size, sinceMs };
}

const BATCH_REASONS = {
  account: "quota",
  full: "rate_limited",
  refused: "outage",
  unknown: "outage",
} as const;

/** Undefined for what is no hold: a batch that is being given back. */
function batchHold(
  { kept, left }: OpenBatch,
  { clock, hasAnswered, isStopping }: HoldFacts,
): Hold | undefined {
  const { trouble, record } = kept;
  if (trouble === undefined || !(trouble.is in BATCH_REASONS)) return undefined;
  const isKey = trouble.is === "account" && (trouble.status === 401 || trouble.status === 403);
  const provider = parseModelId(record.model)?.provider ?? record.model;
  return {
    reason: isKey ? "authentication" : BATCH_REASONS[trouble.is as keyof typeof BATCH_REASONS],
    since: isoTime(trouble.sinceMs, clock),
    next_try: isStopping ? null : isoTime(trouble.nextMs, clock),
    items: left,
    ...{ provider, address: new URL(kept.way.wire.settings.baseUrl).origin, message: trouble.message },
    ...(trouble.status === 0 ? {} : { provider_status: trouble.status }),
    ...(isKey ? { was_accepted: kept.wasAccepted || hasAnswered(provider) } : {}),
  };
}

function laneHold(
  lane: Lane,
  items: number,
  { clock, hasAnswered }: HoldFacts,
  nextTryMs: number | undefined,
): Hold {
  const { trouble } = lane.health;
  if (trouble === undefined) throw new Error("the lane is not in trouble");
  const { reason, message, code, providerStatus, model, address } = trouble;
  const { provider } = lane.terms;
  return {
    reason,
    since: isoTime(trouble.sinceMs, clock),
    next_try: nextTryMs === undefined ? null : isoTime(nextTryMs, clock), // of a model that the caller has to change, too
    items,
    provider,
    ...(address === "" ? {} : { address }),
    ...(model === undefined ? {} : { model }),
    message,
    code,
    ...(providerStatus === undefined ? {} : { provider_status: providerStatus }),
    ...(reason === "authentication" ? { was_accepted: hasAnswered(provider) } : {}),
  };
}

/**
 * The cap to raise, and to what amount; empty if it was raised since the items were held. What is enough is only known if
 * the money of all that is left is: not of lines that are unread, wait in a lane, or have no provider or price, nor of what other processes
 * have under the cap.
 */
function needOf(
  { settings: { budget }, openItems }: ItemOwner,
  mostUsd: number,
): Pick<Hold, "needed_usd" | "enough_usd" | "cap"> {
  const cap = budget.exhausted(mostUsd);
  if (cap === undefined) return {};
  const takenUsd = cap.spentUsd + cap.heldUsd;
  const needed_usd = roundedUpUsd(takenUsd + mostUsd);
  const isUnknown = cap.isDrawn || budget.wantedItems < openItems;
  const enough = isUnknown ? {} : { enough_usd: roundedUpUsd(takenUsd + cap.wantedUsd) };
  return { needed_usd, ...enough, ...(cap.name === undefined ? {} : { cap: cap.name }) };
}

/** To the nano-dollar; the sum of a few amounts is wrong by less than a thousandth of that. */
function roundedUpUsd(usd: number): number {
  return Math.ceil(usd * 1e9 - 1e-3) / 1e9;
}

/** Of a monotonic time: the same at every call, unless the wall clock was set. */
function isoTime(atMs: number, clock: Clock): string {
  const foundMs = Math.ceil(clock.wallMs() - clock.nowMs());
  const knownMs = WALL_OFFSETS.get(clock) ?? Number.NaN;
  const isSet = !(Math.abs(foundMs - knownMs) < CLOCK_STEP_MS);
  if (isSet) WALL_OFFSETS.set(clock, foundMs);
  return new Date(atMs + (isSet ? foundMs : knownMs)).toISOString();
}

/** Holds of several runs together: one for each reason, provider and model. */
export function allHolds(each: Iterable<readonly Hold[]>): Hold[] {
  const sums = new Map<string, Hold>();
  for (const holds of each)
    for (const hold of holds) {
      const key = JSON.stringify([hold.reason, hold.provider, hold.model]);
      const sum = sums.get(key);
      sums.set(key, sum === undefined ? hold : holdOfBoth(sum, hold));
    }
  return [...sums.values()];
}

/** The amounts of the cap are left out: each of the runs may have its own cap. */
function holdOfBoth(sum: Hold, hold: Hold): Hold {
  const { needed_usd: _needed, enough_usd: _enough, cap: _cap, ...first } = sum;
  return { ...first, items: sum.items + hold.items, since: sum.since < hold.since ? sum.since : hold.since };
}

/** Holds for logs and for callers without a key: without provider names that only an input has, which may be any text. */
export function publicHolds(holds: readonly Hold[]): Hold[] {
  return allHolds([
    holds.map((hold) => {
      if (hold.reason !== "provider_missing") return hold;
      const { provider: _provider, ...unnamed } = hold;
      return unnamed;
    }),
  ]);
}
