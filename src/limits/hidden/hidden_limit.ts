/**
 * Finds a limit that the provider does not announce: no configuration, no header and no Retry-After, only 429s. Each lane has its own;
 * lanes (models) under one limit each find their part of it (docs/decisions/0020-hidden-limits.md).
 *
 *   free --refused--> held --a probe is accepted--> places --refused again and again below its cap--> rate
 *                      |  \--refused with nothing in flight, later a probe is accepted--> rate
 *                      \--refused until tokens of late answers have aged--> tokens
 *   places, rate --refused--> held --a probe is accepted--> places, rate
 *
 * Held: the lane sends only single probes (hold.ts). It sends one when a place becomes free (unless it knows a rate), when a sliding
 * minute of tokens would accept one, and after waits. A 429 arrives at once and an answer arrives late: a request that was not refused
 * within twice the time of the slowest refusal counts as accepted.
 *
 * Places: the number in flight when the refusals have stopped is what the provider works on at once. A provider that limits places
 * never refuses below that number.
 *
 * Rate: see hidden_rate.ts. Tokens, where answers take long: see hidden_tokens.ts. With short answers a limit on tokens looks like a
 * limit on requests of their mean size.
 *
 * A limit does not explain all refusals. A lower rate would never end these:
 *   everything is refused for longer than two windows  the earlier result is kept: no window refuses for so long
 *   nothing but the probe was ever accepted            no rate is set: others, or an earlier process, had used up the limit
 *   no window of a minute explains when they end       the rate rises by 15 % a second until a refusal (hidden_rate.ts)
 *   one of the first probes is accepted within 10 s    the rate stays at a quarter of the most accepted in a minute, or above
 *   few in a row, or as many at half the load          they occur by chance, and the limit is not lowered (chance_refusals.ts)
 */

import type { FlowLimits, TokenFlow } from "../token_flow.ts";
import { type AcceptedCounts, AcceptedRequests } from "./accepted_requests.ts";
import { ChanceRefusals } from "./chance_refusals.ts";
import { HiddenDoubt } from "./hidden_doubt.ts";
import { HiddenPlaces } from "./hidden_places.ts";
import { HiddenRate } from "./hidden_rate.ts";
import { HiddenTokens } from "./hidden_tokens.ts";
import { HELD_LEVEL_LATE, HELD_LEVEL_TRYING, type HiddenMark, ProbedHold } from "./hold.ts";
import { WINDOW_MS } from "./rate_window.ts";

/** Two windows. No limit refuses everything for longer. */
const STOP_MS = 2 * WINDOW_MS;

/** What a later process starts with. */
export interface HiddenState {
  /** Requests in flight, where places are limited. */
  readonly places?: number;
  /** Requests a minute. */
  readonly requests?: number;
  /** Tokens a minute, where answers take long: input and output. */
  readonly tokens?: number;
  /** The same, where the provider counts only the output. */
  readonly outputTokens?: number;
  /** A search for a rate while the provider refuses everything. */
  readonly search?: HiddenSearch;
}

/** Times are ages. */
export interface HiddenSearch extends AcceptedCounts {
  /** How long ago the refusals began. */
  readonly heldMs: number;
}

/** What a lane knows of a limit: nothing, a search for a rate that refuses everything, or figures. */
export type HiddenStage = "none" | "search" | "found";

/** One per lane. Times are monotonic. */
export class HiddenLimit {
  #mode: "free" | "places" | "rate" | "tokens" = "free";
  readonly #tokens: HiddenTokens;
  /** Undoes the effect of refusals that their items explain. */
  readonly doubt: HiddenDoubt = new HiddenDoubt();
  /** Refusals that occur at any load. */
  readonly #chance = new ChanceRefusals();
  #inFlight = 0;
  readonly #hold = new ProbedHold();
  readonly #places = new HiddenPlaces();
  readonly #accepted: AcceptedRequests;
  readonly #rate: HiddenRate;
  /** What was sent in the minute before the last refused probe of a hold, as a share of what was sent before the refusals. */
  #shareRefused = 1;

  /** `flow` counts the tokens that the lane has used. */
  constructor(nowMs: number, flow: TokenFlow) {
    this.#tokens = new HiddenTokens(flow);
    this.#accepted = new AcceptedRequests(nowMs);
    this.#rate = new HiddenRate(nowMs, this.#accepted.minute);
  }

