/**
 * What lanes have learnt of their limits, kept for later engines (store/learnt.ts): under the provider's account and the family.
 *
 * What is read is checked: the file is the user's, and another version may have written it.
 */

import type { HiddenState, KnownLimits, LaneLimits } from "../../limits/limits.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { accountName, type JsonValue, type LearntStore } from "../../store/learnt.ts";
import type { LearntLimits } from "../../work/limits.ts";

const KIND = "limits";
const TOLD = [
  "requestsPerMinute",
  "tokensPerMinute",
  "inputTokensPerMinute",
  "outputTokensPerMinute",
] as const;
const FOUND = ["places", "requests", "tokens", "outputTokens"] as const;

/** A lane, as it is kept. */
interface KeptLane {
  /** `<provider>:<tier>:<family>`. */
  readonly key: string;
  readonly limits: LaneLimits;
  /** What an answer takes, measured. */
  readonly itemMs: number;
  readonly hasAnswered: boolean;
}

/** One for an engine. */
export class KeptLimits {
  readonly #store: LearntStore;
  readonly #accounts: ReadonlyMap<string, string>;

  /** `lanes` returns all lanes; called before each write. */
  constructor(store: LearntStore, providers: readonly ProviderSettings[], lanes: () => Iterable<KeptLane>) {
    this.#store = store;
    this.#accounts = new Map(providers.map((settings) => [settings.name, accountName(settings)]));
    store.source(() => {
      for (const lane of lanes()) this.#put(lane);
    });
  }

  /** Loads what is known into the limits of a new lane; returns the latency of an answer, in milliseconds. */
  restore(nowMs: number, key: string, limits: LaneLimits): number | undefined {
    const kept = this.#store.get(KIND, this.#nameOf(key));
    if (typeof kept !== "object" || kept === null) return undefined;
    limits.restoreKnown(nowMs, knownOf(kept));
    return positive(Reflect.get(kept, "itemMs"));
  }

  /** A lane was answered: there is something to write. */
  changed(): void {
    this.#store.changed();
  }

  #put({ key, limits, itemMs, hasAnswered }: KeptLane): void {
    const known = limits.known();
    if (known === undefined && !hasAnswered) return;
    const value = { ...known, ...(hasAnswered ? { itemMs: Math.round(itemMs) } : {}) };
    this.#store.put(KIND, this.#nameOf(key), value as JsonValue); // numbers in plain objects
  }

  #nameOf(key: string): string {
    const [provider = "", , ...family] = key.split(":");
    return `${this.#accounts.get(provider) ?? provider} ${family.join(":")}`;
  }
}

function knownOf(kept: object): KnownLimits {
  const told: { -readonly [name in (typeof TOLD)[number]]?: LearntLimits[name] } = {};
  const keptTold: unknown = Reflect.get(kept, "told");
  if (typeof keptTold === "object" && keptTold !== null)
    for (const name of TOLD) {
      const limit = positive(Reflect.get(keptTold, name));
      if (limit !== undefined) told[name] = limit;
    }
  const hidden: unknown = Reflect.get(kept, "hidden");
  if (typeof hidden !== "object" || hidden === null) return { told };
  const found: { -readonly [name in keyof HiddenState]?: HiddenState[name] } = {};
  for (const name of FOUND) {
    const limit = positive(Reflect.get(hidden, name));
    if (limit !== undefined) found[name] = limit;
  }
  return { told, hidden: found };
}

function positive(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : undefined;
}
