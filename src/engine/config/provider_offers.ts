/**
 * What each provider of a configuration sells cheaper than realtime.
 */
import { laneFactor } from "../../price/lane_factors.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { hasTiers } from "../../providers/tier.ts";
import { type Offer, offersOf } from "../../queue/offers.ts";
import type { ConfigOptions } from "./config_options.ts";
import type { LaneSettings } from "./lane_rules.ts";

/** What is configured of offers and has no effect, in words for the operator. */
export function vainOffers(
  { lanes: { allow = [] } = {} }: Pick<ConfigOptions, "lanes">,
  providers: readonly ProviderSettings[],
): readonly string[] {
  return providers.flatMap(({ name, batchChatUrl }) => {
    const flex = laneFactor(name, "flex");
    const isFlexVain = flex !== undefined && flex.factor >= 1 && allow.includes(`${name}:flex`);
    const isSlowVain = batchChatUrl !== undefined && laneFactor(name, "slow") === undefined;
    return [
      ...(isFlexVain
        ? [`lanes.allow["${name}:flex"] has no effect: flex costs as much as realtime at ${name}`]
        : []),
      ...(isSlowVain
        ? [`providers.${name}.batchChatUrl has no effect: no Batch Chat is known of ${name}`]
        : []),
    ];
  });
}

/** By provider; those without an offer that may be used are absent. */
export function offersBy(
  providers: readonly ProviderSettings[],
  terms: Pick<LaneSettings, "choices" | "priors">,
): ReadonlyMap<string, readonly Offer[]> {
  return new Map(
    providers.flatMap(({ name, protocol, batchChatUrl }) => {
      const factorOf = (tier: "flex" | "slow"): number | undefined => laneFactor(name, tier)?.factor;
      const offers = offersOf(name, factorOf, { ...terms, hasSlow: batchChatUrl !== undefined });
      return hasTiers(protocol) && offers.length > 0 ? [[name, offers] as const] : [];
    }),
  );
}
