/**
 * What a configuration says of the batches and deferred requests of its providers: bounds and prices.
 *
 *   providers.<name>.batches                    bounds instead of those that are known, and the wire of a custom server
 *   providers.<name>.batches.priceFactor        share of the list price; a provider whose share is not known has no batches without it
 *   providers.<name>.deferred.priceFactor       the same for requests in a deferred tier: nothing is deferred without it
 */
import { type LaneFactorOverrides, laneFactor } from "../../price/lane_factors.ts";
import type { BatchSettings } from "../../providers/batches/batch_settings.ts";
import type { RemoteKind, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { batchWireOf } from "../../providers/batches/batch_wires.ts";
import { type DeferredSettings, deferredWireOf } from "../../providers/deferred/gemini_deferred.ts";
import type { ProviderSettings } from "../../providers/provider.ts";

/** Of one provider. */
export interface BatchOptions extends BatchSettings {
  /** What batches cost, as a share of the list price: 0 to 10. Default: what is known of the provider. */
  readonly priceFactor?: number;
}

/** Of one provider. */
export interface DeferredOptions extends DeferredSettings {
  /** What its deferred tier costs, as a share of the list price: 0 to 10. No provider says how much it is. */
  readonly priceFactor: number;
}

/** What a configuration says of one provider. */
interface RemoteOptions {
  readonly batches?: BatchOptions;
  readonly deferred?: DeferredOptions;
}

/** All settled, by provider. */
export interface BatchConfig {
  readonly settings: ReadonlyMap<string, BatchSettings>;
  /** Of those whose deferred tier has a price. */
  readonly deferred: ReadonlyMap<string, DeferredSettings>;
  readonly factors: LaneFactorOverrides;
}

/** `givenOf`: what the configuration says of a provider. Throws `invalid_config` for a wire that does not fit its provider. */
export function batchConfig(
  providers: readonly ProviderSettings[],
  givenOf: (provider: string) => RemoteOptions,
): BatchConfig {
  const settings = new Map<string, BatchSettings>();
  const deferred = new Map<string, DeferredSettings>();
  const factors: Record<string, { readonly batch?: number; readonly deferred?: number }> = {};
  for (const provider of providers) {
    const { name } = provider;
    const { batches = {}, deferred: tier } = givenOf(name);
    const { priceFactor, ...given } = batches;
    if (priceFactor !== undefined) factors[name] = { batch: priceFactor };
    if (tier !== undefined) {
      const { priceFactor: factor, ...own } = tier;
      factors[name] = { ...factors[name], deferred: factor };
      deferred.set(name, own);
    }
    if (Object.keys(given).length === 0) continue;
    if (given.wire !== undefined) batchWireOf(provider, given);
    settings.set(name, given);
  }
  return { settings, deferred, factors };
}

/** What batches of a kind of a provider are worked on by; undefined where it has none. */
export function remoteWireOf(
  provider: ProviderSettings,
  { settings, deferred }: Pick<BatchConfig, "settings" | "deferred">,
  kind: RemoteKind,
): RemoteWire | undefined {
  const { name } = provider;
  if (kind === "batch") return batchWireOf(provider, settings.get(name));
  const given = deferred.get(name);
  return given === undefined ? undefined : deferredWireOf(provider, given);
}

/** What of it has no effect, in words for the operator. */
export function vainBatches(
  { settings, deferred, factors }: BatchConfig,
  providers: readonly ProviderSettings[],
): readonly string[] {
  const vain = providers.flatMap((provider) =>
    deferred.has(provider.name) && deferredWireOf(provider) === undefined
      ? [`providers.${provider.name}.deferred has no effect: no deferred tier is known of ${provider.name}`]
      : [],
  );
  const dear = Object.entries(factors).flatMap(([name, { batch = 0, deferred: single = 0 }]) => [
    ...(batch > 1 ? [dearText(name, "batches", batch)] : []),
    ...(single > 1 ? [dearText(name, "deferred", single)] : []),
  ]);
  const unpriced = [...settings.keys()].flatMap((name) =>
    laneFactor(name, "batch", factors) === undefined
      ? [
          `providers.${name}.batches has no effect: nothing is known of what batches cost at ${name}; set batches.priceFactor, such as 0.5`,
        ]
      : [],
  );
  return [...vain, ...dear, ...unpriced];
}

function dearText(name: string, option: "batches" | "deferred", factor: number): string {
  const what = option === "batches" ? option : "deferred requests";
  return `providers.${name}.${option} has no effect: its priceFactor of ${factor} is above 1, so ${what} would cost more than realtime`;
}
