/** A world whose provider has a deferred tier, which costs 0.3 of the list price. */

import type { DeferredOptions } from "../../../src/engine/config/batch_options.ts";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { FakeGeminiBatches, type FakeGeminiOptions } from "../../batch_servers/gemini.ts";
import { BatchWorld } from "../batches/batch_world.ts";

export const MODEL = "gemini:gemini-2.5-flash";
const HOUR = 60;
export const DAY_MINUTES = 24 * HOUR;

export interface DeferredWorld {
  readonly world: BatchWorld;
  readonly fake: FakeGeminiBatches;
}

/** `deferred`: instead of what the provider is configured with; null: nothing is said of it. */
export function deferredWorld(
  options: Partial<FakeGeminiOptions> = {},
  {
    lanes = { deny: ["flex", "batch"] },
    deferred = { priceFactor: 0.3 },
  }: { readonly lanes?: ConfigOptions["lanes"]; readonly deferred?: DeferredOptions | null } = {},
): DeferredWorld {
  let fake: FakeGeminiBatches | undefined;
  const tier = deferred === null ? {} : { deferred };
  const world = new BatchWorld(
    (nowMs) => {
      fake = new FakeGeminiBatches({ seed: 1, nowMs, deferredThousandths: 300, ...options });
      return { "https://gemini.test": fake };
    },
    {
      providers: { gemini: { baseUrl: "https://gemini.test", key: "sk-a", ...tier } },
      prices: { "gemini:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 4 } },
      ...(lanes === undefined ? {} : { lanes }),
    },
  );
  return { world, fake: fake as unknown as FakeGeminiBatches };
}

/** How many answers the provider billed in a tier. */
export function billedIn(fake: FakeGeminiBatches, tier: "deferred" | "realtime" | "flex" | "batch"): number {
  return fake.ledger.sums(tier).billed;
}
