/**
 * Finds an unknown limit on tokens where answers take long and the provider counts tokens when the answer arrives. What was sent cannot
 * show such a limit, so it has its own file beside hidden_limit.ts.
 *
 *   none --a hold outlasts what was sent in the minute before it--> known --refused, and a probe is accepted--> known, lower
 *                                                                     ^------- 30 s without a refusal: higher ---------'
 *
 * Two moments are evidence: the first refusal, and the first probe that is accepted after it. At both, the provider has counted what it
 * allows, and each kind of limit counts in its own way. `used(t)` is the tokens of the minute before t, `total(t)` all tokens up to t:
 *
 *   sliding minute   limit = used(refused) = used(accepted)
 *   bucket           limit = (total(t) - total(since)) / (t - since), at both; a bucket that was full at first holds a minute more
 *   fixed minute     limit = the tokens from the start of the window, a minute before the probe was accepted, to the refusal
 *
 * The provider counts all tokens, or only those of the output. The kind and the count that fit best are used. The tokens then flow
 * evenly (token_flow.ts), which every kind accepts.
 */

import type { FlowLimits, TokenFlow } from "../token_flow.ts";
import { RAISE_EVERY_MS, RAISE_EVERY_MS_MAX, raiseShare } from "./hidden_rate.ts";

const MINUTE_MS = 60_000;
const LATE_MS = 5_000;
/** A shorter hold does not show when tokens are used. */
const HOLD_MS_MIN = 5_000;
/** Share of what was sent in the minute before the refusals. A limit on tokens sent accepts a probe before less of it is left. */
const SENT_SHARE = 0.5;
/** Share of the output used when refusals began. If output caused the long hold, at least this share has arrived since. */
const CAME_SHARE = 0.25;
/** Share of what was used when refusals began, at which a probe is sent. */
const PROBE_SHARE = 0.98;
/** The most by which the two moments of a kind may disagree, as a difference of logarithms. */
const MISFIT_MAX = 0.3;
/** The kind found before is kept below this misfit. */
const MISFIT_KEPT = 0.15;
/** Factor on the misfit of a sliding minute: the probe was sent when such a minute accepts one, which is stronger evidence. */
const EXACT = 0.5;
/** Assumed for the fixed minute, which the two moments cannot check. */
const MISFIT_FIXED = 0.15;
/** A minute plus the latency of an earlier process's requests in flight, which the provider counts unseen. */
const BLIND_MS = 90_000;
const SINCE_MS_MIN = 20_000;
const LOWER = 0.98;
const LOWEST = 0.5;

type Kind = "sliding" | "bucket" | "fixed";
const UNITS = ["tokens", "outputTokens"] as const;
type Unit = (typeof UNITS)[number];

/** Tokens of the minute before a time, and of all time up to it. */
interface Moment {
  readonly atMs: number;
  readonly used: FlowLimits;
  readonly total: FlowLimits;
}

interface Fit {
  readonly kind: Kind;
  readonly unit: Unit;
  readonly limit: number;
  /** Difference of logarithms between the two moments; 0 where they agree. */
  readonly misfit: number;
}

/** One per lane. Times are monotonic. */
export class HiddenTokens {
  readonly #flow: TokenFlow;
  #found: Fit | undefined;
  /** The last moment at which the limit was reached; before that, the first request. */
  #since: Moment | undefined;
  /** Whether a bucket was full at `since`: only before the limit was first reached. */
  #isFull = true;
  #raisedAtMs = 0;
  #raises = 0;
  /** Refusals until then are no evidence. */
  #blindUntilMs = Number.NEGATIVE_INFINITY;
  #refused: Moment | undefined;
  #probe: Moment | undefined;
  /** Units for which a probe has tested a sliding minute. */
  readonly #tried = new Set<Unit>();

  constructor(flow: TokenFlow) {
    this.#flow = flow;
  }

  /** Whether answers take so long that the time at which tokens are used matters. */
  get isLate(): boolean {
    return !this.#flow.isQuick && this.#flow.latencyMs >= LATE_MS;
  }

