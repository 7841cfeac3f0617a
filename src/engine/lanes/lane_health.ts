/**
 * What the attempts of a lane say about it: whether it answers, since when it does not, and which failures are items' own.
 *
 *   answering --a failure that is not its item's own--> in trouble --an answer--> answering
 *   in trouble --a refusal makes the lane wait, and a request is answered meanwhile--> in trouble, since the answer
 *   answering --the process starts, and the lane waits as an earlier process had to--> in trouble
 *   in trouble --killed, and the next process fails before it is answered--> in trouble, since the first failure
 *
 * A refusal makes it wait for up to 15 minutes (limits/cooldown.ts, limits/hidden/hidden_limit.ts). Answers to requests that were on
 * their way say that the provider works, not that it takes the next request. A lane that its account has stopped stays in trouble until a
 * probe was answered (limits/pause.ts).
 */
import type { Clock } from "../../clock.ts";
import { debug } from "../../debug.ts";
import type { AttemptResult } from "../../dispatch/attempt.ts";
import { RETRY_POLICY } from "../../dispatch/retry.ts";
import type { LaneLimits, Permit, Signal } from "../../limits/limits.ts";
import { OwnRefusals } from "../../limits/own_refusals.ts";
import { Blame, type ItemFailures } from "../../queue/failures/blame.ts";
import { InnocentFailures } from "../../queue/failures/innocent_failures.ts";
import { OtherFailures } from "../../queue/failures/other_failures.ts";
import { type LaneKey, providerOfLane } from "../../queue/lanes.ts";
import { keyVariable } from "../config/key_places.ts";
import { suspectsOf } from "../items/attempt_signal.ts";
import { codeOfHold, type HeldEnd, holdReasonOf, isHoldReason, type Trouble } from "../items/holds.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";

/** Of a burst, so many answers for each failure say that the failures are the items' own. */
const BESIDE_FACTOR = 4;
/** While its lane is down, an item that failed so often in a row is sent when no item is that was not sent yet. */
const PROBES_MAX = 3;
/** So many other items that fail without an answer to a later request are a lane that fails. */
const OTHERS_MAX = 5;
/** From so many proven failures on, what an item does says nothing of its lane, and needs no comparison when all others are done. */
const PROOFS_MAX = 2;
/** Trouble that is shorter is not recorded for later processes, unless the lane has to wait. */
const LASTING_MS = 1_000;
/** Sums of times differ by less. */
const LONGER_MS_MIN = 1;

/**
 * What a failure counts against: `chance` when others were answered since the item's first failure, but chance still explains
 * the row; it costs the item nothing, and says nothing of the lane either.
 */
export type Blamed = "item" | "lane" | "chance";

/** One per lane. */
export class LaneHealth {
  readonly #key: LaneKey;
  readonly #clock: Clock;
  readonly #limits: LaneLimits;
  readonly #blame = new Blame();
  readonly #others = new OtherFailures<ItemCall>();
  readonly #innocent = new InnocentFailures();
  readonly #ownRefusals: OwnRefusals;
  #trouble: Trouble | undefined;
  /** Why the lane waits, or waited last, and until when it was to wait. */
  #refusal: { readonly trouble: Trouble; readonly untilMs: number } | undefined;
  /**
   * Claimed calls whose last attempt failed without their fault, and how many were answered beside them by then: asleep, waiting
   * for their turn, or out again.
   */
  readonly #failing = new Map<ItemCall, number>();
  /** Answers since the first of them began to fail. */
  #answersBeside = 0;
  /** Since when earlier processes were in trouble, until an answer shows that it is over; monotonic. */
  #earlierSinceMs: number | undefined;
  /** Sent while the lane was stopped by its account; over when the call has another permit or no permit. */
  #probes: { readonly call: ItemCall; readonly permit: Permit }[] = [];

  constructor(key: LaneKey, clock: Clock, limits: LaneLimits) {
    this.#key = key;
    this.#clock = clock;
    this.#limits = limits;
    this.#ownRefusals = new OwnRefusals(limits);
  }

  /** The last failure since the last answer that no item is to blame for, or the refusal that makes it wait; undefined without one. */
  get trouble(): Trouble | undefined {
    return this.#trouble;
  }

