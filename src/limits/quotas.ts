/**
 * The four quotas of a lane: requests, tokens (input and output together), input tokens, output tokens, all per minute.
 *
 * Every quota counts from the start, limited or not, so that a limit learnt later knows the last minute.
 */
import type { LearntLimits, LimitSettings, TokenLoad } from "../work/limits.ts";
import { fuller, type LearntFrom, Quota, type QuotaUse } from "./quota.ts";
import { Ramp, type RampOptions } from "./ramp.ts";
import type { CountedIn } from "./reservation.ts";
import type { DrawnLoad, DrawnQuota, QuotaLimits } from "./shared/drawn_load.ts";
import type { StatedLimits } from "./shared/shared_facts.ts";
import type { FlowLimits } from "./token_flow.ts";

/** What was sent before a restart. */
export interface SentLoad extends TokenLoad {
  /** Monotonic time, in the past. */
  readonly atMs: number;
  readonly requests: number;
}

/** Limits in responses, a minute. */
export type ToldLimits = StatedLimits;

/** Use of each quota; undefined where nothing is limited. */
export interface QuotasUse {
  readonly requests: QuotaUse | undefined;
  readonly tokens: QuotaUse | undefined;
  readonly inputTokens: QuotaUse | undefined;
  readonly outputTokens: QuotaUse | undefined;
}

/**
 * Output tokens are used when the answer arrives. The pace is this multiple of the even one, to use what stayed free while few answers
 * arrived. The minute still holds no more than the limit.
 */
const CATCH_UP = 1.25;
/** Smaller changes of the share do not change the pace. */
const PACE_STEP = 0.01;

export class Quotas {
  readonly #requests: Quota;
  readonly #tokens: Quota;
  readonly #inputTokens: Quota;
  readonly #outputTokens: Quota;
  readonly #drawn: DrawnLoad | undefined;
  #isLimited = false;
  #isFlowLimited = false;
  #pace = 1;

  /** `ramp`: how fast the use of input tokens may grow. `drawn`: where other processes share the quotas. */
  constructor(settings: LimitSettings, nowMs: number, ramp?: RampOptions, drawn?: DrawnLoad) {
    this.#drawn = drawn;
    this.#requests = new Quota(settings.requestsPerMinute, nowMs);
    this.#tokens = new Quota(settings.tokensPerMinute, nowMs);
    this.#inputTokens = new Quota(settings.inputTokensPerMinute, nowMs, ramp && new Ramp(ramp));
    this.#outputTokens = new Quota(settings.outputTokensPerMinute, nowMs);
    this.#applyPace(nowMs);
    this.#noteLimits();
  }

  /** Whether any rate is limited. Read for each request: only a ramp can limit without a new response. */
  get isLimited(): boolean {
    return this.#isLimited || this.#inputTokens.isLimited;
  }

  /** Whether a limit exists on tokens that are used when the answer arrives. */
  get isFlowLimited(): boolean {
    return this.#isFlowLimited;
  }

  /** Limits on tokens that are used when the answer arrives. */
  get flowLimits(): FlowLimits {
    return { tokens: this.#tokens.limit, outputTokens: this.#outputTokens.limit };
  }

  #noteLimits(): void {
    this.#isFlowLimited = this.#tokens.isLimited || this.#outputTokens.isLimited;
    this.#isLimited = this.#isFlowLimited || this.#requests.isLimited;
  }

  /** Milliseconds until one more request fits. */
  requestWaitMs(nowMs: number): number {
    const waitMs = this.#requests.waitMs(nowMs, 1);
    return waitMs > 0 || this.#drawn === undefined ? waitMs : this.#drawn.requestWaitMs(nowMs, this.#limits);
  }

