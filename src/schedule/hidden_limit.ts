/**
 * Finds an unknown limit: no configuration, no header, no Retry-After, only 429s. One for a lane, or for lanes
 * (models) that turned out to share one.
 *
 *   free --refused--> held --a probe is taken--> places --refused again and again below its cap--> rate
 *                      |  \--refused with nothing in flight, later a probe is taken--> rate
 *                      \--refused until tokens of answers that came late have aged--> tokens
 *   places, rate --refused--> held --a probe is taken--> places, rate
 *
 * Held: nothing is sent but single probes: when a place is free again (not at a rate), after 0.5 s, 1 s, ... 16 s, and when
 * a minute is over since the last time that a probe was taken. A 429 comes at once and an answer late, so what was not refused within
 * twice the time of the slowest refusal counts as taken.
 *
 * Places: what is in flight when the refusals have stopped is what the provider works on at once; one that limits places
 * never refuses below that.
 *
 * Rate: in hidden_rate.ts. Where answers take long, tokens: in hidden_tokens.ts; of short answers a limit on tokens shows as
 * one of requests of their mean size.
 *
 * Not every refusal is one of a limit, and lower rates would never end those that are not:
 *
 *   all are refused for longer than two windows    the earlier result stays, because no window does that
 *   the next probe is accepted                     the rate rises further from where it was
 *   one of the first probes is taken, within 10 s  not below a quarter of the most that was taken in a minute
 */
import { HiddenRate, RAISE_EVERY_MS, WINDOW_MS } from "./hidden_rate.ts";
import { HiddenTokens } from "./hidden_tokens.ts";
import { Minute } from "./minute.ts";
import type { FlowLimits, TokenFlow } from "./token_flow.ts";

const HELD_MS_START = 500;
const HELD_LEVEL_MAX = 3;
/** Where answers take long, and so do holds. */
const HELD_LEVEL_LATE = 5;
const REFUSAL_MS_START = 150;
const REFUSAL_MS_MAX = 3_000;
/** Everything is refused for so long: two windows. */
const STOP_MS = 2 * WINDOW_MS;
/** Of what was in flight: who limits places takes the next one before so few are left. */
const PLACES_KEPT = 0.4;
const PLACES_SEARCH_EVERY_MS = 3_000;
/** Episodes of refusals below the cap within a minute that say that it is not places that are limited. */
const CONTRADICTIONS_MAX = 3;

/** One request, as its limit sees it: the permit itself, so that nothing more is made for it. */
export interface HiddenMark {
  readonly atMs: number;
  /** Whether it is counted: it was granted while no rate was known, and has not ended. */
  isHidden: boolean;
}

/** What another process may begin with. */
export interface HiddenState {
  /** Requests in flight, where places are limited. */
  readonly places?: number;
  /** Requests a minute. */
  readonly requests?: number;
  /** Tokens a minute, where they are used when answers come: all of them, or those of the output. */
  readonly tokens?: number;
  readonly outputTokens?: number;
}

/** Times are monotonic. One for a lane. */
export class HiddenLimit {
  #mode: "free" | "places" | "rate" | "tokens" = "free";
  readonly #tokens: HiddenTokens;
  #inFlight = 0;
  /** Slowest refusal so far, fading. */
  #refusalMs = REFUSAL_MS_START;
  /** Held since then; undefined while not. */
  #heldAtMs: number | undefined;
  #heldLevel = 0;
  /** In flight when it began. */
  #heldInFlight = 0;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #probe: HiddenMark | undefined;
  #probeAtMs = Number.POSITIVE_INFINITY;
  /** When the minute is over in which the refusals began. */
  #windowAtMs = Number.POSITIVE_INFINITY;
  /** A place that is free again allows a probe while no more than so many are in flight. */
  #probeBelow = Number.POSITIVE_INFINITY;
  #probeInFlight = 0;
  #probeRefusedAtMs = Number.NEGATIVE_INFINITY;
  /** In flight after the refusals had stopped; undefined until then. */
  #placesSeen: number | undefined;
  /** Places: in flight at most, and how many of them were never refused. */
  #cap = Number.POSITIVE_INFINITY;
  #capProven = 0;
  #capOpen = Number.POSITIVE_INFINITY;
  #contradictions: number[] = [];
  /** Since a probe was taken last. */
  #sinceMs: number;
  /** Requests taken since then. */
  #taken = 0;
  /** Requests taken in the last minute. */
  readonly #minute = new Minute();
  readonly #rate: HiddenRate;
  /** The same, at the first refusal and at the last one. */
  #minuteHeld = 0;
  #minuteRefused = 0;
  #raisedAtMs = 0;
  #raises = 0;

  /** `flow`: what has used tokens, and when. */
  constructor(nowMs: number, flow: TokenFlow) {
    this.#tokens = new HiddenTokens(flow);
    this.#rate = new HiddenRate(nowMs, this.#minute);
    this.#sinceMs = nowMs;
  }

  get isHeld(): boolean {
    return this.#heldAtMs !== undefined;
  }

