/**
 * The limits of an engine's lanes, and of its providers.
 *
 * Limits that a user sets for a provider hold for all its models together; limits set for `<provider>:<family>`, and those learnt from
 * headers, hold for that family in addition. Where other processes share them, both are drawn from the pool under the
 * account's name.
 */
import type { Clock } from "../../clock.ts";
import { LaneLimits } from "../../limits/limits.ts";
import type { LimitPool } from "../../limits/shared/limit_pool.ts";
import type { LaneTerms } from "../../queue/lanes.ts";
import { accountName, type LearntStore } from "../../store/learnt.ts";
import type { EngineConfig } from "../config/config.ts";
import { KeptLimits, type KeptLimitsOptions } from "../learnt/kept_limits.ts";
import { LimitDraws } from "./limit_draws.ts";

export interface ProviderLimitsOptions {
  readonly clock: Clock;
  readonly config: Pick<EngineConfig, "limits" | "maxInFlight" | "ramps" | "providers">;
  /** Undefined: no other process shares them. */
  readonly pool: LimitPool | undefined;
  readonly learnt: LearntStore;
  readonly lanes: () => AllLanes;
}

interface AllLanes {
  all(): ReturnType<KeptLimitsOptions["lanes"]>;
  /** Lets all of them send. */
  pumpAll(): void;
}

/** The limits of one engine. */
export class ProviderLimits {
  /** What earlier processes have learnt. */
  readonly kept: KeptLimits;
  readonly #options: ProviderLimitsOptions;
  readonly #draws: LimitDraws;
  readonly #shared = new Map<string, LaneLimits>();

  constructor(options: ProviderLimitsOptions) {
    this.#options = options;
    const { lanes } = options;
    this.kept = new KeptLimits({ ...options, lanes: () => lanes().all() });
    this.#draws = new LimitDraws({ ...options, pumpAll: () => lanes().pumpAll() });
  }

  /** Makes the limits of a lane. */
  of({ provider, family }: Pick<LaneTerms, "provider" | "family">): LaneLimits {
    const { clock, config } = this.#options;
    return new LaneLimits({
      settings: config.limits[`${provider}:${family}`] ?? {},
      inFlightMax: config.maxInFlight,
      nowMs: clock.nowMs(),
      random: () => clock.random(),
      shared: this.shared(provider),
      ramp: config.ramps[provider],
      drawn: this.#draws.of(`${this.#accountOf(provider)} ${family}`),
    });
  }

  /** The limits of all lanes of a provider together, made once. */
  shared(provider: string): LaneLimits {
    const { clock, config } = this.#options;
    const known = this.#shared.get(provider);
    if (known !== undefined) return known;
    const made = new LaneLimits({
      settings: config.limits[provider] ?? {},
      inFlightMax: config.maxInFlight,
      inFlightStart: config.maxInFlight,
      nowMs: clock.nowMs(),
      random: () => clock.random(),
      drawn: this.#draws.of(this.#accountOf(provider)),
    });
    this.#shared.set(provider, made);
    return made;
  }

  /** Whether rates of a provider are limited for all its lanes together. */
  areShared(provider: string): boolean {
    return Object.keys(this.#options.config.limits[provider] ?? {}).length > 0;
  }

  /** Ends the draws. */
  close(): void {
    this.#draws.close();
  }

  /** A name that is the same for all processes that have the account's key. */
  #accountOf(provider: string): string {
    const settings = this.#options.config.providers.find(({ name }) => name === provider);
    return settings === undefined ? provider : accountName(settings);
  }
}
