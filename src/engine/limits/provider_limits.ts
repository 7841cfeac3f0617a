/**
 * The limits of an engine's lanes, and of its providers.
 *
 * Limits that a user sets for a provider hold for all its models together; limits set for `<provider>:<family>`, and those learnt from
 * headers, hold for that family in addition. Where other processes share them, both are drawn from the pool under the
 * account's name, and so is what is known of a family.
 */
import type { Clock } from "../../clock.ts";
import { LaneLimits } from "../../limits/limits.ts";
import type { DrawnWork } from "../../limits/shared/drawn_work.ts";
import type { FactsChange, LaneFacts } from "../../limits/shared/lane_facts.ts";
import type { LimitPool } from "../../limits/shared/limit_pool.ts";
import { NO_WORK, type OtherWork, type WorkStanding } from "../../limits/shared/shared_work.ts";
import { ATTEMPT_MS_MAX, type LaneTerms } from "../../queue/lanes.ts";
import { accountName, type LearntStore } from "../../store/learnt.ts";
import type { EngineConfig } from "../config/config.ts";
import { KeptLimits, type KeptLimitsOptions } from "../learnt/kept_limits.ts";
import { LimitDraws } from "./limit_draws.ts";

export interface ProviderLimitsOptions {
  readonly clock: Clock;
  readonly config: Pick<EngineConfig, "limits" | "maxInFlight" | "ramps" | "providers" | "attemptMsMax">;
  /** Undefined: no other process shares them. */
  readonly pool: LimitPool | undefined;
  readonly learnt: LearntStore;
  readonly lanes: () => AllLanes;
}

interface AllLanes {
  all(): ReturnType<KeptLimitsOptions["lanes"]>;
  /** Lets all of them send. */
  pumpAll(): void;
  /** Other processes have stopped the lane with these limits, or let it go on. */
  told(limits: LaneLimits, change: FactsChange): void;
  /** What waits for these limits, of a lane, or of all lanes of `provider`. */
  standing(limits: LaneLimits, provider: string | undefined): WorkStanding;
}

/** Where what waits for limits is to be shared: of a provider, or of one lane. */
interface LimitedWork {
  readonly pool: string;
  readonly limits: LaneLimits;
  readonly provider?: string;
  readonly hasPlaces: boolean;
}

/** The limits of one engine. */
export class ProviderLimits {
  /** What earlier processes have learnt. */
  readonly kept: KeptLimits;
  readonly #options: ProviderLimitsOptions;
  readonly #draws: LimitDraws;
  readonly #shared = new Map<string, LaneLimits>();
  readonly #ofFacts = new Map<LaneFacts, LaneLimits>();
  readonly #works = new Map<LaneLimits, DrawnWork>();

  constructor(options: ProviderLimitsOptions) {
    this.#options = options;
    const { lanes } = options;
    this.kept = new KeptLimits({ ...options, lanes: () => lanes().all() });
    this.#draws = new LimitDraws({
      ...options,
      pumpAll: () => lanes().pumpAll(),
      onFacts: (facts, change) => {
        const limits = this.#ofFacts.get(facts);
        if (limits !== undefined) lanes().told(limits, change);
      },
    });
  }

  /** Makes the limits of a lane. */
  of({ provider, family }: Pick<LaneTerms, "provider" | "family">): LaneLimits {
    const { clock, config } = this.#options;
    const pool = `${this.#accountOf(provider)} ${family}`;
    const settings = config.limits[`${provider}:${family}`] ?? {};
    const facts = this.#draws.factsOf(pool);
    const limits = new LaneLimits({
      settings,
      inFlightMax: config.maxInFlight,
      nowMs: clock.nowMs(),
      random: () => clock.random(),
      shared: this.shared(provider),
      ramp: config.ramps[provider],
      drawn: this.#draws.of(pool),
      places: this.#draws.placesOf(pool, settings.concurrency, this.#lastsMs(provider)),
      facts,
    });
    if (facts !== undefined) this.#ofFacts.set(facts, limits);
    this.#shareWork({ pool, limits, hasPlaces: settings.concurrency !== undefined });
    return limits;
  }

  /** The limits of all lanes of a provider together, made once. */
  shared(provider: string): LaneLimits {
    const { clock, config } = this.#options;
    const known = this.#shared.get(provider);
    if (known !== undefined) return known;
    const pool = this.#accountOf(provider);
    const settings = config.limits[provider] ?? {};
    const made = new LaneLimits({
      settings,
      inFlightMax: config.maxInFlight,
      inFlightStart: config.maxInFlight,
      nowMs: clock.nowMs(),
      random: () => clock.random(),
      drawn: this.#draws.of(pool),
      places: this.#draws.placesOf(pool, settings.concurrency, this.#lastsMs(provider)),
    });
    this.#shared.set(provider, made);
    this.#shareWork({ pool, limits: made, provider, hasPlaces: settings.concurrency !== undefined });
    return made;
  }

  /** What waits for limits at other processes, as far as known; nothing where they are not shared. */
  othersOf(limits: LaneLimits): readonly OtherWork[] {
    return this.#works.get(limits)?.others(this.#options.clock.nowMs()) ?? [];
  }

  #shareWork({ pool, limits, provider, hasPlaces }: LimitedWork): void {
    const work = this.#draws.workOf(pool, () =>
      hasPlaces || limits.isRateLimited ? this.#options.lanes().standing(limits, provider) : NO_WORK,
    );
    if (work !== undefined) this.#works.set(limits, work);
  }

  /** Whether rates of a provider are limited for all its lanes together. */
  areShared(provider: string): boolean {
    return Object.keys(this.#options.config.limits[provider] ?? {}).length > 0;
  }

  /** Ends the draws; no request is in flight. */
  close(): void {
    this.#draws.close();
  }

  /** How long one request may last. */
  #lastsMs(provider: string): number {
    const { providers, attemptMsMax = ATTEMPT_MS_MAX } = this.#options.config;
    return providers.find(({ name }) => name === provider)?.timeoutMs ?? attemptMsMax;
  }

  /** A name that is the same for all processes that have the account's key. */
  #accountOf(provider: string): string {
    const settings = this.#options.config.providers.find(({ name }) => name === provider);
    return settings === undefined ? provider : accountName(settings);
  }
}