  get isHeld(): boolean {
    return this.#hold.isOn;
  }

  /** Milliseconds until one more request may be sent; 0 for now, Infinity if only an answer can allow it. */
  waitMs(nowMs: number): number {
    if (this.#hold.isOn) {
      const heldMs = this.#heldMs(nowMs);
      if (this.#hold.isOn || heldMs > 0) return heldMs;
    }
    const trialMs = this.#chance.waitMs(nowMs, this.#inFlight);
    if (this.#mode === "places") {
      const hasRoom = this.#places.hasRoom(nowMs, this.#inFlight, this.#accepted.minute.count(nowMs));
      return hasRoom ? trialMs : Number.POSITIVE_INFINITY;
    }
    if (this.#mode === "tokens") this.#tokens.raise(nowMs);
    return this.#mode === "rate" ? Math.max(trialMs, this.#rate.waitMs(nowMs)) : trialMs;
  }

  /** Counts a request that is sent. Call it after `waitMs` returned 0. */
  sent(nowMs: number, mark: HiddenMark): void {
    this.#tokens.began(nowMs);
    if (this.#hold.isOn) {
      this.#tokens.probed(nowMs);
      this.#hold.probed(nowMs, mark, this.#inFlight + 1);
    } else if (this.#accepted.minute.count(nowMs) <= 0) this.#accepted.begin(nowMs, 0); // the pause was lack of work, not a limit
    this.#inFlight += 1;
    this.#accepted.sent(nowMs);
    mark.index = this.#chance.sent(nowMs);
    if (this.#mode === "rate" && this.#rate.isKnown) this.#rate.sent(nowMs);
  }

  /** The provider refused the request with a 429 that does not state a wait. */
  refused(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    if (!this.#hold.isOn && this.#isChance(nowMs, mark)) {
      this.uncount(mark);
      if (this.#mode === "rate") this.#rate.unsent();
      return;
    }
    this.doubt.refused(nowMs, mark, () => this.#keep());
    const isProbe = mark === this.#hold.probe;
    this.uncount(mark);
    this.#hold.refused(nowMs, nowMs - mark.atMs);
    this.#accepted.refused(nowMs, this.#hold.isEarly(nowMs));
    if (this.#hold.isOn) {
      if (isProbe) this.#probeRefused(nowMs);
    } else if (this.#mode !== "places" || !this.#places.refused(nowMs)) this.#begin(nowMs);
  }

  /** Whether chance may explain a refusal. If not, the first one of its row shows what a limit on tokens had counted by then. */
  #isChance(nowMs: number, { atMs, index }: HiddenMark): boolean {
    const isChance = this.#chance.explains(nowMs, index, {
      isFree: this.#mode === "free",
      inFlight: this.#inFlight,
      isLate: this.#tokens.isLate,
      everyMs: this.#mode === "rate" ? this.#rate.everyMs : 0,
      isExpected: this.#mode === "places" && this.#places.isFirst(atMs),
    });
    if (this.#chance.row <= 1) this.#tokens.refused(nowMs);
    return isChance;
  }

  /** Stops counting a request whose refusal shows nothing new: it states a wait, or refuses only growth. */
  uncount(mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#accepted.uncount(mark.atMs);
    this.#hold.uncount(mark);
  }

  /** The request ended in another way: the provider had accepted it. */
  ended(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#places.freed();
    this.#chance.accepted(mark.index);
    if (!this.#hold.isOn) return;
    if (mark === this.#hold.probe) this.#leave(mark.atMs);
    else if (this.#isPlace) this.#hold.freed(nowMs, this.#inFlight);
  }

  /** Whether the refusals may end when a place becomes free. */
  get #isPlace(): boolean {
    return this.#mode === "free" || this.#mode === "places";
  }

  /** The most requests that may be in flight; Infinity while no limit on places was found. */
  get places(): number {
    return this.#mode === "places" ? this.#places.cap : Number.POSITIVE_INFINITY;
  }

  /** Tokens a minute; undefined while no limit on them was found. */
  get tokenLimits(): FlowLimits | undefined {
    return this.#mode === "tokens" ? this.#tokens.limits : undefined;
  }

  /** Milliseconds until the next probe, at least 1; 0 while the lane is not held, and once a rate is stated. */
  heldMs(nowMs: number, isRated: boolean): number {
    return !this.#hold.isOn || isRated ? 0 : Math.max(1, this.#hold.nextMs - nowMs);
  }

  /** Requests of the last minute and the limit on them; undefined while no rate was found. */
  use(nowMs: number): { readonly used: number; readonly limit: number } | undefined {
    if (this.#mode !== "rate" || !this.#rate.isKnown) return undefined;
    return { used: this.#accepted.minute.count(nowMs), limit: this.#rate.perMinute };
  }

  /** Use of a limit on tokens that refusals have shown; undefined without one. */
  tokenUse(
    nowMs: number,
    flow: TokenFlow,
    unit: "tokens" | "outputTokens",
  ): { readonly used: number; readonly limit: number } | undefined {
    const limit = this.tokenLimits?.[unit] ?? Number.POSITIVE_INFINITY;
    if (limit === Number.POSITIVE_INFINITY) return undefined;
    return { used: flow.used(nowMs)[unit], limit: Math.round(limit) };
  }

  /** The kind of state that `state` returns. */
  get stage(): HiddenStage {
    if (this.#mode === "free") return "none";
    if (this.#mode !== "rate" || this.#rate.isKnown) return "found";
    return this.#hold.isOn ? "search" : "none";
  }

  /** What a later process can start with; undefined if nothing is known. */
  state(nowMs: number): HiddenState | undefined {
    if (this.stage === "search") {
      const { atMs = nowMs } = this.#hold;
      return { search: { heldMs: nowMs - atMs, ...this.#accepted.counts(nowMs) } };
    }
    if (this.#mode === "places") return { places: this.#places.proven };
    if (this.#mode === "tokens") return this.#tokens.state();
    return this.#mode === "rate" && this.#rate.isKnown ? { requests: this.#rate.perMinute } : undefined;
  }

  /** Continues with what an earlier process found, `ageMs` ago. Call it once, before anything is sent. */
  restore(nowMs: number, ageMs: number, state: HiddenState): void {
    const { places, requests = 0, tokens = 0, outputTokens = 0, search } = state;
    this.#accepted.begin(nowMs, 0);
    if (places !== undefined) {
      this.#mode = "places";
      this.#places.found(nowMs, places, true);
      this.#places.open(Math.ceil(this.#places.cap / 4)); // the provider may still work on requests of the earlier process
    } else if (tokens > 0 || outputTokens > 0) {
      this.#mode = "tokens";
      this.#tokens.restore(nowMs, { tokens, outputTokens });
    } else if (requests > 0) {
      this.#mode = "rate";
      this.#rate.restore(nowMs, requests);
    } else if (search !== undefined && search.heldMs + ageMs < STOP_MS) {
      this.#mode = "rate";
      this.#accepted.restore(nowMs - ageMs, search);
      this.#rate.held(search.minuteHeld);
      this.#hold.restore(nowMs, nowMs - ageMs - search.heldMs, this.#accepted.sinceMs);
    }
  }

  /** Starts with what another process found `ageMs` ago, if nothing is known here and nothing is under way. */
  adopt(nowMs: number, ageMs: number, state: HiddenState): void {
    if (this.stage === "none" && !this.#hold.isOn && this.#inFlight === 0) this.restore(nowMs, ageMs, state);
  }

  /** An earlier process sent this many requests. Call it in the order of their times, after `restore`. */
  earlier(atMs: number, requests: number): void {
    if (this.stage !== "found") this.#accepted.earlier(atMs, requests);
  }

  /** Returns a function that restores the present state. */
  #keep(): () => void {
    const mode = this.#mode;
    const undo = [this.#hold.keep(), this.#places.keep(), this.#tokens.keep(), this.#rate.keep()];
    return () => {
      this.#mode = mode;
      for (const each of undo) each();
    };
  }

  #begin(nowMs: number): void {
    this.#rate.held(this.#accepted.minuteRefused);
    const isForeseen = this.#mode === "tokens" && this.#tokens.isForeseen;
    const isTrying = this.#mode === "rate" && this.#rate.isTrying;
    const level = isForeseen ? HELD_LEVEL_LATE : isTrying ? HELD_LEVEL_TRYING : 0;
    this.#hold.begin(nowMs, this.#inFlight, level, this.#accepted.sinceMs);
    this.#shareRefused = 1;
    if (this.#mode === "places" && this.#places.contradicted(nowMs)) this.#mode = "rate";
  }

  /** Milliseconds left to wait; 0 if a probe may be sent, or if one was accepted, which ends the hold. */
  #heldMs(nowMs: number): number {
    const { probe } = this.#hold;
    if (probe !== undefined) {
      const leftMs = this.#hold.confirmMs(nowMs, probe);
      if (leftMs > 0) return leftMs;
      this.#leave(probe.atMs);
      return 0;
    }
    const settleMs = this.#hold.settleMs(nowMs);
    if (settleMs > 0) return settleMs;
    this.#hold.places.settled(this.#inFlight);
    return Math.max(0, Math.min(this.#tokens.slidingMs(nowMs), this.#hold.nextMs - nowMs));
  }

  #probeRefused(nowMs: number): void {
    const { places } = this.#hold;
    this.#shareRefused = this.#accepted.shareAt(nowMs);
    this.#hold.probeRefused(nowMs, this.#tokens.isLate);
    const isFirst = this.#mode === "free";
    if (this.#mode !== "tokens" && places.isBelow(this.#inFlight, isFirst)) this.#mode = "rate";
    if (this.#mode === "rate") return;
    places.refused(this.#inFlight);
    if (this.#inFlight === 0) this.#mode = "rate";
  }

  /**
   * The same before the probe that was accepted. If it is the first after the minute of the first request, that of the refused one counts:
   * a burst has left the minute between the two, and a limit on requests explains both.
   */
  #sentShare(atMs: number): number {
    return this.#hold.isOfWindow ? this.#shareRefused : this.#accepted.shareAt(atMs);
  }

  /** Ends the hold: the provider accepted a probe that was sent at `atMs`. */
  #leave(atMs: number): void {
    const { atMs: heldAtMs = atMs, places } = this.#hold;
    this.#hold.end();
    this.#places.open(this.#inFlight + 1);
    const isPlaces = this.#mode === "places" && places.isProbeAmongMany;
    const isTokens = !isPlaces && this.#tokens.taken(this.#sentShare(atMs), atMs - heldAtMs > STOP_MS);
    if (!isTokens && (atMs - heldAtMs > STOP_MS || this.#isUnproven)) {
      this.#goOn(atMs);
      return;
    }
    if (isTokens) this.#mode = "tokens";
    else if (this.#mode === "tokens") this.#mode = "rate";
    if (this.#mode === "rate") {
      this.#learnRate(atMs, heldAtMs);
      return;
    }
    this.#accepted.begin(atMs, 1);
    if (this.#mode === "tokens") return;
    this.#rate.doubted(this.#accepted.minuteHeld);
    this.#places.found(atMs, places.found(this.#inFlight), this.#mode === "places");
    this.#mode = "places";
  }

  /** Whether only the probe was ever accepted: earlier use by others shows nothing about a rate. */
  get #isUnproven(): boolean {
    return this.#mode === "rate" && !this.#rate.isKnown && this.#accepted.taken <= 1;
  }

  /** Keeps the earlier result, after refusals that show nothing about a limit. */
  #goOn(atMs: number): void {
    if (this.#mode === "rate" && !this.#rate.isKnown) this.#mode = "free";
    this.#accepted.begin(atMs, 1);
    this.#rate.goOn(atMs);
  }

  #learnRate(takenAtMs: number, heldAtMs: number): void {
    const { sinceMs, taken, minuteHeld, minuteRefused } = this.#accepted;
    const nextSinceMs = this.#rate.learn({
      takenAtMs,
      heldAtMs,
      probeRefusedAtMs: this.#hold.probeRefusedAtMs,
      ...{ sinceMs, taken, minuteHeld, minuteRefused },
      isLong: this.#hold.isLong,
      isLate: this.#tokens.isLate,
    });
    this.#accepted.begin(nextSinceMs, 1);
  }
}