  /** Milliseconds until one more may go; 0 for now, Infinity when only an answer helps. */
  waitMs(nowMs: number): number {
    if (this.#heldAtMs !== undefined) {
      const heldMs = this.#heldMs(nowMs);
      if (this.#heldAtMs !== undefined || heldMs > 0) return heldMs;
    }
    if (this.#mode === "places") {
      this.#raisePlaces(nowMs);
      return this.#inFlight < Math.min(this.#cap, this.#capOpen) ? 0 : Number.POSITIVE_INFINITY;
    }
    if (this.#mode === "tokens") this.#tokens.raise(nowMs);
    return this.#mode === "rate" ? this.#rate.waitMs(nowMs) : 0;
  }

  /** Counts a request that is sent, after `waitMs` returned 0. */
  sent(nowMs: number, mark: HiddenMark): void {
    this.#tokens.began(nowMs);
    if (this.#heldAtMs !== undefined) {
      this.#probe = mark;
      this.#tokens.probed(nowMs);
      this.#probeInFlight = this.#inFlight + 1;
      if (nowMs >= this.#windowAtMs) this.#windowAtMs = Number.POSITIVE_INFINITY;
    }
    this.#inFlight += 1;
    this.#taken += 1;
    this.#minute.add(nowMs, 1);
    if (this.#mode === "rate" && this.#rate.isKnown) this.#rate.sent(nowMs);
  }

  /** It was refused for a rate, and nobody said for how long. */
  refused(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#taken -= 1;
    this.#minute.add(mark.atMs, -1);
    this.#refusalMs = Math.min(REFUSAL_MS_MAX, Math.max(this.#refusalMs * 0.95, nowMs - mark.atMs));
    this.#refusedAtMs = nowMs;
    this.#minuteRefused = this.#minute.count(nowMs);
    if (this.#heldAtMs === undefined || nowMs - this.#heldAtMs < 2 * this.#refusalMs)
      this.#minuteHeld = this.#minuteRefused;
    if (this.#heldAtMs === undefined && this.#mode === "places" && this.#cap > this.#capProven) {
      this.#cap = this.#capProven;
      this.#raises += 1;
    } else if (this.#heldAtMs === undefined) this.#hold(nowMs);
    else if (mark === this.#probe) this.#probeRefused(nowMs);
  }

  /** It was refused, and the provider said for how long: nothing is to be found out. */
  told(mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#taken -= 1;
    this.#minute.add(mark.atMs, -1);
    if (mark === this.#probe) this.#probe = undefined;
  }

  /** It ended in another way: the provider had taken it. */
  ended(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#capOpen += 1;
    if (this.#heldAtMs === undefined) return;
    if (mark === this.#probe) this.#leave(mark.atMs);
    else if (this.#isPlace && this.#probe === undefined && this.#inFlight <= this.#probeBelow)
      this.#probeAtMs = Math.min(this.#probeAtMs, nowMs);
  }

  /** Whether a place that is free again may be what refusals wait for. */
  get #isPlace(): boolean {
    return this.#mode === "free" || this.#mode === "places";
  }

  /** Requests that may be in flight; Infinity while no limit of places was found. */
  get places(): number {
    return this.#mode === "places" ? this.#cap : Number.POSITIVE_INFINITY;
  }

  /** Tokens a minute; undefined while no limit on them was found. */
  get tokenLimits(): FlowLimits | undefined {
    return this.#mode === "tokens" ? this.#tokens.limits : undefined;
  }

  /** Milliseconds until the next probe, at least 1, while it is held; else 0. */
  heldMs(nowMs: number): number {
    if (this.#heldAtMs === undefined) return 0;
    return Math.max(1, Math.min(this.#windowAtMs, this.#probeAtMs) - nowMs);
  }

  /** Undefined while no rate was found. */
  use(nowMs: number): { readonly used: number; readonly limit: number } | undefined {
    if (this.#mode !== "rate" || !this.#rate.isKnown) return undefined;
    return { used: this.#minute.count(nowMs), limit: this.#rate.perMinute };
  }

  /** Undefined while nothing is known. */
  state(): HiddenState | undefined {
    if (this.#mode === "places") return { places: this.#capProven };
    if (this.#mode === "tokens") return finite(this.#tokens.limits);
    if (this.#mode !== "rate") return undefined;
    return this.#rate.isKnown ? { requests: this.#rate.perMinute } : undefined;
  }

  /** Continues with what an earlier process found. To be called once, before anything is sent. */
  restore(nowMs: number, { places, requests = 0, tokens = 0, outputTokens = 0 }: HiddenState): void {
    this.#sinceMs = this.#raisedAtMs = nowMs;
    if (places !== undefined) {
      this.#mode = "places";
      this.#cap = this.#capProven = Math.max(1, places);
      this.#capOpen = Math.ceil(this.#cap / 4); // what the process before had in flight may still be at work
    } else if (tokens > 0 || outputTokens > 0) {
      this.#mode = "tokens";
      this.#tokens.restore(nowMs, { tokens, outputTokens });
    } else if (requests > 0) {
      this.#mode = "rate";
      this.#rate.restore(nowMs, requests);
    }
  }

  #hold(nowMs: number): void {
    this.#heldAtMs = nowMs;
    this.#heldInFlight = this.#inFlight;
    this.#tokens.refused(nowMs);
    this.#rate.held(this.#minuteRefused);
    this.#heldLevel = this.#mode === "tokens" && this.#tokens.isForeseen ? HELD_LEVEL_LATE : 0;
    this.#probe = undefined;
    this.#placesSeen = undefined;
    this.#probeAtMs = nowMs + HELD_MS_START * 2 ** this.#heldLevel;
    this.#probeRefusedAtMs = nowMs;
    this.#probeBelow = Number.POSITIVE_INFINITY;
    this.#windowAtMs =
      this.#sinceMs + WINDOW_MS > nowMs ? this.#sinceMs + WINDOW_MS : Number.POSITIVE_INFINITY;
    if (this.#mode !== "places") return;
    this.#contradictions = this.#contradictions.filter((atMs) => nowMs - atMs < WINDOW_MS);
    this.#contradictions.push(nowMs);
    if (this.#contradictions.length >= CONTRADICTIONS_MAX) this.#mode = "rate";
  }

  /** What is left of the wait; 0 when a probe may go, or when a probe was taken: then it is held no more. */
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
    this.#heldLevel = Math.min(this.#tokens.isLate ? HELD_LEVEL_LATE : HELD_LEVEL_MAX, this.#heldLevel + 1);
    this.#probeAtMs = nowMs + HELD_MS_START * 2 ** this.#heldLevel;
    if (this.#mode === "free" && this.#inFlight < (this.#placesSeen ?? 0)) this.#mode = "rate";
    if (this.#mode === "rate") return;
    this.#placesSeen = this.#inFlight;
    this.#probeBelow = Math.floor(this.#inFlight * 0.8);
    if (this.#inFlight === 0) this.#mode = "rate";
  }

  /** A probe that was sent at `atMs` was taken. */
  #leave(atMs: number): void {
    const heldAtMs = this.#heldAtMs ?? atMs;
    this.#heldAtMs = undefined;
    this.#probe = undefined;
    this.#capOpen = this.#inFlight + 1;
    const sentShare = this.#minute.count(atMs) / Math.max(1, this.#minuteHeld);
    const isPlaces = this.#mode === "places" && this.#probeInFlight > PLACES_KEPT * this.#heldInFlight;
    const isTokens = !isPlaces && this.#tokens.taken(sentShare, atMs - heldAtMs > STOP_MS);
    if (!isTokens && atMs - heldAtMs > STOP_MS) {
      this.#goOn(atMs);
      return;
    }
    if (isTokens) this.#mode = "tokens";
    else if (this.#mode === "tokens") this.#mode = "rate";
    if (this.#mode === "tokens") this.#sinceMs = atMs;
    else if (this.#mode === "rate") this.#learnRate(atMs, heldAtMs);
    else {
      this.#sinceMs = this.#raisedAtMs = atMs;
      this.#rate.doubted(this.#minuteHeld);
      this.#mode = "places";
      this.#cap = this.#capProven = Math.max(
        1,
        this.#probeBelow === Number.POSITIVE_INFINITY
          ? (this.#placesSeen ?? this.#inFlight)
          : this.#probeInFlight,
      );
    }
    this.#taken = 1;
  }

  /** It was refused for longer than any window: that says nothing of a limit. */
  #goOn(atMs: number): void {
    if (this.#mode === "rate" && !this.#rate.isKnown) this.#mode = "free";
    this.#sinceMs = this.#raisedAtMs = atMs;
    this.#taken = 1;
    this.#raises = 0;
    this.#rate.goOn(atMs);
  }

  #learnRate(takenAtMs: number, heldAtMs: number): void {
    const isSingle = this.#rate.isKnown && this.#heldLevel === 0;
    this.#sinceMs = this.#rate.learn(
      {
        ...{ takenAtMs, heldAtMs, probeRefusedAtMs: this.#probeRefusedAtMs },
        ...{ sinceMs: this.#sinceMs, taken: this.#taken },
        ...{ minuteHeld: this.#minuteHeld, minuteRefused: this.#minuteRefused },
        isLong: this.#heldLevel >= HELD_LEVEL_MAX,
      },
      isSingle,
    );
  }

  #raisePlaces(nowMs: number): void {
    const everyMs = this.#raises === 0 ? PLACES_SEARCH_EVERY_MS : RAISE_EVERY_MS * 2 ** (this.#raises - 1);
    if (nowMs - this.#raisedAtMs < everyMs || this.#inFlight < this.#cap) return;
    this.#capProven = this.#cap;
    this.#cap += Math.max(1, Math.floor(this.#cap / (this.#raises === 0 ? 10 : 50)));
    this.#capOpen = Number.POSITIVE_INFINITY;
    this.#raisedAtMs = nowMs;
  }
}

function finite(limits: FlowLimits | undefined): HiddenState | undefined {
  if (limits === undefined) return undefined;
  return Number.isFinite(limits.tokens)
    ? { tokens: Math.round(limits.tokens) }
    : { outputTokens: Math.round(limits.outputTokens) };
}
