/**
 * Finds a limit that nobody announces: no configuration, no header and no Retry-After, only 429s. Each lane has its own; lanes
 * (models) under one limit each find their part of it (docs/decisions/0020-hidden-limits.md).
 *
 *   free --refused--> held --a probe is accepted--> places --refused again and again below its cap--> rate
 *                      |  \--refused with nothing in flight, later a probe is accepted--> rate
 *                      \--refused until tokens of answers that came late have aged--> tokens
 *   places, rate --refused--> held --a probe is accepted--> places, rate
 *
 * Held: the lane sends single probes and nothing else. It sends one when a place becomes free (not while it knows a rate),
 * 0.5 s, 1 s, ... 4 s after a refusal (16 s where answers take long, 8 s and 16 s in a search for a rate), when a sliding minute of tokens would accept one, and
 * a minute after the last accepted probe. A 429 arrives at once and an answer arrives late: a request that was not refused
 * within twice the time of the slowest refusal counts as accepted.
 *
 * Places: what is in flight when the refusals have stopped is what the provider works on at once. A provider that limits
 * places never refuses below that number.
 *
 * Rate: see hidden_rate.ts. Tokens, where answers take long: see hidden_tokens.ts. With short answers a limit on tokens
 * looks like a limit on requests of their mean size.
 *
 * Some refusals are not those of a limit. A lower rate would never end them:
 *   everything is refused for longer than two windows  the earlier result is kept: no window refuses for so long
 *   nothing but the probe was ever accepted            no rate is set: others, or an earlier process, had used up the limit
 *   no window of a minute explains when they end       the rate rises by 15 % a second until a refusal (hidden_rate.ts)
 *   one of the first probes is accepted within 10 s    the rate stays at a quarter of the most accepted in a minute, or above
 *   few in a row, or as many at half the load          they come by chance, and the limit is not lowered (chance_refusals.ts)
 */

import { Minute } from "../minute.ts";
import type { FlowLimits, TokenFlow } from "../token_flow.ts";
import { ChanceRefusals } from "./chance_refusals.ts";
import { HiddenDoubt } from "./hidden_doubt.ts";
import { HiddenPlaces } from "./hidden_places.ts";
import { HiddenRate, WINDOW_MS } from "./hidden_rate.ts";
import { HiddenTokens } from "./hidden_tokens.ts";

const HELD_MS_START = 500;
const HELD_LEVEL_MAX = 3;
/** Where answers take long, holds take long as well. */
const HELD_LEVEL_LATE = 5;
/** A window that a search has used up refuses for most of a minute. */
const HELD_LEVEL_TRYING = 4;
const REFUSAL_MS_START = 150;
const REFUSAL_MS_MAX = 3_000;
/** Two windows. A limit does not refuse everything for longer. */
const STOP_MS = 2 * WINDOW_MS;
/** Share of what was in flight. A provider that limits places accepts the next request before so few are left. */
const PLACES_KEPT = 0.4;
/** So many episodes of refusals below the cap in one minute show that the provider does not limit places. */
const CONTRADICTIONS_MAX = 3;

/** One request as its limit sees it. The permit implements it, so that a request needs no further object. */
export interface HiddenMark {
  readonly atMs: number;
  /** Whether the limit counts it: it was granted while no rate was known, and has not ended. */
  isHidden: boolean;
  /** Its number among them. */
  index: number;
}

/** What a later process begins with. */
export interface HiddenState {
  /** Requests in flight, where places are limited. */
  readonly places?: number;
  /** Requests a minute. */
  readonly requests?: number;
  /** Tokens a minute, where answers take long: input and output. */
  readonly tokens?: number;
  /** The same, where the provider counts only the output. */
  readonly outputTokens?: number;
}

