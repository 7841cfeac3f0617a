/**
 * How long answers take, learnt by model and output limit, and what that says of an attempt: whether an answer can still
 * arrive in time, and whether an attempt under way hangs.
 *
 *   too late   less is left than the quickest tenth of answers take, by at least 20 ends, 10 of which took that long;
 *              the last was at most 5 minutes ago
 *   hangs      at least 50 ends; it has taken twice the 99th percentile (at least 5 s); 8 that were sent after it have
 *              been answered; and a fresh attempt is likelier to be answered in what is left than this one, by a tenth
 *
 *   tried      at least 20 ends; it has taken ten times the 99th percentile (at least a minute), and nothing has ended since it was
 *              sent: one is given up, so that there is a place in which to see whether the provider answers again
 *
 * An end is an answer, or an attempt that was not answered in all the time that it had: an answer takes at least that long.
 * An attempt that was given up before says nothing. So nothing is given up without evidence: where a provider hangs, or
 * becomes slow for all, nothing that was sent later is answered, and all but one or a few attempts go on for as long as they may.
 *
 * That this one is answered yet is reckoned from attempts that took as long: (answered in time + 1) / (all + 2). Answers that
 * are new, or fewer than 1 %, take longer than that says: what is given up and paid for in vain is bounded by give_ups.ts.
 *
 * What an earlier process learnt counts as 200 answers at most, and is old. An answer in less than half the time of its quickest
 * tenth says that the provider has become quicker: then it is forgotten. Where answers are a little quicker, new ones outweigh it:
 * 22 of them are a tenth.
 *
 * Evidence grows old: when nothing has ended for 5 minutes, one request in 5 minutes is sent, however late, or nothing new would
 * ever be learnt.
 *
 * Limits: two histograms (6.4 KB) for each model and class of output limits (none, 64, 256, ... 65,536, more); the 1,000
 * models last added are kept. Hot path: 0.3 us an answer.
 */
import { GiveUps } from "./give_ups.ts";
import { Histogram, type KeptHistogram, quantileOfOpen } from "./histogram.ts";

const MODELS_MAX = 1_000;
/** Output limits of one class differ by up to four times. */
const CLASS_FIRST_TOKENS = 64;
const CLASSES_MAX = 7;

const LATE_ENDS_MIN = 20;
const LATE_KNOWN_MIN = 10;
const IN_TIME_SHARE = 0.1;
/** The quickest tenth is looked up again when so much time has passed, and something has ended. */
const LOOKED_UP_MS = 100;
const FRESH_MS = 300_000;

const RESTORED_MAX = 200;
const QUICKER = 1 / 2;

const HANG_ENDS_MIN = 50;
const HANG_MS_MIN = 5_000;
const HANG_QUANTILE = 0.99;
const HANG_TIMES = 2;
/** So far beyond the 99th percentile, no answer of a heavy tail is left. */
const CERTAIN_HANG_TIMES = 10;
const HANG_MARGIN = 0.1;
const TRY_ENDS_MIN = 20;
const QUANTILE_ENDS_MIN = 20;
const TRY_MS_MIN = 60_000;
const OVERTAKERS_MIN = 8;
/** An attempt about which nothing is known yet is checked again after this long, later after half of its time. */
const LOOK_MS = 10_000;
const LOOK_MS_SOON = 1_000;
/** A timer fires early by a rounding of its milliseconds; a wait for that rest would count as no wait. */
const LOOK_MS_MIN = 1;

/** Attempts that are alike. */
export interface LatencyKey {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** Of the request; 0 without one. */
  readonly maxOutputTokens: number;
}

/** An attempt under way; times are monotonic. */
export interface AttemptUnderWay {
  readonly sentMs: number;
  readonly nowMs: number;
  /** What it still may take. */
  readonly leftMs: number;
  /** What another one that is sent now might take. */
  readonly freshMs: number;
}

/** What is kept of attempts of one class of output limits: of those that were answered, and of the others. */
export type KeptLatencies = readonly [kind: number, answered: KeptHistogram, unanswered: KeptHistogram];

interface Learnt {
  /** Of an earlier process, and not forgotten yet. */
  isRestored: boolean;
  answered: Histogram;
  /** What attempts took at least that were never answered. */
  unanswered: Histogram;
  /** When the attempts were sent that were answered and sent last, earliest first. */
  readonly lastSentMs: number[];
  /** How many attempts may be given up. */
  readonly giveUps: GiveUps;
  endedMs: number;
  /** What the quickest tenth of answers take at most, as it was looked up last. */
  quickestTenthMs: number;
  lookedUpMs: number;
  /** What may go however late, since the evidence is old; until something ends, or it is old itself. */
  trial: { readonly key: LatencyKey; readonly sinceMs: number } | undefined;
}

/** One for an engine. */
export class Latencies {
  readonly #models = new Map<string, (Learnt | undefined)[]>();
  /** Models that have changed since the last call of `changes`. */
  readonly #changed = new Set<string>();