  /** Milliseconds until the tokens of one more request fit; `isFlowing`: output is paced by when it is used. */
  tokenWaitMs(nowMs: number, load: TokenLoad, isFlowing: boolean): number {
    const over = isFlowing ? load.outputTokens / 2 : undefined; // the nearest whole number of answers
    const waitMs = Math.max(
      this.#tokens.waitMs(nowMs, load.inputTokens + load.outputTokens, over),
      this.#inputTokens.waitMs(nowMs, load.inputTokens),
      this.#outputTokens.waitMs(nowMs, load.outputTokens, over),
    );
    return waitMs > 0 || this.#drawn === undefined
      ? waitMs
      : this.#drawn.tokenWaitMs(nowMs, load, this.#limits);
  }

  /** What a request takes of a token limit that it exceeds; undefined if it exceeds none. */
  oversized(load: TokenLoad): { readonly tokens: number; readonly limit: number } | undefined {
    const all = load.inputTokens + load.outputTokens;
    if (all > this.#tokens.limit) return { tokens: all, limit: this.#tokens.limit };
    if (load.inputTokens > this.#inputTokens.limit)
      return { tokens: load.inputTokens, limit: this.#inputTokens.limit };
    if (load.outputTokens > this.#outputTokens.limit)
      return { tokens: load.outputTokens, limit: this.#outputTokens.limit };
    return undefined;
  }

  /** Milliseconds of the quota that one request with `load` uses most of; 0 where nothing is limited. */
  costMs(load: TokenLoad): number {
    return Math.max(
      this.#requests.costMs(1),
      this.#tokens.costMs(load.inputTokens + load.outputTokens),
      this.#inputTokens.costMs(load.inputTokens),
      this.#outputTokens.costMs(load.outputTokens),
    );
  }

  /** Counts one request. */
  add(nowMs: number, load: TokenLoad): CountedIn {
    return { slot: this.#add(nowMs, load), drawn: this.#drawn?.spend(load) };
  }

  /** Counts a request from now on that waited after it was counted. */
  move(nowMs: number, { slot, drawn }: CountedIn, load: TokenLoad): CountedIn {
    this.#requests.adjust(nowMs, slot, -1);
    this.#adjust(nowMs, slot, -load.inputTokens, -load.outputTokens);
    const slotNow = this.#add(nowMs, load);
    return { slot: slotNow, drawn: drawn === undefined ? undefined : this.#drawn?.move(drawn, load) };
  }

  /** Replaces the tokens that were reserved by those actually used. */
  settle(nowMs: number, { slot, drawn }: CountedIn, reserved: TokenLoad, actual: TokenLoad): void {
    const inputDelta = actual.inputTokens - reserved.inputTokens;
    this.#adjust(nowMs, slot, inputDelta, actual.outputTokens - reserved.outputTokens);
    if (drawn !== undefined) this.#drawn?.settle(drawn, reserved, actual);
  }

  #add(nowMs: number, load: TokenLoad): number {
    this.#tokens.add(nowMs, load.inputTokens + load.outputTokens);
    this.#inputTokens.add(nowMs, load.inputTokens);
    this.#outputTokens.add(nowMs, load.outputTokens);
    return this.#requests.add(nowMs, 1);
  }

  #adjust(nowMs: number, slot: number, inputDelta: number, outputDelta: number): void {
    this.#tokens.adjust(nowMs, slot, inputDelta + outputDelta);
    this.#inputTokens.adjust(nowMs, slot, inputDelta);
    this.#outputTokens.adjust(nowMs, slot, outputDelta);
  }

  get #limits(): QuotaLimits {
    return {
      requests: this.#requests.limit,
      tokens: this.#tokens.limit,
      inputTokens: this.#inputTokens.limit,
      outputTokens: this.#outputTokens.limit,
    };
  }

  /** The limits in the last response that stated each; undefined if no response stated any. */
  get told(): ToldLimits | undefined {
    const told = {
      requestsPerMinute: this.#requests.told,
      tokensPerMinute: this.#tokens.told,
      inputTokensPerMinute: this.#inputTokens.told,
      outputTokensPerMinute: this.#outputTokens.told,
    };
    const known = Object.entries(told).filter(([, limit]) => limit !== undefined);
    return known.length === 0 ? undefined : Object.fromEntries(known);
  }

  /** `used`: tokens used in the last minute, where they are followed. */
  learn(nowMs: number, learnt: LearntLimits, from: LearntFrom = { isRefused: false }): void {
    if (learnt.requestsPerMinute !== undefined) this.#requests.learn(nowMs, learnt.requestsPerMinute);
    if (learnt.tokensPerMinute !== undefined) this.#tokens.learn(nowMs, learnt.tokensPerMinute);
    if (learnt.inputTokensPerMinute !== undefined)
      this.#inputTokens.learn(nowMs, learnt.inputTokensPerMinute);
    if (learnt.outputTokensPerMinute !== undefined)
      this.#outputTokens.learn(nowMs, learnt.outputTokensPerMinute);
    if (learnt.remainingRequests !== undefined)
      this.#requests.learnRemaining(nowMs, learnt.remainingRequests, learnt.resetRequestsMs, {
        isRefused: from.isRefused,
        used: this.#drawn?.charged("requests") ?? 0,
      });
    if (learnt.remainingTokens !== undefined)
      this.#tokens.learnRemaining(nowMs, learnt.remainingTokens, learnt.resetTokensMs, {
        ...from,
        used: Math.max(from.used ?? 0, this.#drawn?.charged("tokens") ?? 0),
      });
    this.#noteLimits();
  }

  /** The provider refused the growth of input tokens. */
  rampRefused(nowMs: number): void {
    this.#inputTokens.rampRefused(nowMs);
  }

  /** See Ramp; undefined if a later process does not need it. */
  rampLevel(nowMs: number): number | undefined {
    return this.#inputTokens.rampLevel(nowMs);
  }

  /** See Ramp. */
  restoreRamp(nowMs: number, ageMs: number, level: number): void {
    this.#inputTokens.restoreRamp(nowMs, ageMs, level);
  }

  /** Counts what was sent before a restart; call it in the order of time. */
  restore(nowMs: number, sent: SentLoad): void {
    this.#requests.restore(nowMs, sent.atMs, sent.requests);
    this.#tokens.restore(nowMs, sent.atMs, sent.inputTokens + sent.outputTokens);
    this.#inputTokens.restore(nowMs, sent.atMs, sent.inputTokens);
    this.#outputTokens.restore(nowMs, sent.atMs, sent.outputTokens);
  }

  /** The share of each rate at which it is paced. */
  get pace(): number {
    return this.#pace;
  }

  /** Paces at `share` of each rate. */
  setPace(nowMs: number, share: number): void {
    if (share === this.#pace || (share < 1 && Math.abs(share - this.#pace) < PACE_STEP)) return;
    this.#pace = share;
    this.#applyPace(nowMs);
  }

  #applyPace(nowMs: number): void {
    this.#requests.setPace(nowMs, this.#pace);
    this.#tokens.setPace(nowMs, this.#pace * CATCH_UP);
    this.#inputTokens.setPace(nowMs, this.#pace);
    this.#outputTokens.setPace(nowMs, this.#pace * CATCH_UP);
  }

  /** Of all processes where they share them. */
  use(nowMs: number): QuotasUse {
    return {
      requests: this.#use(nowMs, "requests", this.#requests),
      tokens: this.#use(nowMs, "tokens", this.#tokens),
      inputTokens: this.#use(nowMs, "inputTokens", this.#inputTokens),
      outputTokens: this.#use(nowMs, "outputTokens", this.#outputTokens),
    };
  }

  #use(nowMs: number, name: DrawnQuota, quota: Quota): QuotaUse | undefined {
    const own = quota.use(nowMs);
    if (own === undefined || this.#drawn === undefined) return own;
    return { ...own, used: Math.max(own.used, this.#drawn.charged(name)) };
  }
}

/** Of each quota the one that is closer to its limit: the lane's own or the shared one. */
export function fullerUse(own: QuotasUse, shared: QuotasUse | undefined): QuotasUse {
  return {
    requests: fuller(own.requests, shared?.requests),
    tokens: fuller(own.tokens, shared?.tokens),
    inputTokens: fuller(own.inputTokens, shared?.inputTokens),
    outputTokens: fuller(own.outputTokens, shared?.outputTokens),
  };
}
