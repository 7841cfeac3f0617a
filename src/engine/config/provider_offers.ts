/**
 * What each provider of a configuration sells cheaper than realtime.
 */
import { laneFactor } from "../../price/lane_factors.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { hasTiers } from "../../providers/tier.ts";
import { type Offer, offersOf } from "../../queue/offers.ts";
import type { LaneSettings } from "./lane_rules.ts";

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
