/**
 * What a configuration says of the batches of its providers: bounds, prices, and secrets of notifications.
 *
 *   providers.<name>.batches                    bounds instead of those that are known, and the wire of a server of one's own
 *   providers.<name>.batches.priceFactor        share of the list price; a provider whose share is not known has no batches without it
 *   providers.<name>.batches.webhookSecret      or PERIGEE_PROVIDER_<NAME>_BATCH_SECRET: signs what the provider notifies of
 */
import { type LaneFactorOverrides, laneFactor } from "../../price/lane_factors.ts";
import type { BatchSettings } from "../../providers/batches/batch_settings.ts";
import { batchWireOf } from "../../providers/batches/batch_wires.ts";
import type { ProviderSettings } from "../../providers/provider.ts";

/** Of one provider. */
export interface BatchOptions extends BatchSettings {
  /** What batches cost, as a share of the list price: 0 to 10. Default: what is known of the provider. */
  readonly priceFactor?: number;
  /** Only for the service: `whsec_...`, with which the provider signs its notifications of batches. */
  readonly webhookSecret?: string;
}

/** All settled, by provider. */
export interface BatchConfig {
  readonly settings: ReadonlyMap<string, BatchSettings>;
  readonly factors: LaneFactorOverrides;
  readonly webhookSecrets: ReadonlyMap<string, string>;
}

/** `givenOf`: what the configuration says of a provider. Throws `invalid_config` for a wire that does not fit its provider. */
export function batchConfig(
  providers: readonly ProviderSettings[],
  givenOf: (provider: string) => BatchOptions | undefined,
  secretOf: (provider: string) => string | undefined,
): BatchConfig {
  const settings = new Map<string, BatchSettings>();
  const factors: Record<string, { readonly batch: number }> = {};
  const webhookSecrets = new Map<string, string>();
  for (const provider of providers) {
    const { name } = provider;
    const { priceFactor, webhookSecret = secretOf(name), ...given } = givenOf(name) ?? {};
    if (webhookSecret !== undefined && webhookSecret !== "") webhookSecrets.set(name, webhookSecret);
    if (priceFactor !== undefined) factors[name] = { batch: priceFactor };
    if (Object.keys(given).length === 0) continue;
    if (given.wire !== undefined) batchWireOf(provider, given);
    settings.set(name, given);
  }
  return { settings, factors, webhookSecrets };
}

/** What of it has no effect, in words for the operator. */
export function vainBatches({ settings, factors }: BatchConfig): readonly string[] {
  return [...settings.keys()].flatMap((name) =>
    laneFactor(name, "batch", factors) === undefined
      ? [
          `providers.${name}.batches has no effect: nothing is known of what batches cost at ${name}; set batches.priceFactor, such as 0.5`,
        ]
      : [],
  );
}