  /** An attempt that was sent at `sentMs` was answered now. */
  answered(key: LatencyKey, sentMs: number, nowMs: number): void {
    const learnt = this.#learntOf(key);
    forgetIfQuicker(learnt, nowMs - sentMs);
    learnt.answered.observe(nowMs - sentMs);
    learnt.giveUps.answered(key, nowMs - sentMs);
    learnt.endedMs = nowMs;
    learnt.trial = undefined;
    const last = learnt.lastSentMs;
    if (last.length === OVERTAKERS_MIN) {
      if (sentMs <= (last[0] as number)) return;
      last.shift();
    }
    let at = last.length;
    while (at > 0 && (last[at - 1] as number) > sentMs) at -= 1;
    last.splice(at, 0, sentMs);
  }

  /** An attempt that was sent at `sentMs` had all the time that it may take, and is not answered now. */
  unanswered(key: LatencyKey, sentMs: number, nowMs: number): void {
    const learnt = this.#learntOf(key);
    learnt.unanswered.observe(nowMs - sentMs);
    learnt.endedMs = nowMs;
    learnt.trial = undefined;
  }

  /**
   * Whether an answer to a request that is sent now would arrive after `leftMs` with more than 90 % probability. A `key` that
   * is let go on old evidence is so again, by its identity, for as long as that is old.
   */
  isTooLate(key: LatencyKey, leftMs: number, nowMs: number): boolean {
    const learnt = this.#find(key);
    if (learnt === undefined || leftMs === Number.POSITIVE_INFINITY) return false;
    if (leftMs >= quickestTenthMs(learnt, nowMs)) return false;
    if (nowMs - learnt.endedMs <= FRESH_MS) return true;
    const { trial } = learnt;
    if (trial !== undefined && nowMs - trial.sinceMs <= FRESH_MS) return trial.key !== key;
    learnt.trial = { key, sinceMs: nowMs };
    return false;
  }

  /** What is known of each model that has changed since the last call. */
  *changes(): Generator<readonly [string, readonly KeptLatencies[]]> {
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const model of changed) {
      const classes = this.#models.get(model) ?? [];
      yield [
        model,
        [...classes.entries()].flatMap(([kind, learnt]) =>
          learnt === undefined ? [] : [[kind, learnt.answered.kept(), learnt.unanswered.kept()] as const],
        ),
      ];
    }
  }

  /** Begins with what an earlier process knew of a model. What cannot be is left out. */
  restore(model: string, kept: readonly KeptLatencies[]): void {
    for (const [kind, answered, unanswered] of kept) {
      if (kind < 0 || kind > CLASSES_MAX + 1) continue;
      const learnt = this.#learntIn(model, kind);
      learnt.isRestored = true;
      const total = [...answered, ...unanswered].reduce((sum, [, count]) => sum + count, 0);
      const answeredShare = answered.reduce((sum, [, count]) => sum + count, 0) / total;
      learnt.answered.restore(answered, RESTORED_MAX * answeredShare);
      learnt.unanswered.restore(unanswered, RESTORED_MAX * (1 - answeredShare));
    }
  }

  /**
   * Milliseconds after which to check an attempt again, at least 1 unless less is left; 0 if it should be given up for a new
   * one. A `key` of which an attempt is given up is known again, by its identity, when its next attempt is answered.
   */
  patienceMs(key: LatencyKey, attempt: AttemptUnderWay): number {
    const { sentMs, nowMs, leftMs } = attempt;
    const elapsedMs = nowMs - sentMs;
    const learnt = this.#find(key);
    const lookMs = Math.min(leftMs, Math.max(LOOK_MS, elapsedMs / 2));
    if (learnt === undefined) return lookMs;
    const tryMs = tryMsOf(learnt, sentMs);
    if (elapsedMs >= tryMs && isFreshLikelier(learnt, attempt) && learnt.giveUps.take(key, elapsedMs, leftMs))
      return 0;
    const later = elapsedMs < tryMs ? Math.min(lookMs, Math.max(LOOK_MS_MIN, tryMs - elapsedMs)) : lookMs;
    const hangMs = hangMsOf(learnt);
    if (hangMs === undefined) return later;
    if (hangMs - elapsedMs >= LOOK_MS_MIN) return Math.min(leftMs, hangMs - elapsedMs);
    const { lastSentMs } = learnt;
    const isOvertaken = lastSentMs.length === OVERTAKERS_MIN && (lastSentMs[0] as number) > sentMs;
    if (!isOvertaken || !isFreshLikelier(learnt, attempt)) return later;
    if (learnt.giveUps.take(key, elapsedMs, leftMs)) return 0;
    return Math.min(leftMs, LOOK_MS, Math.max(LOOK_MS_SOON, leftMs / 2)); // others may prove at any time that they hang
  }

  /** Whether an attempt that has taken so long takes far longer than answers do. */
  isHanging(key: LatencyKey, elapsedMs: number): boolean {
    return elapsedMs >= (hangMsOf(this.#find(key)) ?? Number.POSITIVE_INFINITY);
  }

  /** What this share of answers take at most, open ends included, in milliseconds; undefined while too few are known. */
  quantileMs(key: LatencyKey, share: number): number | undefined {
    const learnt = this.#find(key);
    if (learnt === undefined) return undefined;
    const { answered, unanswered } = learnt;
    if (answered.observations + unanswered.observations < QUANTILE_ENDS_MIN) return undefined;
    return quantileOfOpen(answered, unanswered, share, 0);
  }

  /**
   * The time after which an attempt certainly hangs: ten times the 99th percentile of the answers of this process. Infinity
   * before 50 ends.
   */
  certainHangMs(key: LatencyKey): number {
    const learnt = this.#find(key);
    if (learnt === undefined || learnt.isRestored || learnt.answered.observations < HANG_ENDS_MIN)
      return Number.POSITIVE_INFINITY;
    return certainMsOf(learnt);
  }

  #find({ model, maxOutputTokens }: LatencyKey): Learnt | undefined {
    return this.#models.get(model)?.[classOf(maxOutputTokens)];
  }

  #learntOf({ model, maxOutputTokens }: LatencyKey): Learnt {
    this.#changed.add(model);
    return this.#learntIn(model, classOf(maxOutputTokens));
  }

  #learntIn(model: string, index: number): Learnt {
    let classes = this.#models.get(model);
    if (classes === undefined) {
      if (this.#models.size >= MODELS_MAX) {
        const oldest = this.#models.keys().next();
        if (oldest.done !== true) this.#models.delete(oldest.value);
        if (oldest.done !== true) this.#changed.delete(oldest.value);
      }
      classes = [];
      this.#models.set(model, classes);
    }
    let learnt = classes[index];
    if (learnt === undefined) {
      learnt = {
        isRestored: false,
        answered: new Histogram(),
        unanswered: new Histogram(),
        lastSentMs: [],
        giveUps: new GiveUps(),
        endedMs: Number.NEGATIVE_INFINITY,
        quickestTenthMs: 0,
        lookedUpMs: Number.NEGATIVE_INFINITY,
        trial: undefined,
      };
      classes[index] = learnt;
    }
    return learnt;
  }
}

