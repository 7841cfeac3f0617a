/**
 * What is tried with two requests first, so that a mistake does not cost a burst of refusals: a key that was never accepted on
 * this machine, a provider without a key that never answered, unless it is known to need none, and what an earlier process was
 * refused last: an account (its key, or no money) or a model.
 *
 *   new, or refused last --two requests were sent--> waits --the first success, or 2 s without a refusal--> open
 *                                                     \--a refusal--> its lanes are stopped (refused_access.ts)
 *
 * The two are far from each other in the input (lane_items.ts): lines beside each other may be refused for their own sake.
 *
 * What was accepted and what is refused is kept by account: provider, address and a fingerprint of the key (store/learnt.ts).
 * A success takes a refusal back. A model is tried in the lane of its family.
 */
import type { ProviderSettings } from "../../providers/provider.ts";
import { type FamilySettings, familyOf, type LaneKey, laneKey, providerOfLane } from "../../queue/lanes.ts";
import { accountName, type LearntStore } from "../../store/learnt.ts";
import { parseModelId } from "../../work/request.ts";
import type { EngineConfig } from "../config/config.ts";

const REQUESTS_MAX = 2;
const OPENS_AFTER_MS = 2_000;
const ACCEPTED = "accepted_key";
const REFUSED_ACCOUNT = "refused_account";
const REFUSED_MODEL = "refused_model";

interface Trial {
  /** For the operator, when its first request is sent. */
  readonly note?: string | undefined;
  sent: number;
  firstSentMs: number;
}

/** One for an engine. */
export class KeyTrials {
  readonly #learnt: Pick<LearntStore, "get" | "put">;
  readonly #notice: (message: string) => void;
  /** By provider, and by the lane of a model. */
  readonly #trials = new Map<string, Trial>();
  /** Names of accounts, by provider. */
  readonly #accounts = new Map<string, string>();
  /** Providers that no process has seen accept a request with this key, or without one. */
  readonly #unknown = new Set<string>();
  /** Accounts and models that were refused last. */
  readonly #refused = new Set<string>();
  /** Providers that accepted an earlier process, with this key or without one. */
  readonly known: readonly string[];

  constructor(
    { providers, families, keysUnset }: Pick<EngineConfig, "providers" | "families" | "keysUnset">,
    learnt: Pick<LearntStore, "get" | "put" | "keys">,
    notice: (message: string) => void,
  ) {
    this.#learnt = learnt;
    this.#notice = notice;
    const known: string[] = [];
    for (const settings of providers) {
      const { name } = settings;
      const account = accountName(settings);
      this.#accounts.set(name, account);
      const isKnown = learnt.get(ACCEPTED, account) === true;
      if (isKnown) known.push(name);
      else this.#unknown.add(name);
      const isNew = !isKnown && (mayHaveKey(settings) || keysUnset.has(name));
      const isRefused = learnt.get(REFUSED_ACCOUNT, account) === true;
      if (isRefused) this.#refused.add(account);
      if (isRefused || isNew) this.#trials.set(name, { sent: 0, firstSentMs: 0, note: keysUnset.get(name) });
    }
    this.known = known;
    this.#tryModels(learnt, families);
  }

  /** Milliseconds until another request may go to a lane; 0 when it may now. */
  waitMs(lane: LaneKey, nowMs: number): number {
    if (this.#trials.size === 0) return 0;
    return Math.max(this.#waitMs(providerOfLane(lane), nowMs), this.#waitMs(lane, nowMs));
  }

  /** Whether the requests of a lane are few, and are to show what is refused. Hot path: once an item. */
  isTrial(lane: LaneKey): boolean {
    return this.#trials.size > 0 && (this.#trials.has(providerOfLane(lane)) || this.#trials.has(lane));
  }

  sent(lane: LaneKey, nowMs: number): void {
    if (this.#trials.size === 0) return;
    for (const name of [providerOfLane(lane), lane]) {
      const trial = this.#trials.get(name);
      if (trial === undefined) continue;
      if (trial.sent === 0) {
        trial.firstSentMs = nowMs;
        if (trial.note !== undefined) this.#notice(trial.note);
      }
      trial.sent += 1;
    }
  }

  /** A lane was answered with success. Returns whether other lanes waited for it. */
  accepted(lane: LaneKey): boolean {
    const provider = providerOfLane(lane);
    if (this.#unknown.delete(provider)) this.#learnt.put(ACCEPTED, this.#accounts.get(provider) ?? "", true);
    if (this.#trials.size === 0) return false;
    this.#trials.delete(lane);
    return this.#trials.delete(provider);
  }

  /** A request for a model was answered with success. Hot path: once an answer. */
  answered(model: string): void {
    if (this.#refused.size === 0) return;
    const { account, accountModel } = this.#namesOf(model);
    if (this.#refused.delete(account)) this.#learnt.put(REFUSED_ACCOUNT, account, false);
    if (this.#refused.delete(accountModel)) this.#learnt.put(REFUSED_MODEL, accountModel, false);
  }

  /** A model, or the account that it was requested with, is refused. */
  refused(model: string, what: "model" | "account"): void {
    const { account, accountModel } = this.#namesOf(model);
    const name = what === "model" ? accountModel : account;
    if (this.#refused.has(name)) return;
    this.#refused.add(name);
    this.#learnt.put(what === "model" ? REFUSED_MODEL : REFUSED_ACCOUNT, name, true);
  }

  #tryModels(learnt: Pick<LearntStore, "get" | "keys">, families: FamilySettings): void {
    for (const accountModel of learnt.keys(REFUSED_MODEL)) {
      if (learnt.get(REFUSED_MODEL, accountModel) !== true) continue;
      for (const [provider, account] of this.#accounts) {
        if (!accountModel.startsWith(`${account} `)) continue;
        const family = familyOf(provider, accountModel.slice(account.length + 1), families);
        this.#refused.add(accountModel);
        this.#trials.set(laneKey(provider, "realtime", family), { sent: 0, firstSentMs: 0 });
      }
    }
  }

  /** The names under which an account and its model are remembered. */
  #namesOf(model: string): { readonly account: string; readonly accountModel: string } {
    const { provider = "", name = "" } = parseModelId(model) ?? {};
    const account = this.#accounts.get(provider) ?? "";
    return { account, accountModel: `${account} ${name}` };
  }

  #waitMs(name: string, nowMs: number): number {
    const trial = this.#trials.get(name);
    if (trial === undefined || trial.sent < REQUESTS_MAX) return 0;
    const leftMs = trial.firstSentMs + OPENS_AFTER_MS - nowMs;
    if (leftMs > 0) return leftMs;
    this.#trials.delete(name);
    return 0;
  }
}

/** A function and a codec of the caller may send a key that the settings do not have. */
function mayHaveKey({ key, protocol, hasOwnCodec }: ProviderSettings): boolean {
  return key !== undefined || protocol === "function" || hasOwnCodec === true;
}
