/**
 * Decides whether one more request may be sent to one (provider, model family, key): quotas, places in flight, gate, pause; and the
 * same for the whole provider if `shared` is passed.
 *
 *   open --rate_limited--> cooldown --time--> open
 *   open --failures in a row--> outage --an answer--> open, ramping
 *   any  --pause--> paused --resume, or a probe's success--> open
 *
 * One request: `reserve` -> permit -> (sent) -> `observe` the result, `learn` its headers -> `settle` its tokens -> `release` its
 * place. A refusal says when to ask again; nothing here waits or wakes callers.
 *
 * A 429 lowers the rate (throttle) and stops the lane for a while (cool-down). It also reduces the places in flight, but not below the
 * start where a rate is known, because there the provider objects to the rate. After an outage they start again with slow start.
 *
 * Hot path: reserve + settle + release 1 us (bench/parts/admit.ts).
 */
import type { LearntLimits, LimitSettings, TokenLoad } from "../work/limits.ts";
import { Concurrency } from "./concurrency.ts";
import { Gate, type Signal } from "./gate.ts";
import { HiddenLimit } from "./hidden/hidden_limit.ts";
import { type HeldBack, type KnownLimits, type LimitsSnapshot, stateOf } from "./limits_snapshot.ts";
import { OversizedRequest } from "./oversized_request.ts";
import { type EarlyProbes, Pause } from "./pause.ts";
import { fullerUse, Quotas, type SentLoad } from "./quotas.ts";
import type { RampOptions } from "./ramp.ts";
import { type Permit, type Reservation, wholeLoad } from "./reservation.ts";
import type { DrawnLoad } from "./shared/drawn_load.ts";
import type { DrawnPlaces } from "./shared/drawn_places.ts";
import type { LaneFacts } from "./shared/lane_facts.ts";
import { type FlowLimits, TokenFlow } from "./token_flow.ts";

export type { HeldBack, KnownLimits, LimitsSnapshot, Permit, RampOptions, Reservation, Signal };

export interface LaneLimitsOptions {
  readonly settings: LimitSettings;
  /** The most requests in flight; `settings.concurrency` lowers it. */
  readonly inFlightMax: number;
  /** Initial limit on requests in flight; min(inFlightMax, 64). */
  readonly inFlightStart?: number;
  readonly nowMs: number;
  /** Numbers in [0, 1), for jitter. */
  readonly random: () => number;
  /** Limits of the whole provider: every reservation, settlement, release and restore also applies to them. */
  readonly shared?: LaneLimits | undefined;
  /** How fast use may grow; absent: unlimited. */
  readonly ramp?: RampOptions | undefined;
  /** Where other processes share the quotas, the places, and what each knows of the lane. */
  readonly drawn?: DrawnLoad | undefined;
  readonly places?: DrawnPlaces | undefined;
  readonly facts?: LaneFacts | undefined;
}

const NO_TOKENS: TokenLoad = { inputTokens: 0, outputTokens: 0 };

export class LaneLimits {
  readonly #quotas: Quotas;
  readonly #concurrency: Concurrency;
  readonly #gate: Gate;
  readonly #pause = new Pause();
  readonly #shared: LaneLimits | undefined;
  readonly #facts: LaneFacts | undefined;
  /** A limit that only refusals show. */
  readonly hidden: HiddenLimit;
  readonly #flow = new TokenFlow();
  #isHeldByShared = false;
  readonly #oversized = new OversizedRequest();

