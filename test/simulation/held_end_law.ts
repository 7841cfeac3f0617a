/**
 * I0, the end of held items under `finish`, by the providers' own book: its reason is that of the item's own lane, and what
 * passes by itself was waited for. In simulations each model has a lane of its own.
 *
 *   reason   the lane's last failure since it answered; a key that was never accepted stops all lanes of its provider
 *   answer   ends what failed before it; of a lane that was stopped (no money, a key that is refused), only one to a request
 *            that was sent after the stop does: what was sent before says nothing of the account since, but that a key is
 *            accepted that never was before, which ends the stop of all lanes of its provider
 *   wait     counts from what ended the lane's failures last, and from the last answer of the run
 *
 * Of how long a 429 makes a lane wait, the book has an upper bound: a request sent before the bound shows that the wait was
 * over, and if it is refused, too, the lane waits from then on. One sent at the moment of the 429 was on its way.
 */
import { isFinal, type Served } from "./provider.ts";
import { QUOTA_WAIT_MS, WAIT_MS } from "./wait_law.ts";
import type { SimulatedLine, SimulatedRun } from "./workload.ts";

/** What held items end with, by what their lane's provider did last; any of an outage by all else. */
const HELD_CODES: Readonly<Record<string, readonly string[]>> = {
  quota: ["quota_exceeded"],
  key_refused: ["authentication_failed"],
  rate_limited: ["rate_limited"],
  throttled: ["rate_limited"],
  overloaded: ["overloaded"],
  swamped: ["overloaded"],
};
const OUTAGE_CODES =
  "connection_failed connection_lost timeout provider_error overloaded invalid_response".split(" ");
/** How long a 429 makes a lane wait that states no wait, or follows a row of others, at most. */
const OWN_WAIT_MS = 60_000;
const ROW_MIN = 4;
/** Refusals in a row that stop a key that was accepted before. */
const REFUSALS_MAX = 3;

/** What the law reads of a request. */
export type SentRequest = Pick<
  Served,
  | "what"
  | "provider"
  | "model"
  | "process"
  | "atMs"
  | "overAtMs"
  | "isDelivered"
  | "retryAfterMs"
  | "mayWaitMs"
> & { readonly line: Pick<SimulatedLine, "run"> };

export interface HeldEndOf {
  readonly run: Pick<SimulatedRun, "index" | "waitMs">;
  readonly line: Pick<SimulatedLine, "provider" | "model">;
  readonly code: string;
  readonly endMs: number;
  /** All requests of all runs. */
  readonly served: readonly SentRequest[];
  /** Whether a process has died: that a key was accepted is learnt, and what was learnt of late may be lost with it. */
  readonly hasDied: boolean;
}

interface Trouble {
  /** Undefined while the lane answers. */
  last: SentRequest | undefined;
  /** Whether the last failure is that of a key that was never accepted. */
  isNewKey: boolean;
  /** Since when nothing but probes is sent. */
  stoppedMs: number | undefined;
  /** Refusals of the key since the last answer. */
  refusals: number;
  /** What made the lane wait, since when and at most until when. */
  wait: { readonly refusal: SentRequest; readonly fromMs: number; readonly untilMs: number } | undefined;
  /** 429s since the last answer. */
  rateRefusals: number;
  /** When an answer last ended what had failed. */
  healedMs: number;
}

/** Whether the item was held for the reason that its code names, for as long as that is waited for. */
export function isHeldEnd({ run, line, code, endMs, served, hasDied }: HeldEndOf): boolean {
  const ended = served.filter((one) => endOf(one) <= endMs).sort((one, other) => endOf(one) - endOf(other));
  const toProvider = ended.filter(({ provider }) => provider === line.provider);
  const { last, isNewKey, healedMs, wait } = troubleOf(toProvider, line.model, hasDied);
  const isWaiting = wait !== undefined && endMs < wait.untilMs && code === "rate_limited"; // a restart knows no more of it
  if (last === undefined || !(isWaiting || codesOf(last).includes(code))) return false;
  const { index, waitMs = last.what === "quota" ? QUOTA_WAIT_MS : WAIT_MS } = run;
  if (isNewKey || waitMs === 0) return true;
  const own = ended.filter((one) => one.line.run === index && isFinal(one)).map(endOf);
  return Math.max(healedMs, ...own) <= endMs - waitMs;
}

/** The state of a model's lane after these requests to its provider, in the order of their ends. */
function troubleOf(ended: readonly SentRequest[], model: string, hasDied: boolean): Trouble {
  const accepted = new Set<number>();
  const trouble: Trouble = {
    last: undefined,
    isNewKey: false,
    stoppedMs: undefined,
    refusals: 0,
    wait: undefined,
    rateRefusals: 0,
    healedMs: Number.NEGATIVE_INFINITY,
  };
  for (const one of ended) {
    if (isFinal(one)) {
      accepted.add(one.process);
      if (one.model === model || (trouble.isNewKey && !hasDied)) heal(trouble, one);
      continue;
    }
    const isKnown = hasDied ? accepted.has(one.process) : accepted.size > 0;
    const isNewKey = one.what === "key_refused" && !isKnown;
    if (one.model === model || isNewKey) fail(trouble, one, isNewKey);
  }
  return trouble;
}

function heal(trouble: Trouble, answer: SentRequest): void {
  if (trouble.stoppedMs !== undefined && answer.atMs < trouble.stoppedMs && !trouble.isNewKey) return;
  const { wait } = trouble;
  const isWaiting = wait !== undefined && answer.atMs <= wait.fromMs && endOf(answer) < wait.untilMs;
  trouble.last = isWaiting ? wait.refusal : undefined;
  trouble.wait = isWaiting ? wait : undefined;
  trouble.stoppedMs = undefined;
  trouble.refusals = trouble.rateRefusals = 0;
  trouble.healedMs = endOf(answer);
}

function fail(trouble: Trouble, failure: SentRequest, isNewKey: boolean): void {
  trouble.last = failure;
  trouble.isNewKey = isNewKey;
  if (failure.what === "key_refused") trouble.refusals += 1;
  if (failure.what === "quota" || isNewKey || trouble.refusals >= REFUSALS_MAX)
    trouble.stoppedMs ??= endOf(failure);
  const isRateRefusal = failure.what === "rate_limited" || failure.what === "throttled";
  if (isRateRefusal) trouble.rateRefusals += 1;
  const { retryAfterMs, mayWaitMs } = failure;
  const ownMs =
    isRateRefusal && (retryAfterMs === undefined || trouble.rateRefusals > ROW_MIN) ? OWN_WAIT_MS : 0;
  const asksMs = isRateRefusal || failure.what === "unavailable" ? (retryAfterMs ?? 0) : 0;
  const endMs = endOf(failure);
  const untilMs = endMs + Math.max(asksMs, mayWaitMs, ownMs);
  if (untilMs === endMs) return;
  const { wait } = trouble;
  const before = wait !== undefined && endMs < wait.untilMs ? wait : undefined;
  const isSame = before !== undefined && failure.atMs <= before.fromMs; // sent later, it shows that the lane sent again
  if (isSame && untilMs <= before.untilMs) return;
  trouble.wait = {
    refusal: failure,
    fromMs: isSame ? before.fromMs : endMs,
    untilMs: Math.max(untilMs, before?.untilMs ?? untilMs),
  };
}

function codesOf({ what }: SentRequest): readonly string[] {
  return HELD_CODES[what] ?? OUTAGE_CODES;
}

function endOf({ overAtMs = Number.POSITIVE_INFINITY }: SentRequest): number {
  return overAtMs;
}
