/**
 * Which prefixes a provider's cache has, as far as their requests say.
 *
 *   cold --a request that pays is chosen--> priming (one under way; others wait until `heldUntilMs`, then go without the cache)
 *   priming --answered, something was written or read--> warm --the life since the last use is over--> cold
 *   priming --answered, nothing was--> barren: never asked for again (too short for the model, or no cache)
 *   priming --failed, or lost for 10 min--> cold
 *
 * What was asked for must pay as a whole: while writes have cost more than reads have saved, after 8 of them, nothing is asked for,
 * for an hour. A read is billed as a write if the entry is gone, so an entry counts as gone a little early.
 *
 * Limits: 16,384 prefixes, about 200 bytes each (3 MiB after 10 M different ones); beyond, those that were used least recently are forgotten.
 * Hot path: 0.1 us a request with a shared prefix, nothing for others.
 */
import { type CacheLife, type CacheTerms, cheapestLife } from "./cache_terms.ts";

const STATES_MAX = 16_384;
/** A request that was chosen and of which nothing was heard, such as of a run that was stopped. */
const LOST_MS = 600_000;
const MARGIN_MS_MAX = 10_000;
const MARGIN_SHARE = 0.1;
const TRIAL_WRITES = 8;
const PAUSE_MS = 3_600_000;

interface PrefixState {
  readonly life: CacheLife;
  phase: "priming" | "warm" | "barren";
  /** Since when it is primed; the last use once it is warm. Monotonic. */
  sinceMs: number;
  /** While it is primed: until when others wait. */
  heldUntilMs: number;
}

/** What is asked about a prefix. */
export interface PrefixUse {
  /** Its hash and its model. */
  readonly key: string;
  readonly tokens: number;
  /** Requests with the prefix that are known to follow. */
  readonly followers: number;
  /** As `ExpectedUses`. */
  readonly gapMs: number;
  /** For how long others wait for this one, if it primes a cache with this life. */
  holdMs(life: CacheLife): number;
}

/** What the next request with a prefix does. */
export type PrefixStep =
  | { readonly is: "plain" }
  /** It writes what others read, which wait for so long. */
  | { readonly is: "prime"; readonly life: CacheLife; readonly holdMs: number }
  /** It uses what is cached. */
  | { readonly is: "read"; readonly life: CacheLife };

/** What an answer says of the cache, in tokens. */
export interface CacheUsage {
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
}

const PLAIN: PrefixStep = { is: "plain" };

/** One for a lane. */
export class PrefixStates {
  #recent = new Map<string, PrefixState>();
  #older = new Map<string, PrefixState>();
  readonly #statesMax: number;
  #priming = 0;
  /** What reads have saved less what writes have cost more, in tokens of plain input. */
  #savedTokens = 0;
  #writes = 0;
  #pausedUntilMs = 0;

  constructor(statesMax: number = STATES_MAX) {
    this.#statesMax = statesMax;
  }

  /** Chooses for a request that is sent now; `prime` is to be followed by `answered` or `failed`. */
  next(use: PrefixUse, terms: CacheTerms, nowMs: number): PrefixStep {
    if (use.tokens < terms.tokensMin) return PLAIN;
    const state = this.#get(use.key);
    if (state?.phase === "warm" && nowMs < this.#endMs(state)) {
      state.sinceMs = nowMs;
      this.#put(use.key, state);
      return { is: "read", life: state.life };
    }
    if (state?.phase === "barren") return PLAIN;
    if (state?.phase === "priming" && nowMs < state.sinceMs + LOST_MS) return PLAIN;
    const life = this.#isPaused(terms, nowMs)
      ? undefined
      : cheapestLife(terms, { requests: use.followers + 1, gapMs: use.gapMs });
    if (life === undefined) return PLAIN;
    const holdMs = use.holdMs(life);
    this.#forget(use.key);
    this.#put(use.key, { life, phase: "priming", sinceMs: nowMs, heldUntilMs: nowMs + holdMs });
    this.#priming += 1;
    return { is: "prime", life, holdMs };
  }

  /** Until when requests with a prefix wait for the first answer; undefined if they do not. */
  heldUntilMs(key: string, nowMs: number): number | undefined {
    const state = this.#priming === 0 ? undefined : this.#get(key);
    return state?.phase === "priming" && nowMs < state.heldUntilMs ? state.heldUntilMs : undefined;
  }

  /** Whether any prefix is primed now: if not, nothing is held. */
  get isPriming(): boolean {
    return this.#priming > 0;
  }

  /** A request with the prefix was answered; `usage` is undefined where the provider did not say. `counts`: false if it counts elsewhere. */
  answered(
    key: string,
    step: "prime" | "read",
    terms: CacheTerms,
    usage: CacheUsage | undefined,
    counts: boolean = true,
  ): void {
    const state = this.#get(key);
    if (counts && usage !== undefined && terms.isAsked && state !== undefined)
      this.#account(state.life, terms, usage);
    if (step !== "prime" || state?.phase !== "priming") return;
    this.#priming -= 1;
    const isBarren = usage !== undefined && usage.cachedTokens + usage.cacheWriteTokens === 0;
    state.phase = terms.isAsked && isBarren ? "barren" : "warm";
  }

  /** The request that primes brought no answer. */
  failed(key: string): void {
    if (this.#get(key)?.phase === "priming") this.#forget(key);
  }

  #account(life: CacheLife, { readFactor }: CacheTerms, usage: CacheUsage): void {
    const { cachedTokens, cacheWriteTokens } = usage;
    if (cacheWriteTokens > 0) this.#writes += 1;
    this.#savedTokens += cachedTokens * (1 - readFactor) - cacheWriteTokens * (life.writeFactor - 1);
  }

  #isPaused({ isAsked }: CacheTerms, nowMs: number): boolean {
    if (!isAsked) return false;
    if (nowMs < this.#pausedUntilMs) return true;
    if (this.#writes < TRIAL_WRITES || this.#savedTokens >= 0) return false;
    this.#pausedUntilMs = nowMs + PAUSE_MS;
    this.#writes = 0;
    this.#savedTokens = 0;
    return true;
  }

  #endMs({ sinceMs, life: { ttlMs } }: PrefixState): number {
    return sinceMs + ttlMs - Math.min(MARGIN_MS_MAX, ttlMs * MARGIN_SHARE);
  }

  #get(key: string): PrefixState | undefined {
    return this.#recent.get(key) ?? this.#older.get(key);
  }

  /** Two halves, the older one forgotten as a whole: taking the first entry of a map again and again walks over those that left. */
  #put(key: string, state: PrefixState): void {
    if (this.#recent.has(key)) return;
    this.#older.delete(key);
    this.#recent.set(key, state);
    if (this.#recent.size < this.#statesMax / 2) return;
    for (const { phase } of this.#older.values()) if (phase === "priming") this.#priming -= 1;
    this.#older = this.#recent;
    this.#recent = new Map();
  }

  #forget(key: string): void {
    if (this.#get(key)?.phase === "priming") this.#priming -= 1;
    this.#recent.delete(key);
    this.#older.delete(key);
  }
}
