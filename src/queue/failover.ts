/**
 * Which model of an alias answers: when waiting work leaves the one it waits for, and when new work goes back to it. Pure.
 *
 *   well --trouble, and its patience is over--> left --trouble over--> healed --no trouble for so long--> well
 *                                               left <--trouble-------/
 *
 *   patience   caller, account   0: waiting does not help, or nobody knows for how long
 *              outage            until 10 s after the first failure
 *              limit             0 if the wait ends more than 60 s after its beginning, else until 60 s after it
 *   deadline   patience ends so early that the other model can still answer: at deadline - 2 * the time of its answer
 *   return     30 s without trouble, twice as long after each further fall within 4 times that, at most 16 minutes
 *
 * New work goes to the first that is well, else to the first that is healed, else to the one whose trouble ends by itself. Waiting
 * work leaves only for a model that can answer, and stays where it is while none can: so no work moves without a change of a model's
 * state, and a model that flaps gets new work at most once in 30 s, later once in 16 minutes.
 */

/** Why a model does not answer now. */
export interface MemberTrouble {
  /** `caller`: only the caller can change it; `account`: its key or its money; `limit`: 429, or too much to do. */
  readonly kind: "caller" | "account" | "outage" | "limit";
  /** Monotonic: since the first failure. */
  readonly sinceMs: number;
  /** Milliseconds that its provider asks to wait from now on; 0 if it does not. */
  readonly waitMs: number;
}

/** A model of an alias at this moment. */
export interface MemberNow {
  readonly trouble: MemberTrouble | undefined;
  /** Whether new work avoids it, by what happened before. */
  readonly isLeft: boolean;
  /** Milliseconds that one of its answers takes. */
  readonly itemMs: number;
}

/** An outage that is shorter is waited for: retries, and single failures between answers. */
const OUTAGE_MS = 10_000;
/** A limit that is shorter is waited for: the window of most limits is a minute. */
const LIMIT_MS = 60_000;
const STEADY_MS = 30_000;
const STEADY_MS_MAX = 16 * 60_000;
/** Falls that are further apart, in times of the last wait for the return, have nothing to do with each other. */
const FLAPPING_TIMES = 4;

/** Milliseconds for which work still waits for a model; 0: it leaves now. */
export function patienceMs({ kind, sinceMs, waitMs }: MemberTrouble, nowMs: number): number {
  if (kind === "caller" || kind === "account") return 0;
  const lastsMs = nowMs - sinceMs;
  if (kind === "outage") return Math.max(0, OUTAGE_MS - lastsMs);
  return lastsMs + waitMs > LIMIT_MS ? 0 : Math.max(0, LIMIT_MS - lastsMs);
}

/** Whether work with a deadline (monotonic) leaves a model now, if another one takes `itemMs` for an answer. */
export function leaves(
  trouble: MemberTrouble | undefined,
  nowMs: number,
  { deadlineMs, itemMs }: { readonly deadlineMs: number; readonly itemMs: number },
): boolean {
  if (trouble === undefined) return false;
  const waitMs = patienceMs(trouble, nowMs);
  return waitMs === 0 || deadlineMs - nowMs <= waitMs + 2 * itemMs;
}

/** The index of the model that new work goes to. `members` is not empty. */
export function memberForNew(members: readonly MemberNow[], nowMs: number, deadlineMs: number): number {
  const ranks = members.map((member) => rankOf(member, nowMs, deadlineMs, fastestMs(members, member)));
  return ranks.indexOf(Math.min(...ranks));
}

/** The index of the model that work moves to which waits for another one; undefined if it stays. */
export function memberForWaiting(
  members: readonly MemberNow[],
  at: number,
  nowMs: number,
  deadlineMs: number,
): number | undefined {
  const ranks = members.map((member) => rankOf(member, nowMs, deadlineMs, fastestMs(members, member)));
  const own = ranks[at];
  if (own === undefined || own < RANKS.outage) return undefined;
  const best = Math.min(...ranks);
  const isBetter = best < RANKS.outage || (own === RANKS.caller && best < own);
  return isBetter ? ranks.indexOf(best) : undefined;
}

const RANKS = { well: 0, healed: 1, outage: 2, limit: 2, account: 3, caller: 4 } as const;

/** Lower is better. A model in trouble that is still waited for is as good as it was before. */
function rankOf({ trouble, isLeft }: MemberNow, nowMs: number, deadlineMs: number, itemMs: number): number {
  if (trouble !== undefined && leaves(trouble, nowMs, { deadlineMs, itemMs })) return RANKS[trouble.kind];
  if (trouble !== undefined && isLeft) return RANKS[trouble.kind];
  return isLeft ? RANKS.healed : RANKS.well;
}

/** Milliseconds that an answer of the fastest other one takes. */
function fastestMs(members: readonly MemberNow[], own: MemberNow): number {
  return Math.min(...members.flatMap((member) => (member === own ? [] : [member.itemMs])));
}

/** What a model's past says of it: whether new work avoids it. One for each model of an alias. */
export class MemberPast {
  #isLeft = false;
  /** Monotonic: since when it is without trouble; undefined while it is in trouble. */
  #healedMs: number | undefined;
  #steadyMs = STEADY_MS;
  /** Monotonic: when new work went back to it last. */
  #backMs = Number.NEGATIVE_INFINITY;

  /** Takes in its state now, and returns whether new work avoids it. Call it with times that do not fall. */
  isLeft(trouble: MemberTrouble | undefined, nowMs: number): boolean {
    const isGone = trouble !== undefined && patienceMs(trouble, nowMs) === 0;
    if (!this.#isLeft) {
      if (isGone) this.#fall(nowMs);
      return this.#isLeft;
    }
    if (trouble !== undefined) this.#healedMs = undefined;
    else this.#healedMs ??= nowMs;
    if (this.#healedMs !== undefined && nowMs - this.#healedMs >= this.#steadyMs) {
      this.#isLeft = false;
      this.#backMs = nowMs;
    }
    return this.#isLeft;
  }

  #fall(nowMs: number): void {
    const isFlapping = nowMs - this.#backMs < FLAPPING_TIMES * this.#steadyMs;
    this.#steadyMs = isFlapping ? Math.min(STEADY_MS_MAX, 2 * this.#steadyMs) : STEADY_MS;
    this.#isLeft = true;
    this.#healedMs = undefined;
  }
}