/** An answer that took `ms` may say that what an earlier process learnt is so no more. */
function forgetIfQuicker(learnt: Learnt, ms: number): void {
  if (
    !learnt.isRestored ||
    ms >= QUICKER * quantileOfOpen(learnt.answered, learnt.unanswered, IN_TIME_SHARE, LATE_KNOWN_MIN)
  )
    return;
  learnt.isRestored = false;
  learnt.answered = new Histogram();
  learnt.unanswered = new Histogram();
}

/** 0 while too little is known. */
function quickestTenthMs(learnt: Learnt, nowMs: number): number {
  const { answered, unanswered, endedMs, lookedUpMs } = learnt;
  if (endedMs >= lookedUpMs && nowMs - lookedUpMs >= LOOKED_UP_MS) {
    const isKnown = answered.observations + unanswered.observations >= LATE_ENDS_MIN;
    learnt.lookedUpMs = nowMs;
    learnt.quickestTenthMs = isKnown
      ? quantileOfOpen(answered, unanswered, IN_TIME_SHARE, LATE_KNOWN_MIN)
      : 0;
  }
  return learnt.quickestTenthMs;
}

/** From when on an attempt may hang; undefined while too little is known. */
function hangMsOf(learnt: Learnt | undefined): number | undefined {
  if (learnt === undefined || learnt.answered.observations < HANG_ENDS_MIN) return undefined;
  return Math.max(HANG_MS_MIN, HANG_TIMES * learnt.answered.quantile(HANG_QUANTILE));
}

function certainMsOf({ answered }: Learnt): number {
  return CERTAIN_HANG_TIMES * answered.quantile(HANG_QUANTILE);
}

/** From when on one attempt may be given up as a try; Infinity while anything has ended since it was sent, or too little is known. */
function tryMsOf(learnt: Learnt, sentMs: number): number {
  if (learnt.endedMs > sentMs || learnt.answered.observations < TRY_ENDS_MIN) return Number.POSITIVE_INFINITY;
  return Math.max(TRY_MS_MIN, certainMsOf(learnt));
}

function isFreshLikelier(
  { answered, unanswered }: Learnt,
  { sentMs, nowMs, leftMs, freshMs }: AttemptUnderWay,
): boolean {
  const elapsedMs = nowMs - sentMs;
  const slowerAnswers = answered.above(elapsedMs);
  const slower = slowerAnswers + unanswered.above(elapsedMs);
  const inTime = slowerAnswers - answered.above(elapsedMs + leftMs);
  const fresh = 1 - (answered.above(freshMs) + unanswered.total) / (answered.total + unanswered.total);
  return fresh > (inTime + 1) / (slower + 2) + HANG_MARGIN;
}

/** 0 for no limit, else 1 to 7. */
function classOf(maxOutputTokens: number): number {
  if (maxOutputTokens <= 0) return 0;
  const quarters = Math.ceil(Math.log2(maxOutputTokens / CLASS_FIRST_TOKENS) / 2);
  return Math.min(CLASSES_MAX, Math.max(0, quarters) + 1);
}