/** One per lane. Times are monotonic. */
export class HiddenLimit {
  #mode: "free" | "places" | "rate" | "tokens" = "free";
  readonly #tokens: HiddenTokens;
  /** Whether refusals turn out to be their items' own, which undoes their effect. */
  readonly doubt: HiddenDoubt = new HiddenDoubt();
  /** Refusals that come at any load. */
  readonly #chance = new ChanceRefusals();
  #inFlight = 0;
  /** Time of the slowest refusal; each faster one lowers it by 5 %. */
  #refusalMs = REFUSAL_MS_START;
  /** When the hold began; undefined while the lane is not held. */
  #heldAtMs: number | undefined;
  #heldLevel = 0;
  /** Requests in flight when the hold began. */
  #heldInFlight = 0;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #probe: HiddenMark | undefined;
  #probeAtMs = Number.POSITIVE_INFINITY;
  /** When the minute ends in which the refusals began. */
  #windowAtMs = Number.POSITIVE_INFINITY;
  /** A place that becomes free allows a probe while at most so many requests are in flight. */
  #probeBelow = Number.POSITIVE_INFINITY;
  #probeInFlight = 0;
  #probeRefusedAtMs = Number.NEGATIVE_INFINITY;
  /** Requests in flight after the refusals had stopped; undefined until then. */
  #placesSeen: number | undefined;
  readonly #places = new HiddenPlaces();
  #contradictions: readonly number[] = [];
  /** When a probe was last accepted, or the first request after a minute without any was sent. */
  #sinceMs: number;
  /** Requests accepted since then. */
  #taken = 0;
  /** Requests accepted in the last minute. */
  readonly #minute = new Minute();
  readonly #rate: HiddenRate;
  /** Requests accepted in the minute before the first refusal of a hold, and before the last one. */
  #minuteHeld = 0;
  #minuteRefused = 0;

  /** `flow` counts the tokens that the lane has used. */
  constructor(nowMs: number, flow: TokenFlow) {
    this.#tokens = new HiddenTokens(flow);
    this.#rate = new HiddenRate(nowMs, this.#minute);
    this.#sinceMs = nowMs;
  }

  get isHeld(): boolean {
    return this.#heldAtMs !== undefined;
  }