  constructor(options: LaneLimitsOptions) {
    const max = Math.min(options.inFlightMax, options.settings.concurrency ?? Number.POSITIVE_INFINITY);
    this.#quotas = new Quotas(options.settings, options.nowMs, options.ramp, options.drawn);
    this.#concurrency = new Concurrency({ max, start: options.inFlightStart, drawn: options.places });
    this.#gate = new Gate(options.random);
    this.#shared = options.shared;
    this.hidden = new HiddenLimit(options.nowMs, this.#flow);
    this.#facts = options.facts?.follow(this.#gate, this.#pause, this.#quotas, this.hidden);
  }

  get isPaused(): boolean {
    return this.#pause.isPaused;
  }

  /** Whether the provider does not answer: several failures in a row, and no answer since. */
  get isDown(): boolean {
    return this.#gate.isDown;
  }

  /** Why it is paused, as the caller of `pause` stated it, and whether early probes may still show that others are answered. */
  get paused(): Pick<Pause, "reason" | "isAsking"> {
    return this.#pause;
  }

  /** Milliseconds until the next try, as far as a pause, an outage or refusals determine it. */
  retryMs(nowMs: number): number {
    const heldMs = this.hidden.heldMs(nowMs, this.isRateLimited);
    return Math.max(this.#pause.waitMs(nowMs), this.#gate.retryMs(nowMs), heldMs);
  }

  /** Whether a rate is configured or learnt, here or in the shared limits: then providers object to the rate. */
  get isRateLimited(): boolean {
    return this.#quotas.isLimited || this.#shared?.isRateLimited === true;
  }

  get inFlight(): number {
    return this.#concurrency.inFlight;
  }

  /** Whether the shared limits refused the last reservation. */
  get isHeldByShared(): boolean {
    return this.#isHeldByShared;
  }

  /** Requests that may be in flight now. */
  get places(): number {
    return Math.min(
      this.#concurrency.places,
      this.hidden.places,
      this.#shared?.places ?? Number.POSITIVE_INFINITY,
    );
  }

  /** What `places` will reach if nothing is refused. */
  get placesHoped(): number {
    const shared = this.#shared?.placesHoped ?? Number.POSITIVE_INFINITY;
    return Math.min(this.#concurrency.limitHoped, this.hidden.places, shared);
  }

  /**
   * Milliseconds that one request with `load` takes of the quota it uses most, here or in the shared limits: its dominant share (Ghodsi
   * et al. 2011, "Dominant resource fairness"). 1 where no rate is limited: all are equal.
   */
  costMs(load: TokenLoad): number {
    return Math.max(this.#quotas.costMs(load), this.#shared?.quotaCostMs(load) ?? 0) || 1;
  }

  /** The same for these quotas only; 0 where no rate is limited. */
  quotaCostMs(load: TokenLoad): number {
    return this.#quotas.costMs(load);
  }

  /** Takes a place in flight, a request and `load` tokens from every quota, or nothing from any. */
  reserve(nowMs: number, load: TokenLoad): Reservation {
    const whole = wholeLoad(load);
    this.#isHeldByShared = false;
    const isRated = this.isRateLimited;
    const refusal = this.#refusal(nowMs, whole, isRated);
    if (refusal !== undefined) return refusal;
    const shared = this.#shared?.reserve(nowMs, whole);
    if (shared !== undefined && !shared.ok) {
      this.#isHeldByShared = true;
      return shared;
    }
    if (this.#pause.isPaused) this.#pause.probed(nowMs);
    this.#gate.sent(nowMs);
    this.#concurrency.take();
    const isFollowed = !this.#flow.isQuick; // also before a limit is known: a limit learnt later must count requests in flight
    if (isFollowed) this.#flow.sent(nowMs, whole);
    this.#oversized.sent();
    const permit: Permit = {
      isProbe: this.isPaused || this.isDown || shared?.permit.isProbe === true,
      atMs: nowMs,
      sentAtMs: nowMs,
      load: whole,
      counted: this.#quotas.add(nowMs, whole),
      shared: shared?.permit,
      isHidden: !isRated,
      index: 0,
      isFollowed,
      isBegun: false,
      isSettled: false,
      isReleased: false,
    };
    if (permit.isHidden) this.hidden.sent(nowMs, permit);
    return { ok: true, permit };
  }

  /** The request is sent only now, a while after `reserve`: it counts in the window from now on. Call it before `settle`. */
  postpone(nowMs: number, permit: Permit): void {
    if (permit.isSettled) return;
    permit.counted = this.#quotas.move(nowMs, permit.counted, permit.load);
    if (permit.isFollowed) {
      this.#flow.ended(nowMs, permit.sentAtMs, permit.load, NO_TOKENS, false);
      this.#flow.sent(nowMs, permit.load);
    }
    permit.sentAtMs = nowMs;
    if (permit.shared !== undefined) this.#shared?.postpone(nowMs, permit.shared);
  }

  /** Replaces the reserved tokens by those actually used; undefined keeps them. Only the first call counts. */
  settle(nowMs: number, permit: Permit, actual: TokenLoad | undefined): void {
    if (permit.isSettled) return;
    permit.isSettled = true;
    const used = actual === undefined ? permit.load : wholeLoad(actual);
    if (permit.isFollowed) this.#flow.ended(nowMs, permit.sentAtMs, permit.load, used, actual !== undefined);
    if (actual !== undefined) {
      if (!permit.isFollowed) this.#flow.answered(nowMs - permit.sentAtMs, used.outputTokens);
      this.#quotas.settle(nowMs, permit.counted, permit.load, used);
    }
    if (permit.shared !== undefined) this.#shared?.settle(nowMs, permit.shared, actual);
  }

  /** Whether a request that was admitted but not sent must wait. Probes do not wait for an outage or a pause. */
  isStoppedFor(nowMs: number, { isProbe, shared }: Permit): boolean {
    if (this.#gate.cooldownMs(nowMs) > 0) return true;
    if (!isProbe && (this.#pause.isPaused || this.#gate.isDown)) return true;
    if (!this.#concurrency.mayStart(nowMs)) return true;
    return shared !== undefined && this.#shared?.isStoppedFor(nowMs, shared) === true;
  }

  /** Whether the lane sends nothing, or only probes, for a reason other than a rate and places. */
  isStopped(nowMs: number): boolean {
    if (this.#gate.cooldownMs(nowMs) > 0 || this.#pause.isPaused || this.#gate.isDown) return true;
    return this.hidden.heldMs(nowMs, this.isRateLimited) > 0 || this.#shared?.isStopped(nowMs) === true;
  }

  /** The first part of an answer arrived: its place says now what it says of the places, here and in the shared limits. */
  begun(nowMs: number, permit: Permit): void {
    if (permit.isBegun) return;
    permit.isBegun = true;
    this.#concurrency.begun(nowMs - permit.sentAtMs);
    if (permit.shared !== undefined) this.#shared?.begun(nowMs, permit.shared);
  }

  /** Frees the place in flight. Only the first call counts. */
  release(nowMs: number, permit: Permit): void {
    if (permit.isReleased) return;
    permit.isReleased = true;
    if (permit.isHidden) this.hidden.ended(nowMs, permit);
    this.#concurrency.free(nowMs - permit.atMs, permit.isBegun);
    if (permit.shared !== undefined) this.#shared?.release(nowMs, permit.shared);
  }

  /**
   * Records how an attempt ended, before its `release`. The shared limits record it too, unless it is rate_limited or overloaded. With
   * its `permit`, a 429 without a wait is evidence of an unknown limit, if no rate is configured or in a header.
   */
  observe(nowMs: number, signal: Signal, permit?: Permit): void {
    const concurrency = this.#concurrency;
    if (signal.kind === "rate_limited" && permit?.isHidden === true) {
      if (!(Number(signal.retryAfterMs) > 0) && signal.isRampLimit !== true) {
        this.hidden.refused(nowMs, permit);
        return;
      }
      this.hidden.uncount(permit);
    }
    if (this.#gate.observe(nowMs, signal, concurrency.roundTripMs, permit?.sentAtMs)) concurrency.restart();
    if (signal.kind === "success") {
      if (permit?.isBegun !== true) concurrency.succeeded();
      this.#pause.succeeded();
    } else if (signal.kind === "rate_limited") {
      concurrency.congested(nowMs, true, this.isRateLimited ? concurrency.start : 1);
      this.#flow.refused(nowMs);
      this.#shared?.refusedBelow(nowMs);
      if (signal.isRampLimit === true) this.#quotas.rampRefused(nowMs);
    } else if (signal.kind === "overloaded" || signal.kind === "failed") {
      concurrency.congested(nowMs, signal.kind === "overloaded", 1);
    }
    this.#facts?.changed(nowMs);
    if (signal.kind !== "rate_limited" && signal.kind !== "overloaded")
      this.#shared?.observe(nowMs, signal, permit?.shared);
  }

  /** A lane that shares these limits was refused. */
  refusedBelow(nowMs: number): void {
    this.#flow.refused(nowMs);
  }

  /** Applies the limits of this lane in a response's headers, also of refusals. The shared limits do not change. */
  learn(nowMs: number, learnt: LearntLimits, isRefused = false): void {
    this.#quotas.learn(nowMs, learnt, { isRefused, used: this.#flow.used(nowMs).tokens });
  }

  /** Stops the lane except for probes: one a minute, and `early` ones before. */
  pause(nowMs: number, reason: string, early?: EarlyProbes): void {
    this.#pause.pause(nowMs, reason, early);
    this.#facts?.changed(nowMs);
  }

  resume(): void {
    this.#pause.resume();
    this.#facts?.changed();
  }

  /** Counts what an earlier process sent; entries older than the window have no effect. Call it once, before any reserve. */
  restore(nowMs: number, sent: readonly SentLoad[]): void {
    for (const entry of sent.toSorted((left, right) => left.atMs - right.atMs)) {
      this.#quotas.restore(nowMs, { ...entry, ...wholeLoad(entry) });
      this.#flow.restore(nowMs, entry.atMs, wholeLoad(entry));
      this.hidden.earlier(entry.atMs, entry.requests);
    }
    this.#shared?.restore(nowMs, sent);
  }

  /** What was learnt about the limits, for any later process; undefined if nothing was. */
  known(nowMs: number): KnownLimits | undefined {
    const [told, hidden] = [this.#quotas.told, this.hidden.state(nowMs)];
    if (told === undefined && hidden === undefined) return undefined;
    return { ...(told === undefined ? {} : { told }), ...(hidden === undefined ? {} : { hidden }) };
  }

  /** Starts with what an earlier process knew `ageMs` ago. Call it once, before any reserve and before `restore`. */
  restoreKnown(nowMs: number, ageMs: number, { told, hidden }: KnownLimits): void {
    if (told !== undefined) this.#quotas.learn(nowMs, told);
    if (hidden !== undefined) this.hidden.restore(nowMs, ageMs, hidden);
  }

  /** What the next process must know in addition to what was sent; undefined if nothing holds this lane back. */
  heldBack(nowMs: number): HeldBack | undefined {
    const cooldownMs = this.#gate.cooldownMs(nowMs);
    const rampTokensPerMinute = this.#quotas.rampLevel(nowMs);
    if (cooldownMs === 0 && rampTokensPerMinute === undefined && !this.isPaused) return;
    return { cooldownMs, rampTokensPerMinute, pauseReason: this.paused.reason };
  }

  /** As in the snapshot, without the rest of it: lanes in trouble ask at each attempt. */
  cooldownMs(nowMs: number): number {
    return Math.max(this.#gate.cooldownMs(nowMs), this.hidden.heldMs(nowMs, this.isRateLimited));
  }

  /** Continues what held an earlier process back `ageMs` ago. Call it once, before any reserve. */
  restoreHeldBack(nowMs: number, ageMs: number, held: HeldBack): void {
    if (held.pauseReason !== undefined) this.#pause.restore(nowMs, held.pauseReason);
    if (held.cooldownMs > ageMs) this.#gate.restoreCooldown(nowMs, held.cooldownMs - ageMs);
    const { rampTokensPerMinute: level } = held;
    if (level !== undefined) this.#quotas.restoreRamp(nowMs, ageMs, level);
  }

  snapshot(nowMs: number): LimitsSnapshot {
    const cooldownMs = this.cooldownMs(nowMs);
    const shared = this.#shared?.snapshot(nowMs);
    const quotas = this.#quotas.use(nowMs);
    const own = {
      requests: quotas.requests ?? this.hidden.use(nowMs),
      tokens: quotas.tokens ?? this.hidden.tokenUse(nowMs, this.#flow, "tokens"),
      inputTokens: quotas.inputTokens,
      outputTokens: quotas.outputTokens ?? this.hidden.tokenUse(nowMs, this.#flow, "outputTokens"),
    };
    return {
      ...fullerUse(own, shared),
      own,
      shared,
      inFlight: this.#concurrency.inFlight,
      inFlightMax: this.places,
      cooldownMs,
      state: stateOf(this.#pause.isPaused, this.#gate.isDown, cooldownMs),
      pauseReason: this.paused.reason,
      oversized: this.#oversized.at(nowMs) ?? shared?.oversized,
    };
  }

  /** Why `load` may not be sent now; takes nothing. */
  #refusal(nowMs: number, load: TokenLoad, isRated: boolean): Reservation | undefined {
    const unheardMs = this.#facts?.waitMs(nowMs) ?? 0;
    if (unheardMs > 0) return { ok: false, waitMs: unheardMs, reason: "requests" };
    const pausedMs = this.#pause.waitMs(nowMs);
    if (pausedMs > 0) return { ok: false, waitMs: pausedMs, reason: "paused" };
    const outageMs = this.#gate.outageMs(nowMs);
    const cooldownMs = this.#gate.cooldownMs(nowMs);
    if (outageMs > 0 || cooldownMs > 0)
      return outageMs >= cooldownMs
        ? { ok: false, waitMs: outageMs, reason: "outage" }
        : { ok: false, waitMs: cooldownMs, reason: "cooldown" };
    const placeMs = this.#placeInMs(nowMs, isRated);
    if (placeMs > 0) return { ok: false, waitMs: placeMs, reason: "concurrency" };
    if (!isRated) {
      const hiddenMs = this.hidden.waitMs(nowMs);
      if (hiddenMs === Number.POSITIVE_INFINITY)
        return { ok: false, waitMs: hiddenMs, reason: "concurrency" };
      if (hiddenMs > 0)
        return { ok: false, waitMs: hiddenMs, reason: this.hidden.isHeld ? "cooldown" : "requests" };
    }
    this.#quotas.setPace(nowMs, this.#gate.share(nowMs));
    const requestsMs = this.#quotas.requestWaitMs(nowMs);
    const tokensMs = this.#tokenWaitMs(nowMs, load, isRated ? undefined : this.hidden.tokenLimits);
    if (requestsMs <= 0 && tokensMs <= 0) return undefined;
    this.#oversized.refused(this.#quotas.oversized(load), nowMs + tokensMs);
    return requestsMs >= tokensMs
      ? { ok: false, waitMs: requestsMs, reason: "requests" }
      : { ok: false, waitMs: tokensMs, reason: "tokens" };
  }

  /** `found`: limits that refusals have shown. */
  #tokenWaitMs(nowMs: number, load: TokenLoad, found: FlowLimits | undefined): number {
    const isFlowing = (found !== undefined || this.#quotas.isFlowLimited) && !this.#flow.isQuick;
    const sentMs = this.#quotas.tokenWaitMs(nowMs, load, isFlowing);
    if (!isFlowing) return sentMs;
    const limits = found ?? this.#quotas.flowLimits;
    return Math.max(sentMs, this.#flow.waitMs(nowMs, load, limits, this.#quotas.pace));
  }

  /** Milliseconds until a place in flight exists if none is freed; 0 if there is one. */
  #placeInMs(nowMs: number, isRated: boolean): number {
    const concurrency = this.#concurrency;
    // A probe may exceed the places that congestion left. Otherwise hanging requests would hide from the lane that it healed.
    const isProbing = this.#gate.isDown || this.#pause.isPaused;
    if (isProbing && concurrency.inFlight >= concurrency.max) return Number.POSITIVE_INFINITY;
    const share = isRated || isProbing ? 1 : this.#gate.rampShare(nowMs); // without a rate the ramp limits places
    if (isProbing || concurrency.hasRoom(share)) return concurrency.drawnInMs(nowMs);
    return Math.min(concurrency.growsInMs(nowMs), this.#gate.rampsInMs(nowMs, concurrency.shareOfNext));
  }
}
