/**
 * Holds: why items wait that nothing of their own keeps from being answered, and what ends the wait.
 *
 *   reason               what it is                                                     continues
 *   outage               refused, reset, DNS, TLS, 5xx, time-outs, redirects            by itself, a probe looks
 *   rate_limited         429, and no answer since, or the wait that it asked for        by itself
 *   overloaded           the provider says that it has too much to do                   by itself
 *   disk_full            nothing can be recorded                                        by itself, tried every second
 *   quota                the account has no money or quota left                         by itself, a probe after 1 s, then one a minute
 *   authentication       the key is not accepted                                        by itself, a probe a minute
 *   model_unavailable    the provider does not know the model, or refuses it to the key when the caller changes it
 *   provider_missing     no provider of that name is configured                         when the caller changes it
 *   key_missing          the provider needs a key, which is not set                     when the caller changes it
 *   key_changed          its batches were made with another key of the provider           when the caller changes it
 *   cap_reached          the cost cap leaves no money for it                            when the caller changes it
 *   price_unknown        a cost cap is set and nobody knows the model's price           when the caller changes it
 *   file_damaged         the stored lines of a task are missing or have changed         when the caller changes it
 *
 * A lane is held from its first failure that does not concern an item until its next answer, so that single failures between
 * answers hold it for as long; and while it has to wait before it may send (engine/lanes/lane_health.ts). Held items use no attempts. What only the caller can change is tried again, too (a model once a
 * minute), but no run waits for it.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { FailureCode } from "../../errors.ts";

/** In the order of the table above. */
export const HOLD_REASONS = [
  "outage",
  "rate_limited",
  "overloaded",
  "disk_full",
  "quota",
  "authentication",
  "model_unavailable",
  "provider_missing",
  "key_missing",
  "key_changed",
  "cap_reached",
  "price_unknown",
  "file_damaged",
] as const;

export type HoldReason = (typeof HOLD_REASONS)[number];

/** Items that are held for one reason, as people and programs see it. */
export interface Hold {
  readonly reason: HoldReason;
  /** ISO 8601. */
  readonly since: string;
  /**
   * ISO 8601: when it is tried again; of a run that has stopped, when its next call sends first, because the provider asked to wait until then. Null
   * where nothing is tried before the caller changes something or the run is called again.
   */
  readonly next_try: string | null;
  /** Lines of the run that wait for it. */
  readonly items: number;
  readonly provider?: string;
  /** Base address of the provider. */
  readonly address?: string;
  readonly model?: string;
  /** The last failure as text, with the provider's code if it has one. */
  readonly message: string;
  /** Its code, as in the error of an item that it ends. Absent where nothing was sent. */
  readonly code?: FailureCode;
  /** Its HTTP status; absent when no answer came. */
  readonly provider_status?: number;
  /** Of `authentication`: whether the key was ever accepted. */
  readonly was_accepted?: boolean;
  /** Of `cap_reached`, USD: the least cap that allows the next request. */
  readonly needed_usd?: number;
  /** Of `cap_reached`, USD: a cap that suffices for all that is left of the run, under any hold, and for what it holds by then of other runs of the engine that share it, if no request is repeated. Absent when it is not known: lines are unread, wait for a provider, or have no price. */
  readonly enough_usd?: number;
  /** Of `cap_reached`: the name of the cap; absent for the run's own. */
  readonly cap?: string;
}

/** Lines that are not read into memory again before the caller changes something. */
export interface HeldLines {
  readonly reason: HoldReason;
  readonly provider?: string;
  readonly model?: string;
  readonly message: string;
  /** Of `cap_reached`, USD: the most that the next request may cost, of the line for which it is least. */
  readonly mostUsd?: number;
}

/** How a held item ends where the caller does not want to wait: in an error, with the true reason. */
export interface HeldEnd {
  readonly code: FailureCode;
  readonly message: string;
  /** Who refused, or did not answer. */
  readonly provider?: string;
  /** The HTTP status that it refused with. */
  readonly providerStatus?: number;
}

/** Why a run has to wait. */
export interface RunHolds {
  readonly holds: readonly Hold[];
  /** Whether nothing else is left of the run, as far as it was read. */
  readonly isAll: boolean;
  /** Monotonic: since when nothing of it was answered because of them. */
  readonly sinceMs: number;
}

/** Of a run that nothing holds. */
export const NO_HOLDS: RunHolds = { holds: [], isAll: false, sinceMs: 0 };

/** Failures of a lane since its last answer, or the refusal that makes it wait. */
export interface Trouble {
  readonly reason: HoldReason;
  /** Of the last failure. */
  readonly code: FailureCode;
  /** Monotonic: since the first failure, or since the last answer if that is later. */
  readonly sinceMs: number;
  readonly message: string;
  /** The HTTP status of the last failure; absent when no answer arrived. */
  readonly providerStatus?: number;
  /** Of `model_unavailable`. */
  readonly model?: string;
  /** Empty for a function, and when it is not known. */
  readonly address: string;
  /** Of a stop that an earlier process met; this one has asked, and waits for its first answer. */
  readonly isAsked?: true;
}

const REASONS: ReadonlySet<string> = new Set(HOLD_REASONS);

/** Shorter holds are ordinary, such as single failures between answers: the forecast of the end stays. */
const SHORT_HOLD_MS = 5_000;
/** The same for limits and overload, whose waits the provider states. */
const SHORT_LIMIT_MS = 60_000;

const CALLERS: ReadonlySet<HoldReason> = new Set([
  "cap_reached",
  "price_unknown",
  "provider_missing",
  "key_missing",
  "key_changed",
  "model_unavailable",
  "file_damaged",
]);

/** The error with which a held item ends. */
export function codeOfHold(reason: HoldReason): FailureCode {
  switch (reason) {
    case "cap_reached":
      return "budget_exceeded";
    case "model_unavailable":
      return "model_not_found";
    case "authentication":
    case "key_changed":
      return "authentication_failed";
    case "quota":
      return "quota_exceeded";
    case "rate_limited":
    case "overloaded":
    case "price_unknown":
    case "provider_missing":
    case "key_missing":
      return reason;
    case "file_damaged":
      return "input_changed";
    case "outage":
    case "disk_full":
      return "provider_error";
  }
}

/** Whether a word is the reason of a hold. */
export function isHoldReason(word: string): word is HoldReason {
  return REASONS.has(word);
}

/** Whether only the caller can change it. */
export function isCallers(reason: HoldReason): boolean {
  return CALLERS.has(reason);
}

/** Whether nobody knows when held work ends: all that is left of it is held, or some of it by the caller, or for long. */
export function isEndUnknown({ holds, isAll }: Pick<RunHolds, "holds" | "isAll">, wallMs: number): boolean {
  if (isAll) return true;
  return holds.some(({ reason, since }) => {
    if (isCallers(reason) || reason === "disk_full") return true;
    const isLimit = reason === "rate_limited" || reason === "overloaded";
    return wallMs - Date.parse(since) > (isLimit ? SHORT_LIMIT_MS : SHORT_HOLD_MS);
  });
}

/** Why a lane is held after a failure that does not concern an item. */
export function holdReasonOf(result: AttemptResult): HoldReason {
  if (result.class === "permanent") {
    if (result.scope === "model") return "model_unavailable";
    if (result.code === "authentication_failed") return "authentication";
    return result.code === "quota_exceeded" ? "quota" : "outage"; // a redirect, or an answer without a status
  }
  if (result.isRateLimit === true) return "rate_limited";
  return result.isOverload === true ? "overloaded" : "outage";
}