  /** Milliseconds until one more request may be sent; 0 for now, Infinity if only an answer can allow it. */
  waitMs(nowMs: number): number {
    if (this.#heldAtMs !== undefined) {
      const heldMs = this.#heldMs(nowMs);
      if (this.#heldAtMs !== undefined || heldMs > 0) return heldMs;
    }
    const trialMs = this.#chance.waitMs(nowMs, this.#inFlight);
    if (this.#mode === "places") {
      const hasRoom = this.#places.hasRoom(nowMs, this.#inFlight, this.#minute.count(nowMs));
      return hasRoom ? trialMs : Number.POSITIVE_INFINITY;
    }
    if (this.#mode === "tokens") this.#tokens.raise(nowMs);
    return this.#mode === "rate" ? Math.max(trialMs, this.#rate.waitMs(nowMs)) : trialMs;
  }

  /** Counts a request that is sent. Call it after `waitMs` returned 0. */
  sent(nowMs: number, mark: HiddenMark): void {
    this.#tokens.began(nowMs);
    if (this.#heldAtMs !== undefined) {
      this.#probe = mark;
      this.#tokens.probed(nowMs);
      this.#probeInFlight = this.#inFlight + 1;
      if (nowMs >= this.#windowAtMs) this.#windowAtMs = Number.POSITIVE_INFINITY;
    }
    const isIdle = this.#heldAtMs === undefined && this.#minute.count(nowMs) <= 0;
    if (isIdle) [this.#sinceMs, this.#taken] = [nowMs, 0]; // what nobody asked for shows no limit
    this.#inFlight += 1;
    this.#taken += 1;
    this.#minute.add(nowMs, 1);
    mark.index = this.#chance.sent(nowMs);
    if (this.#mode === "rate" && this.#rate.isKnown) this.#rate.sent(nowMs);
  }

  /** The provider refused the request with a 429 that states no wait. */
  refused(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    if (this.#heldAtMs === undefined && this.#isChance(nowMs, mark)) {
      this.uncount(mark);
      if (this.#mode === "rate") this.#rate.unsent();
      return;
    }
    this.doubt.refused(nowMs, mark, () => this.#keep());
    const isProbe = mark === this.#probe;
    this.uncount(mark);
    this.#refusalMs = Math.min(REFUSAL_MS_MAX, Math.max(this.#refusalMs * 0.95, nowMs - mark.atMs));
    this.#refusedAtMs = nowMs;
    this.#minuteRefused = this.#minute.count(nowMs);
    if (this.#heldAtMs === undefined || nowMs - this.#heldAtMs < 2 * this.#refusalMs)
      this.#minuteHeld = this.#minuteRefused;
    if (this.#heldAtMs !== undefined) {
      if (isProbe) this.#probeRefused(nowMs);
    } else if (this.#mode !== "places" || !this.#places.refused(nowMs)) this.#hold(nowMs);
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

  /** Stops counting a request whose refusal says nothing new: it states its wait, or refuses only growth. */
  uncount(mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#taken -= 1;
    this.#minute.add(mark.atMs, -1);
    if (mark === this.#probe) this.#probe = undefined;
  }

  /** The request ended in another way: the provider had accepted it. */
  ended(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#places.freed();
    this.#chance.accepted(mark.index);
    if (this.#heldAtMs === undefined) return;
    if (mark === this.#probe) this.#leave(mark.atMs);
    else if (this.#isPlace && this.#probe === undefined && this.#inFlight <= this.#probeBelow)
      this.#probeAtMs = Math.min(this.#probeAtMs, nowMs);
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
    if (this.#heldAtMs === undefined || isRated) return 0;
    return Math.max(1, Math.min(this.#windowAtMs, this.#probeAtMs) - nowMs);
  }

  /** Requests of the last minute and the limit on them; undefined while no rate was found. */
  use(nowMs: number): { readonly used: number; readonly limit: number } | undefined {
    if (this.#mode !== "rate" || !this.#rate.isKnown) return undefined;
    return { used: this.#minute.count(nowMs), limit: this.#rate.perMinute };
  }

  /** What a later process may begin with; undefined while nothing is known. */
  state(): HiddenState | undefined {
    if (this.#mode === "places") return { places: this.#places.proven };
    if (this.#mode === "tokens") return this.#tokens.state();
    return this.#mode === "rate" && this.#rate.isKnown ? { requests: this.#rate.perMinute } : undefined;
  }

  /** Continues with what an earlier process found. Call it once, before anything is sent. */
  restore(nowMs: number, { places, requests = 0, tokens = 0, outputTokens = 0 }: HiddenState): void {
    this.#sinceMs = nowMs;
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
    }
  }

  /** Returns what brings the present result back. */
  #keep(): () => void {
    const [mode, heldAtMs, contradictions] = [this.#mode, this.#heldAtMs, this.#contradictions];
    const undo = [this.#places.keep(), this.#tokens.keep(), this.#rate.keep()];
    return () => {
      [this.#mode, this.#heldAtMs, this.#contradictions] = [mode, heldAtMs, contradictions];
      if (heldAtMs === undefined) this.#probe = undefined;
      for (const each of undo) each();
    };
  }

  #hold(nowMs: number): void {
    this.#heldAtMs = nowMs;
    this.#heldInFlight = this.#inFlight;
    this.#rate.held(this.#minuteRefused);
    const isForeseen = this.#mode === "tokens" && this.#tokens.isForeseen;
    const isTrying = this.#mode === "rate" && this.#rate.isTrying;
    this.#heldLevel = isForeseen ? HELD_LEVEL_LATE : isTrying ? HELD_LEVEL_TRYING : 0;
    this.#probe = undefined;
    this.#placesSeen = undefined;
    this.#probeAtMs = nowMs + HELD_MS_START * 2 ** this.#heldLevel;
    this.#probeRefusedAtMs = nowMs;
    this.#probeBelow = Number.POSITIVE_INFINITY;
    this.#windowAtMs =
      this.#sinceMs + WINDOW_MS > nowMs ? this.#sinceMs + WINDOW_MS : Number.POSITIVE_INFINITY;
    if (this.#mode !== "places") return;
    this.#contradictions = [...this.#contradictions.filter((atMs) => nowMs - atMs < WINDOW_MS), nowMs];
    if (this.#contradictions.length >= CONTRADICTIONS_MAX) this.#mode = "rate";
  }

  /** Milliseconds left to wait; 0 if a probe may be sent, or if one was accepted, which ends the hold. */
  #heldMs(nowMs: number): number {
    const confirmMs = 2 * this.#refusalMs;
    if (this.#probe !== undefined) {
      const leftMs = this.#probe.atMs + confirmMs - nowMs;
      if (leftMs > 0) return leftMs;
      this.#leave(this.#probe.atMs);
      return 0;
    }
    const settleMs = this.#refusedAtMs + this.#refusalMs / 2 - nowMs;
    if (settleMs > 0) return settleMs;
    if (this.#placesSeen === undefined) this.#placesSeen = this.#inFlight;
    return Math.max(
      0,
      Math.min(this.#tokens.slidingMs(nowMs), Math.min(this.#windowAtMs, this.#probeAtMs) - nowMs),
    );
  }

  #probeRefused(nowMs: number): void {
    this.#probe = undefined;
    this.#probeRefusedAtMs = nowMs;
    const isLong = this.#tokens.isLate || this.#heldLevel > HELD_LEVEL_MAX;
    this.#heldLevel = Math.min(isLong ? HELD_LEVEL_LATE : HELD_LEVEL_MAX, this.#heldLevel + 1);
    this.#probeAtMs = nowMs + HELD_MS_START * 2 ** this.#heldLevel;
    const placesMin = this.#mode === "free" ? (this.#placesSeen ?? 0) : PLACES_KEPT * this.#heldInFlight;
    if (this.#mode !== "tokens" && this.#inFlight < placesMin) this.#mode = "rate";
    if (this.#mode === "rate") return;
    this.#placesSeen = this.#inFlight;
    this.#probeBelow = Math.floor(this.#inFlight * 0.8);
    if (this.#inFlight === 0) this.#mode = "rate";
  }

  /** Ends the hold: the provider accepted a probe that was sent at `atMs`. */
  #leave(atMs: number): void {
    const heldAtMs = this.#heldAtMs ?? atMs;
    this.#heldAtMs = undefined;
    this.#probe = undefined;
    this.#places.open(this.#inFlight + 1);
    const sentShare = this.#minute.count(atMs) / Math.max(1, this.#minuteHeld);
    const isPlaces = this.#mode === "places" && this.#probeInFlight > PLACES_KEPT * this.#heldInFlight;
    const isTokens = !isPlaces && this.#tokens.taken(sentShare, atMs - heldAtMs > STOP_MS);
    if (!isTokens && (atMs - heldAtMs > STOP_MS || this.#isUnproven)) {
      this.#goOn(atMs);
      return;
    }
    if (isTokens) this.#mode = "tokens";
    else if (this.#mode === "tokens") this.#mode = "rate";
    if (this.#mode === "tokens") this.#sinceMs = atMs;
    else if (this.#mode === "rate") this.#learnRate(atMs, heldAtMs);
    else {
      this.#sinceMs = atMs;
      this.#rate.doubted(this.#minuteHeld);
      const wasRefused = this.#probeBelow !== Number.POSITIVE_INFINITY;
      const seen = wasRefused ? this.#probeInFlight : (this.#placesSeen ?? this.#inFlight);
      this.#places.found(atMs, seen, this.#mode === "places");
      this.#mode = "places";
    }
    this.#taken = 1;
  }

  /** Whether nothing but the probe was ever accepted: what others used up before says nothing about a rate. */
  get #isUnproven(): boolean {
    return this.#mode === "rate" && !this.#rate.isKnown && this.#taken <= 1;
  }

  /** Keeps the earlier result, after refusals that say nothing about a limit. */
  #goOn(atMs: number): void {
    if (this.#mode === "rate" && !this.#rate.isKnown) this.#mode = "free";
    this.#sinceMs = atMs;
    this.#taken = 1;
    this.#rate.goOn(atMs);
  }

  #learnRate(takenAtMs: number, heldAtMs: number): void {
    this.#sinceMs = this.#rate.learn({
      takenAtMs,
      heldAtMs,
      probeRefusedAtMs: this.#probeRefusedAtMs,
      sinceMs: this.#sinceMs,
      taken: this.#taken,
      minuteHeld: this.#minuteHeld,
      minuteRefused: this.#minuteRefused,
      isLong: this.#heldLevel >= HELD_LEVEL_MAX,
      isLate: this.#tokens.isLate,
    });
  }
}
