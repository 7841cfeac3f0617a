/**
 * What several processes know of one lane together: the rest of a cool-down, a pause, and the limits that were learnt. Its state is kept where all reach
 * it (a row of a database), changed by one process at a time, on the clock of that place. Pure; `lane_facts.ts` is the side of a process.
 *
 *   cool-down  the longest holds for all
 *   pause      running --a process was refused--> paused, number n --the success of a probe in pause n--> running
 *              While paused, one process probes: the first one that was refused, or another when that one has not asked for 3 s.
 *   limits     those that headers stated, and those that refusals have shown: the last ones that were reported
 *
 * The number tells a pause from the one before: who has not heard that pause n is over does not begin it again. An ask that says nothing new
 * changes nothing, so it can be answered without a lock. All asks may be repeated.
 */
import { type LearntLimits, REFUSAL_WAIT_MS_MAX } from "../../work/limits.ts";
import type { HiddenState } from "../hidden/hidden_limit.ts";

/** Limits in responses, a minute. */
export type StatedLimits = Pick<
  LearntLimits,
  "requestsPerMinute" | "tokensPerMinute" | "inputTokensPerMinute" | "outputTokensPerMinute"
>;

/** What one process reports. */
export interface FactsAsk {
  /** The lane of a process, unique for its life. */
  readonly holder: string;
  /** The rest of a cool-down of which it does not know that the others know it; 0 for none. */
  readonly cooldownMs: number;
  /** Why it is paused; undefined if it is not. */
  readonly pauseReason: string | undefined;
  /** The pause that it is in, or whose end it reports; undefined for one that the others may not know. */
  readonly pauseNumber: number | undefined;
  /** Present when they are new. */
  readonly stated?: StatedLimits | undefined;
  readonly found?: HiddenState | undefined;
}

/** What all know. */
export interface KnownFacts {
  readonly cooldownMs: number;
  /** Of the last pause; 0 before the first. */
  readonly pauseNumber: number;
  /** Undefined while running. */
  readonly pauseReason: string | undefined;
  /** Whether the process that asks is the one that probes. */
  readonly isProber: boolean;
  readonly stated: StatedLimits | undefined;
  readonly found: HiddenState | undefined;
  readonly foundAgeMs: number;
}

/** The state as it is kept: plain values. */
export interface SharedFactsState {
  readonly newestMs: number;
  readonly cooldownUntilMs: number;
  readonly pauseNumber: number;
  readonly pauseReason?: string | undefined;
  readonly prober?: string | undefined;
  readonly proberSeenMs: number;
  readonly stated?: StatedLimits | undefined;
  readonly found?: HiddenState | undefined;
  readonly foundMs: number;
}

/** After this time without an ask of the process that probes, another one may. */
const PROBER_MS = 3_000;
/** How exactly it is known when that process asked. */
const SEEN_MS = 1_000;

const NOTHING: SharedFactsState = {
  newestMs: 0,
  cooldownUntilMs: 0,
  pauseNumber: 0,
  proberSeenMs: 0,
  foundMs: 0,
};

/** Whether an ask only asks. */
export function isSilent({ cooldownMs, pauseReason, pauseNumber, stated, found }: FactsAsk): boolean {
  const saysPause = pauseReason !== undefined || pauseNumber !== undefined;
  return cooldownMs <= 0 && !saysPause && stated === undefined && found === undefined;
}

/** Merges what one process says. Returns what all know then, and the new state, which is the old one if nothing has changed. */
export function exchangeFacts(
  clockMs: number,
  ask: FactsAsk,
  before: SharedFactsState = NOTHING,
): { readonly known: KnownFacts; readonly state: SharedFactsState } {
  const nowMs = Math.max(clockMs, before.newestMs);
  const changed = { ...cooled(nowMs, ask, before), ...paused(nowMs, ask, before), ...learnt(nowMs, ask) };
  const state = Object.keys(changed).length === 0 ? before : { ...before, ...changed, newestMs: nowMs };
  return {
    state,
    known: {
      cooldownMs: Math.max(0, state.cooldownUntilMs - nowMs),
      pauseNumber: state.pauseNumber,
      pauseReason: state.pauseReason,
      isProber: state.pauseReason !== undefined && state.prober === ask.holder,
      stated: state.stated,
      found: state.found,
      foundAgeMs: Math.max(0, nowMs - state.foundMs),
    },
  };
}

function cooled(nowMs: number, ask: FactsAsk, before: SharedFactsState): Partial<SharedFactsState> {
  const cooldownUntilMs = nowMs + Math.min(ask.cooldownMs, REFUSAL_WAIT_MS_MAX);
  return ask.cooldownMs > 0 && cooldownUntilMs > before.cooldownUntilMs ? { cooldownUntilMs } : {};
}

function paused(
  nowMs: number,
  { holder, pauseReason, pauseNumber }: FactsAsk,
  before: SharedFactsState,
): Partial<SharedFactsState> {
  const isOn = before.pauseReason !== undefined;
  if (pauseReason === undefined)
    return isOn && pauseNumber === before.pauseNumber ? { pauseReason: undefined, prober: undefined } : {};
  if (!isOn)
    return pauseNumber === undefined
      ? { pauseNumber: before.pauseNumber + 1, pauseReason, prober: holder, proberSeenMs: nowMs }
      : {};
  const unseenMs = nowMs - before.proberSeenMs;
  if (before.prober === holder) return unseenMs > SEEN_MS ? { proberSeenMs: nowMs } : {};
  return unseenMs > PROBER_MS + SEEN_MS ? { prober: holder, proberSeenMs: nowMs } : {};
}

function learnt(nowMs: number, { stated, found }: FactsAsk): Partial<SharedFactsState> {
  return {
    ...(stated === undefined ? {} : { stated }),
    ...(found === undefined ? {} : { found, foundMs: nowMs }),
  };
}