  /** How its items end where nobody waits for the end of the trouble; undefined without trouble. */
  get heldEnd(): HeldEnd | undefined {
    if (this.#trouble === undefined) return undefined;
    const { code, message, providerStatus } = this.#trouble;
    return {
      code,
      message,
      provider: providerOfLane(this.#key),
      ...(providerStatus === undefined ? {} : { providerStatus }),
    };
  }

  /**
   * Takes in how an attempt ended, for what it proves. Returns what a failure counts against: by comparison with the answers
   * of `blame`, of this lane when absent. `failedAfterMs`: see ItemPatience.
   */
  blames(call: ItemCall, result: AttemptResult, failedAfterMs: number, blame: Blame = this.#blame): Blamed {
    const nowMs = this.#clock.nowMs();
    const sentMs = nowMs - result.latencyMs;
    const suspects = suspectsOf(result);
    if (suspects === "item") {
      blame.answered(sentMs, nowMs);
      if (this.#failing.size > 0) this.#answersBeside += 1;
      this.#others.answered(sentMs);
      this.#innocent.answered(call.failuresInRow, nowMs);
      call.failuresInRow = 0;
      call.series = call.proven = call.refusals = undefined; // its own answer proves nothing against itself
      call.isProven = false;
      call.proofs = 0;
    }
    if (suspects !== "either") return suspects === "item" ? "item" : "lane";
    if (this.#limits.isDown) {
      blame.void(sentMs);
      call.isProven = false;
      call.proofs = 0;
      this.#innocent.down(this.#failing.size, nowMs);
    }
    if (result.class !== "permanent") {
      const isHang = result.code === "timeout";
      const failure = { sentMs, endedMs: nowMs, hungMs: sentMs + failedAfterMs, isHang };
      if (!this.#isOwn(call, failure, blame)) return "lane";
      return call.failuresInRow > this.#innocent.rowMax(nowMs) - budgetOf(result) ? "item" : "chance";
    }
    if (call.refusals?.blame === blame) return call.isRefusalProven ? "item" : "lane";
    call.refusals = { sentMs, endedMs: nowMs, blame, proofs: 0 };
    call.isRefusalProven = false;
    return "lane";
  }

  /** Reports to the limits how an attempt ended; not of a 429 without a wait that its item explains. */
  observe(call: ItemCall, signal: Signal, permit: Permit | undefined): void {
    const nowMs = this.#clock.nowMs();
    if (signal.kind === "success" || signal.kind === "other") this.#ownRefusals.answered(call);
    const isPlain =
      signal.kind === "rate_limited" && signal.isRampLimit !== true && !(Number(signal.retryAfterMs) > 0);
    if (isPlain && permit !== undefined && this.#ownRefusals.isOwn(nowMs, call, permit))
      this.#limits.hidden.uncount(permit);
    else this.#limits.observe(nowMs, signal, permit);
  }

  /**
   * An attempt is about to be sent. A refusal of its key or model ends the item only if there is proof by now: a refusal that
   * takes long may arrive after the answers of requests that were sent when the key was accepted again.
   */
  sending(call: ItemCall): void {
    const { refusals } = call;
    if (refusals !== undefined) call.isRefusalProven = refusals.blame.isProven(refusals, true);
    if (!this.#limits.isPaused) return;
    this.#probing(call);
    this.#trouble ??= this.#stoppedBefore(call);
  }

  /**
   * Answers to requests of the same burst prove something only beside few failures: a provider that fails from some request on
   * still answers those that it has begun, for as long as answers take. Of an attempt that hung they prove the contrary: it was slow, like
   * theirs.
   */
  #isProven(call: ItemCall, series: ItemFailures, blame: Blame): boolean {
    if (blame.isProven(series, true)) return true;
    if (series.isHang) return false;
    const failing = this.#failing.size + (this.#failing.has(call) ? 0 : 1);
    const answersMin = failing === 1 ? 1 : BESIDE_FACTOR * failing;
    return this.#answersBeside >= answersMin && blame.isProven(series);
  }

  /**
   * Whether answers that arrived while its first attempt hung speak against an item whose later attempt hung, too. They prove
   * nothing when others have failed, too, since the last answer: the provider may have stopped meanwhile. So it may have where the later
   * attempt failed at once.
   */
  #isHangProven(call: ItemCall, failure: ItemFailures, blame: Blame): boolean {
    const { sentMs, hungMs } = call.series ?? failure;
    if (failure.hungMs >= failure.endedMs) return false;
    for (const [other, answersBefore] of this.#failing)
      if (other !== call && answersBefore === this.#answersBeside) return false;
    return this.#isProven(call, { sentMs, endedMs: hungMs, hungMs, isHang: true }, blame);
  }

  /**
   * Whether a failure is its item's own. Not while others have failed since the last answer that were not proven to fail for their
   * own reasons: the limits need seconds until they take that for an outage. Once the lane has failed as many items as ended for
   * their own reasons, an answer proves one failure for each item, and none while all others fail: of two outages, what is answered
   * between them proves nothing in the second.
   */
  #isOwn(call: ItemCall, failure: ItemFailures, blame: Blame): boolean {
    const { sentMs, endedMs, hungMs } = failure;
    call.series ??= failure;
    call.isProven ||= this.#isProven(call, call.series, blame);
    call.failuresInRow += 1;
    const isProven =
      this.#isProven(call, call.proven ?? call.series, blame) ||
      this.#isProven(call, { sentMs, endedMs: hungMs, hungMs, isHang: true }, blame);
    if (isProven) {
      call.proofs += 1;
      call.proven = failure;
    }
    const othersMax = isProven ? OTHERS_MAX : Math.min(call.proofs, PROOFS_MAX);
    const isOwn = this.#innocent.arePlenty(endedMs)
      ? this.#others.beside(call) < othersMax
      : this.#others.beside(call, isUnproven) < OTHERS_MAX &&
        (call.isProven || this.#isHangProven(call, failure, blame));
    if (call.proofs < PROOFS_MAX) this.#others.failed(call, sentMs);
    return isOwn;
  }

  /**
   * Whether another item is a better probe of a lane that is down or stopped by its account: items that break their provider would
   * fail for ever, and nobody would see that it answers. So it is after a 429, and after a refusal of its key or model: its own refusals would look like the lane's.
   */
  isPoorProbe(call: ItemCall): boolean {
    if (this.#limits.hidden.isHeld && call.refusedRow !== undefined) return true;
    if (this.#limits.isPaused && call.refusals !== undefined) return true;
    return (this.#limits.isDown || this.#limits.isPaused) && call.failuresInRow >= PROBES_MAX;
  }

  /** Milliseconds until the first of the items that failed is due again; 0 while one of them is out, and without any. */
  retryMs(nowMs: number): number {
    let atMs = Number.POSITIVE_INFINITY;
    for (const { permit, retryAtMs } of this.#failing.keys()) {
      if (permit !== undefined || retryAtMs <= nowMs) return 0;
      atMs = Math.min(atMs, retryAtMs);
    }
    return this.#failing.size === 0 ? 0 : atMs - nowMs;
  }

  /** A failure that is not its item's own. */
  failed(call: ItemCall, result: AttemptResult): void {
    if (result.code === "cancelled" || (result.class === "permanent" && result.scope === "model")) return;
    if (result.class !== "permanent") this.#failing.set(call, this.#answersBeside);
    this.troubled(call, result);
  }

  /** The lane is in trouble because of a failure, here or where its model was before. */
  troubled(call: ItemCall, result: AttemptResult): void {
    const nowMs = this.#clock.nowMs();
    const reason = holdReasonOf(result);
    const message = messageOf(call, result);
    debug.holds?.(`${this.#key} is in trouble: ${reason} (${message})`);
    this.#trouble = {
      reason,
      code: result.code ?? "provider_error",
      sinceMs: this.#trouble?.sinceMs ?? this.#earlierSinceMs ?? nowMs,
      message,
      ...(result.status === undefined ? {} : { providerStatus: result.status }),
      ...(reason === "model_unavailable" ? { model: call.model } : {}),
      address: call.provider.settings.protocol === "function" ? "" : call.head.origin,
    };
    if (reason === "rate_limited" || reason === "overloaded") this.#refused(nowMs, this.#trouble);
  }

  /** Whether earlier processes were in trouble, and nothing was answered since. */
  get isUnproven(): boolean {
    return this.#earlierSinceMs !== undefined;
  }

  /** For how long it has been in trouble, as later processes are to know, 1 ms at least; undefined where that is ordinary. */
  lastingMs(nowMs: number): number | undefined {
    const sinceMs = this.#trouble?.sinceMs ?? this.#earlierSinceMs;
    if (sinceMs === undefined) return undefined;
    const isLong = nowMs - sinceMs > LASTING_MS || this.#waitMs(nowMs) > 0 || this.#limits.isPaused;
    return isLong ? Math.max(1, nowMs - sinceMs) : undefined;
  }

  /** The process starts: what an earlier one was refused may still make the lane wait. It was in trouble for so long, if at all. */
  started(lastingMs: number | undefined): void {
    const nowMs = this.#clock.nowMs();
    if (lastingMs !== undefined) this.#earlierSinceMs = nowMs - lastingMs;
    this.#refused(nowMs, waitOf("an earlier process", this.#earlierSinceMs ?? nowMs));
    this.#trouble = this.#refusal?.trouble;
  }

  /** Another process was refused, and this one waits as well. */
  toldToStop(): void {
    const nowMs = this.#clock.nowMs();
    const reason = this.#limits.paused.reason ?? "";
    this.#refused(nowMs, waitOf("another process", nowMs));
    const wait = this.#waitMs(nowMs) > 0 ? this.#refusal?.trouble : undefined;
    this.#trouble ??= isHoldReason(reason)
      ? {
          reason,
          code: codeOfHold(reason),
          sinceMs: nowMs,
          message: `${providerOfLane(this.#key)} refused this to another process (${reason})`,
          address: "",
        }
      : wait;
  }

  /** The first probe of a lane that was stopped in an earlier process: until it is answered, the reason is what it was then. */
  #stoppedBefore({ model, head, provider: { settings } }: ItemCall): Trouble | undefined {
    const reason = this.#limits.paused.reason ?? "";
    if (!isHoldReason(reason)) return undefined;
    return {
      reason,
      code: codeOfHold(reason),
      sinceMs: this.#earlierSinceMs ?? this.#clock.nowMs(),
      message: `${settings.name} refused this to an earlier process (${reason}), and has not answered since`,
      ...(reason === "model_unavailable" ? { model } : {}),
      address: settings.protocol === "function" ? "" : head.origin,
      isAsked: true,
    };
  }

  /** Keeps a refusal if the lane waits because of it, or for longer. */
  #refused(nowMs: number, trouble: Trouble): void {
    const waitMs = this.#waitMs(nowMs);
    if (waitMs === 0) return;
    const before = this.#refusal;
    const untilMs = nowMs + waitMs;
    const goesOn = before !== undefined && nowMs < before.untilMs;
    if (goesOn && untilMs < before.untilMs + LONGER_MS_MIN) return;
    this.#refusal = { trouble, untilMs };
  }

  /** The provider answered a request. */
  healed(): void {
    if (this.#limits.isPaused) return;
    this.#earlierSinceMs = undefined;
    if (this.#trouble === undefined) return;
    const nowMs = this.#clock.nowMs();
    if (this.#refusal !== undefined && this.#waitMs(nowMs) > 0) {
      this.#trouble = { ...this.#refusal.trouble, sinceMs: nowMs };
      return;
    }
    debug.holds?.(`${this.#key} answers again`);
    this.#trouble = this.#refusal = undefined;
  }

  /** How long refusals keep it from sending. */
  #waitMs(nowMs: number): number {
    return this.#limits.cooldownMs(nowMs);
  }

  /** A call is over, or moves to another lane. */
  ended(call: ItemCall): void {
    this.#failing.delete(call);
    if (call.isProven && call.failuresInRow > 0) this.#innocent.ended(this.#clock.nowMs());
    if (this.#failing.size === 0) this.#answersBeside = 0;
  }

  /** A call is sent while the account has stopped the lane. */
  #probing(call: ItemCall): void {
    this.#probes = this.#probes.filter((probe) => probe.call.permit === probe.permit);
    if (call.permit !== undefined) this.#probes.push({ call, permit: call.permit });
  }

  /** Claimed calls of a run that do not say anything new before the lane answers; `retries` wait for their turn. */
  claimedOf(owner: ItemOwner, retries: readonly ItemCall[]): number {
    const claimed = new Set(retries);
    for (const call of this.#failing.keys()) if (call.owner === owner) claimed.add(call);
    for (const { call, permit } of this.#probes)
      if (call.owner === owner && call.permit === permit) claimed.add(call);
    return claimed.size;
  }
}

/** The provider has told another process to wait. */
function waitOf(process: string, sinceMs: number): Trouble {
  const message = `the provider asked to wait, by a 429 to ${process}`;
  return { reason: "rate_limited", code: "rate_limited", sinceMs, message, address: "" };
}

function isUnproven({ isProven }: ItemCall): boolean {
  return !isProven;
}

/** Failures of this kind that end an item: chance must not add all of them to an innocent one. */
function budgetOf(result: AttemptResult): number {
  return result.class === "ambiguous" ? RETRY_POLICY.ambiguousMax + 1 : RETRY_POLICY.attemptsMax;
}

/** A provider that gets no key can only say that it needs one. */
function messageOf({ provider: { settings } }: ItemCall, { code, message }: AttemptResult): string {
  if (settings.protocol === "function" || settings.hasOwnCodec === true) return message;
  const isKeyless = settings.key === undefined && Object.keys(settings.headers ?? {}).length === 0;
  return code === "authentication_failed" && isKeyless
    ? `no key is set (${keyVariable(settings.name)}): ${message}`
    : message;
}
