/**
 * What lanes have learnt of their limits, kept for later engines (store/learnt.ts): under the provider's account and the family.
 *
 * What is read is checked: the file is the user's, and another version may have written it.
 */

import type { Clock } from "../../clock.ts";
import type { HiddenSearch, HiddenStage } from "../../limits/hidden/hidden_limit.ts";
import type { KnownLimits, LaneLimits } from "../../limits/limits.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import type { LaneTerms } from "../../queue/lanes.ts";
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
const SEARCH = ["heldMs", "sinceMs", "taken", "minuteHeld", "minuteRefused"] as const;

/** A lane, as it is kept. */
interface KeptLane {
  readonly terms: Pick<LaneTerms, "provider" | "family">;
  readonly limits: LaneLimits;
  /** What an answer takes, measured. */
  readonly itemMs: number;
  readonly hasAnswered: boolean;
}

export interface KeptLimitsOptions {
  readonly learnt: LearntStore;
  readonly clock: Clock;
  readonly config: { readonly providers: readonly ProviderSettings[] };
  /** Returns all lanes; called before each write. */
  readonly lanes: () => Iterable<KeptLane>;
}

/** One for an engine. */
export class KeptLimits {
  readonly #store: LearntStore;
  readonly #accounts: ReadonlyMap<string, string>;
  readonly #stages = new Map<LaneLimits, HiddenStage>();
  readonly #clock: Clock;

  constructor({ learnt, clock, config, lanes }: KeptLimitsOptions) {
    this.#store = learnt;
    this.#clock = clock;
    this.#accounts = new Map(config.providers.map((settings) => [settings.name, accountName(settings)]));
    learnt.source(() => {
      for (const lane of lanes()) this.#put(lane);
    });
  }

  /** Loads what is known into the limits of a new lane; returns the latency of an answer, in milliseconds. */
  restore(nowMs: number, terms: KeptLane["terms"], limits: LaneLimits): number | undefined {
    const name = this.#nameOf(terms);
    const kept = this.#store.get(KIND, name);
    if (typeof kept !== "object" || kept === null) return undefined;
    limits.restoreKnown(nowMs, this.#store.ageMs(KIND, name), knownOf(kept));
    return positive(Reflect.get(kept, "itemMs"));
  }

  /** An attempt ended in a lane with these limits: there is something to write. */
  ended(limits: LaneLimits): void {
    const { stage } = limits.hidden;
    if ((this.#stages.get(limits) ?? "none") === stage) {
      this.#store.changed();
      return;
    }
    this.#stages.set(limits, stage);
    this.#store.changedMuch(); // without it, the next process would search for the limit again
  }

  #put({ terms, limits, itemMs, hasAnswered }: KeptLane): void {
    const known = limits.known(this.#clock.nowMs());
    if (known === undefined && !hasAnswered) return;
    const value = { ...known, ...(hasAnswered ? { itemMs: Math.round(itemMs) } : {}) };
    this.#store.put(KIND, this.#nameOf(terms), value as JsonValue); // numbers in plain objects
  }

  #nameOf({ provider, family }: KeptLane["terms"]): string {
    return `${this.#accounts.get(provider) ?? provider} ${family}`;
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
  const found: { -readonly [name in (typeof FOUND)[number]]?: number } = {};
  for (const name of FOUND) {
    const limit = positive(Reflect.get(hidden, name));
    if (limit !== undefined) found[name] = limit;
  }
  const search = searchOf(Reflect.get(hidden, "search"));
  return { told, hidden: search === undefined ? found : { ...found, search } };
}

function searchOf(kept: unknown): HiddenSearch | undefined {
  if (typeof kept !== "object" || kept === null) return undefined;
  const search: { -readonly [name in keyof HiddenSearch]: number } = {
    ...{ heldMs: 0, sinceMs: 0, taken: 0, minuteHeld: 0, minuteRefused: 0 },
  };
  for (const name of SEARCH) {
    const value: unknown = Reflect.get(kept, name);
    if (value !== 0 && positive(value) === undefined) return undefined;
    search[name] = Number(value);
  }
  return search;
}

function positive(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : undefined;
}
