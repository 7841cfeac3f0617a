/**
 * What a configuration says of the batches of its providers: bounds and prices.
 *
 *   providers.<name>.batches                    bounds instead of those that are known, and the wire of a custom server
 *   providers.<name>.batches.priceFactor        share of the list price; a provider whose share is not known has no batches without it
 */
import { type LaneFactorOverrides, laneFactor } from "../../price/lane_factors.ts";
import type { BatchSettings } from "../../providers/batches/batch_settings.ts";
import { batchWireOf } from "../../providers/batches/batch_wires.ts";
import type { ProviderSettings } from "../../providers/provider.ts";

/** Of one provider. */
export interface BatchOptions extends BatchSettings {
  /** What batches cost, as a share of the list price: 0 to 10. Default: what is known of the provider. */
  readonly priceFactor?: number;
}

/** All settled, by provider. */
export interface BatchConfig {
  readonly settings: ReadonlyMap<string, BatchSettings>;
  readonly factors: LaneFactorOverrides;
}

/** `givenOf`: what the configuration says of a provider. Throws `invalid_config` for a wire that does not fit its provider. */
export function batchConfig(
  providers: readonly ProviderSettings[],
  givenOf: (provider: string) => BatchOptions | undefined,
): BatchConfig {
  const settings = new Map<string, BatchSettings>();
  const factors: Record<string, { readonly batch: number }> = {};
  for (const provider of providers) {
    const { name } = provider;
    const { priceFactor, ...given } = givenOf(name) ?? {};
    if (priceFactor !== undefined) factors[name] = { batch: priceFactor };
    if (Object.keys(given).length === 0) continue;
    if (given.wire !== undefined) batchWireOf(provider, given);
    settings.set(name, given);
  }
  return { settings, factors };
}

/** What of it has no effect, in words for the operator. */
export function vainBatches({ settings, factors }: BatchConfig): readonly string[] {
  const dear = Object.entries(factors).flatMap(([name, { batch = 0 }]) =>
    batch > 1
      ? [
          `providers.${name}.batches has no effect: its priceFactor of ${batch} is above 1, so batches would cost more than realtime`,
        ]
      : [],
  );
  const unknown = [...settings.keys()].flatMap((name) =>
    laneFactor(name, "batch", factors) === undefined
      ? [
          `providers.${name}.batches has no effect: nothing is known of what batches cost at ${name}; set batches.priceFactor, such as 0.5`,
        ]
      : [],
  );
  return [...dear, ...unknown];
}