  /** Tokens a minute; undefined while no limit is known. */
  get limits(): FlowLimits | undefined {
    if (this.#found === undefined) return undefined;
    const { unit, limit } = this.#found;
    const none = Number.POSITIVE_INFINITY;
    return { tokens: none, outputTokens: none, [unit]: limit, isFound: true };
  }

  /** For a later process; undefined while no limit is known. */
  state(): { readonly tokens: number } | { readonly outputTokens: number } | undefined {
    if (this.#found === undefined) return undefined;
    const limit = Math.round(this.#found.limit);
    return this.#found.unit === "tokens" ? { tokens: limit } : { outputTokens: limit };
  }

  /** Whether the time at which the provider accepts the next request is known. */
  get isForeseen(): boolean {
    return this.#found?.kind === "sliding" && this.isLate;
  }

  /** Milliseconds until a sliding minute that was not tried yet would accept a request if nothing more is used; 0 for now. */
  slidingMs(nowMs: number): number {
    const { used } = this.#refused ?? {};
    if (used === undefined || !this.isLate) return Number.POSITIVE_INFINITY;
    let waitMs = Number.POSITIVE_INFINITY;
    for (const unit of UNITS)
      if (!this.#tried.has(unit))
        waitMs = Math.min(waitMs, this.#flow.fallsToMs(nowMs, unit, used[unit] * PROBE_SHARE));
    return waitMs;
  }

  /** A request is sent; only the first one matters. */
  began(nowMs: number): void {
    this.#since ??= this.#moment(nowMs);
  }

  /** Refusals begin. */
  refused(nowMs: number): void {
    this.#refused = this.#moment(nowMs);
    this.#tried.clear();
  }

  /** A probe is sent. */
  probed(nowMs: number): void {
    const used = this.#refused?.used;
    this.#probe = this.#moment(nowMs);
    for (const unit of UNITS)
      if (used !== undefined && this.#flow.fallsToMs(nowMs, unit, used[unit] * PROBE_SHARE) <= 0)
        this.#tried.add(unit);
  }

  /**
   * A probe that was sent after refusals was accepted. `sentShare`: what was sent in the minute before the probe, as a share of what
   * was sent in the minute before the first refusal. `isStop`: everything was refused for longer than windows last. Returns whether the
   * limit is on tokens.
   */
  taken(sentShare: number, isStop: boolean): boolean {
    const [refused, probe, since, before] = [this.#refused, this.#probe, this.#since, this.#found];
    if (refused === undefined || probe === undefined) return false;
    if (before !== undefined && refused.atMs < this.#blindUntilMs) {
      this.#since = probe;
      return true;
    }
    this.#found = undefined;
    if (since === undefined || !this.isLate) return false;
    const isLong = probe.atMs - refused.atMs >= HOLD_MS_MIN;
    const camePart = (probe.total.outputTokens - refused.total.outputTokens) / refused.used.outputTokens;
    if (before === undefined && !(isLong && sentShare <= SENT_SHARE && camePart >= CAME_SHARE)) return false;
    const fits = isLong || before === undefined ? this.#fits(since, refused, probe) : [];
    const best =
      fits.find(
        (fit) => fit.kind === before?.kind && fit.unit === before.unit && fit.misfit <= MISFIT_KEPT,
      ) ?? fits.toSorted((left, right) => left.misfit - right.misfit)[0];
    if (best !== undefined && best.misfit <= MISFIT_MAX) this.#found = best;
    else if (before !== undefined && isStop) this.#found = before;
    else if (before !== undefined) this.#found = { ...before, limit: this.#again(before, since, refused) };
    if (this.#found === undefined) return false;
    if (before?.unit === this.#found.unit && before !== this.#found) this.#lower(this.#found, before.limit);
    this.#since = probe;
    this.#isFull = false;
    this.#raisedAtMs = probe.atMs;
    this.#raises = 0;
    return true;
  }

  /** Continues with what an earlier process found. */
  restore(nowMs: number, limits: Pick<FlowLimits, Unit>): void {
    this.#raisedAtMs = nowMs;
    this.#blindUntilMs = nowMs + BLIND_MS;
    for (const unit of UNITS) {
      const limit = limits[unit];
      if (limit > 0) this.#found = { kind: "sliding", unit, limit, misfit: 0 };
    }
  }

  /** Returns a function that restores the present state. */
  keep(): () => void {
    const [found, since, isFull] = [this.#found, this.#since, this.#isFull];
    const [raisedAtMs, raises] = [this.#raisedAtMs, this.#raises];
    return () => {
      [this.#found, this.#since, this.#isFull] = [found, since, isFull];
      [this.#raisedAtMs, this.#raises] = [raisedAtMs, raises];
    };
  }

  /** Raises the limit after a time without refusals: 30 s where it was estimated, 2 minutes where it was observed. */
  raise(nowMs: number): void {
    const everyMs = this.isForeseen ? RAISE_EVERY_MS_MAX : RAISE_EVERY_MS;
    if (this.#found === undefined || nowMs - this.#raisedAtMs < everyMs) return;
    this.#found = { ...this.#found, limit: this.#found.limit * (1 + raiseShare(this.#raises)) };
    this.#raises += 1;
    this.#raisedAtMs = nowMs;
  }

  #lower(found: Fit, before: number): void {
    this.#found = { ...found, limit: Math.max(before * LOWEST, Math.min(before * LOWER, found.limit)) };
  }

  /** The limit after a short hold: what was used at the refusal, counted as the known kind counts. */
  #again({ kind, unit, limit }: Fit, since: Moment, refused: Moment): number {
    if (kind !== "bucket") return refused.used[unit];
    const sinceMs = refused.atMs - since.atMs;
    return sinceMs < SINCE_MS_MIN ? limit : ((refused.total[unit] - since.total[unit]) * MINUTE_MS) / sinceMs;
  }

  #fits(since: Moment, refused: Moment, probe: Moment): readonly Fit[] {
    return UNITS.flatMap((unit) => {
      const earned = (at: Moment): number =>
        (at.total[unit] - since.total[unit]) / ((at.atMs - since.atMs) / MINUTE_MS + (this.#isFull ? 1 : 0));
      const inWindow = probe.used[unit] - (probe.total[unit] - refused.total[unit]);
      const all: Fit[] = [
        {
          kind: "sliding",
          unit,
          limit: refused.used[unit],
          misfit: Math.abs(Math.log(probe.used[unit] / refused.used[unit] / PROBE_SHARE)) * EXACT,
        },
        {
          kind: "bucket",
          unit,
          limit: Math.min(earned(refused), earned(probe)),
          misfit: Math.abs(Math.log(earned(probe) / earned(refused))),
        },
        { kind: "fixed", unit, limit: inWindow, misfit: MISFIT_FIXED },
      ];
      return all.filter(({ limit, misfit, kind }) => {
        if (kind === "fixed" && probe.atMs - refused.atMs > MINUTE_MS) return false;
        return limit > 0 && Number.isFinite(limit) && Number.isFinite(misfit);
      });
    });
  }

  #moment(atMs: number): Moment {
    return { atMs, used: this.#flow.used(atMs), total: this.#flow.total };
  }
}
