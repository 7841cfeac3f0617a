/**
 * Keys that were never accepted on this machine: a provider whose key is new is tried with two requests first, so that a wrong
 * key does not cost hundreds of refusals.
 *
 *   new --two requests were sent--> waits --the first success, or 2 s without a refusal--> open, and remembered
 *                                    \--a refusal--> its lanes are stopped (refused_access.ts)
 *
 * What was accepted is kept by account: provider, address and a fingerprint of the key (store/learnt.ts).
 */
import type { ProviderSettings } from "../providers/provider.ts";
import { accountName, type LearntStore } from "../store/learnt.ts";

const REQUESTS_MAX = 2;
const OPENS_AFTER_MS = 2_000;
const KIND = "accepted_key";

interface Trial {
  readonly account: string;
  sent: number;
  firstSentMs: number;
}

/** One for an engine. */
export class KeyTrials {
  readonly #learnt: Pick<LearntStore, "get" | "put">;
  /** By provider: keys that are not known to be accepted. */
  readonly #trials = new Map<string, Trial>();
  /** Providers whose key was accepted by an earlier process. */
  readonly known: readonly string[];

  constructor(providers: readonly ProviderSettings[], learnt: Pick<LearntStore, "get" | "put">) {
    this.#learnt = learnt;
    const known: string[] = [];
    for (const settings of providers) {
      if (settings.key === undefined) continue;
      const account = accountName(settings);
      if (learnt.get(KIND, account) === true) known.push(settings.name);
      else this.#trials.set(settings.name, { account, sent: 0, firstSentMs: 0 });
    }
    this.known = known;
  }

  /** Milliseconds until another request may go to a provider; 0 when it may now. */
  waitMs(provider: string, nowMs: number): number {
    if (this.#trials.size === 0) return 0;
    const trial = this.#trials.get(provider);
    if (trial === undefined || trial.sent < REQUESTS_MAX) return 0;
    const leftMs = trial.firstSentMs + OPENS_AFTER_MS - nowMs;
    if (leftMs > 0) return leftMs;
    this.#trials.delete(provider);
    return 0;
  }

  sent(provider: string, nowMs: number): void {
    const trial = this.#trials.size === 0 ? undefined : this.#trials.get(provider);
    if (trial === undefined) return;
    if (trial.sent === 0) trial.firstSentMs = nowMs;
    trial.sent += 1;
  }

  /** A request was answered with success. Returns whether the key was new until now. */
  accepted(provider: string): boolean {
    const trial = this.#trials.size === 0 ? undefined : this.#trials.get(provider);
    if (trial === undefined) return false;
    this.#trials.delete(provider);
    this.#learnt.put(KIND, trial.account, true);
    return true;
  }
}
