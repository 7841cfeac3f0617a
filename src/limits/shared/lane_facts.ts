/**
 * One lane's side of `shared_facts.ts`: reports what holds the lane back and what it has learnt, and applies what the others say. Pure;
 * `engine/limits/limit_draws.ts` exchanges it, every 500 ms while the lane has something to send, and at once when something is new.
 *
 *   silent --a request--> asking (it waits for the answer, 1 s at most) --answered--> following --2 s without a request--> silent
 *
 * A lane that the others have paused sends nothing, also no probe, while its process hears every half a second that another one probes. When
 * it hears nothing for a minute, it probes.
 */
import type { HiddenStage, HiddenState } from "../hidden/hidden_limit.ts";
import type { FactsAsk, KnownFacts, StatedLimits } from "./shared_facts.ts";

/** The parts of a lane's limits. */
export interface FollowedLane {
  readonly gate: {
    cooldownMs(nowMs: number): number;
    /** Continues the cool-down of another process. */
    restoreCooldown(nowMs: number, waitMs: number): void;
  };
  readonly pause: {
    readonly reason: string | undefined;
    /** Paused, and another process probes. */
    follow(nowMs: number, reason: string): void;
    /** Paused, and a probe is due. */
    restore(nowMs: number, reason: string): void;
    resume(): void;
  };
  readonly quotas: {
    readonly told: StatedLimits | undefined;
    learn(nowMs: number, stated: StatedLimits): void;
  };
  readonly hidden: {
    readonly stage: HiddenStage;
    state(nowMs: number): HiddenState | undefined;
    adopt(nowMs: number, ageMs: number, found: HiddenState): void;
  };
}

/** What an answer changed: the lane is held, may send again, or knows what it waited for. */
export type FactsChange = "held" | "resumed" | "heard" | undefined;

/** How long the first request waits for what others know. */
const FIRST_MS = 1_000;
/** What was heard so recently is known. */
const FRESH_MS = 2_500;
/** So long after its last request a lane still asks: while it runs, and while it is paused, when a minute passes between two tries. */
const ACTIVE_MS = 2_000;
const ACTIVE_PAUSED_MS = 62_000;
/** Cool-downs that differ by less are the same. */
const SAME_MS = 50;
/** Between two reports of a limit that refusals have shown: it is probed all the time. */
const FOUND_EVERY_MS = 10_000;

export class LaneFacts {
  readonly #holder: string;
  readonly #onNews: () => void;
  #lane: FollowedLane | undefined;
  /** When a request last asked, when the one began to wait that waits for the first answer, and when the last answer arrived. */
  #usedMs = Number.NEGATIVE_INFINITY;
  #waitingSinceMs: number | undefined;
  #heardMs = Number.NEGATIVE_INFINITY;
  /** Until when the others know that the lane cools down; monotonic. */
  #cooldownKnownMs = Number.NEGATIVE_INFINITY;
  readonly #pause = new FollowedPause();
  readonly #stated = new Reported();
  readonly #found = new Reported();

  /** `holder`: this lane of this process, unique for its life. `onNews`: exchanges soon. */
  constructor(holder: string, onNews: () => void) {
    this.#holder = holder;
    this.#onNews = onNews;
  }

  /** The parts that it reports and changes; returns itself. */
  follow(
    gate: FollowedLane["gate"],
    pause: FollowedLane["pause"],
    quotas: FollowedLane["quotas"],
    hidden: FollowedLane["hidden"],
  ): this {
    this.#lane = { gate, pause, quotas, hidden };
    return this;
  }

  /** Milliseconds that a request has to wait for what others know, because nothing was heard lately; 0 when the place does not answer in time. */
  waitMs(nowMs: number): number {
    this.#usedMs = nowMs;
    if (nowMs - this.#heardMs < FRESH_MS) return 0;
    this.#onNews();
    this.#waitingSinceMs ??= nowMs;
    return Math.max(0, this.#waitingSinceMs + FIRST_MS - nowMs);
  }

  /** The lane may have been refused, paused or resumed: then the others are to know. `nowMs` absent: it was. */
  changed(nowMs?: number): void {
    const lane = this.#lane;
    if (lane === undefined) return;
    if (nowMs === undefined || this.#pause.isNews(lane.pause.reason) || this.#isCoolNews(nowMs, lane))
      this.#onNews();
  }

  /** What to say now; undefined for nothing. */
  ask(nowMs: number): FactsAsk | undefined {
    const lane = this.#lane;
    if (lane === undefined) return undefined;
    const isCoolNews = this.#isCoolNews(nowMs, lane);
    const stated = this.#stated.news(lane.quotas.told);
    const found = this.#foundNews(nowMs, lane);
    const { reason } = lane.pause;
    this.#pause.isOld ||= reason !== undefined && this.#heardMs === Number.NEGATIVE_INFINITY;
    const isPauseNews = this.#pause.isNews(reason);
    const activeMs = reason === undefined ? ACTIVE_MS : ACTIVE_PAUSED_MS;
    const isActive = nowMs - this.#usedMs < activeMs;
    if (!isActive && !isCoolNews && !isPauseNews && stated === undefined) return undefined;
    return {
      holder: this.#holder,
      cooldownMs: isCoolNews ? lane.gate.cooldownMs(nowMs) : 0,
      ...this.#pause.said(reason),
      ...(stated === undefined ? {} : { stated }),
      ...(found === undefined ? {} : { found }),
    };
  }

  /** Applies the answer to an ask. */
  answered(nowMs: number, ask: FactsAsk, known: KnownFacts): FactsChange {
    const lane = this.#lane;
    if (lane === undefined) return undefined;
    this.#heardMs = nowMs;
    const hasWaited = this.#waitingSinceMs !== undefined;
    this.#waitingSinceMs = undefined;
    this.#cooldownKnownMs = nowMs + known.cooldownMs;
    const isLonger = known.cooldownMs > lane.gate.cooldownMs(nowMs) + SAME_MS;
    if (isLonger) lane.gate.restoreCooldown(nowMs, known.cooldownMs);
    const change = this.#pause.answered(nowMs, lane.pause, known);
    this.#learn(nowMs, lane, ask, known);
    if (change !== undefined) return change;
    return isLonger ? "held" : hasWaited ? "heard" : undefined;
  }

  #isCoolNews(nowMs: number, { gate }: FollowedLane): boolean {
    const cooldownMs = gate.cooldownMs(nowMs);
    return cooldownMs > 0 && nowMs + cooldownMs > this.#cooldownKnownMs + SAME_MS;
  }

  #foundNews(nowMs: number, { hidden }: FollowedLane): HiddenState | undefined {
    if (hidden.stage !== "found" || nowMs < this.#found.reportedMs + FOUND_EVERY_MS) return undefined;
    return this.#found.news(hidden.state(nowMs));
  }

  #learn(nowMs: number, lane: FollowedLane, ask: FactsAsk, { stated, found, foundAgeMs }: KnownFacts): void {
    if (ask.found !== undefined) this.#found.reportedMs = nowMs;
    if (stated !== undefined && this.#stated.hears(stated) && ask.stated === undefined) {
      lane.quotas.learn(nowMs, stated);
      lane.quotas.learn(nowMs, stated); // a limit that is much lower counts when it is repeated (stated_limit.ts)
    }
    if (
      found !== undefined &&
      this.#found.hears(found) &&
      ask.found === undefined &&
      lane.hidden.stage === "none"
    )
      lane.hidden.adopt(nowMs, foundAgeMs, found);
  }
}

/** The pause that all are in, as this lane knows it. */
class FollowedPause {
  /** Undefined while running, and for a pause that was not reported. */
  #number: number | undefined;
  #isProber = false;
  /** Whether it began before anything was heard, as the pause of an earlier process does: the others know more of it. */
  isOld = false;

  /** Whether it began or ended here since the others were told. */
  isNews(reason: string | undefined): boolean {
    return reason === undefined ? this.#number !== undefined : this.#number === undefined && !this.isOld;
  }

  said(reason: string | undefined): Pick<FactsAsk, "pauseReason" | "pauseNumber"> {
    const isUnsaid = this.isOld && this.#number === undefined;
    return { pauseReason: isUnsaid ? undefined : reason, pauseNumber: this.#number };
  }

  answered(nowMs: number, pause: FollowedLane["pause"], known: KnownFacts): FactsChange {
    if (known.pauseReason !== undefined) return this.#on(nowMs, pause, known);
    const isKnown = this.#number !== undefined || (this.isOld && known.pauseNumber > 0);
    this.#number = undefined;
    if (!isKnown) return undefined;
    this.isOld = false;
    if (pause.reason === undefined) return undefined;
    pause.resume();
    return "resumed";
  }

  #on(nowMs: number, pause: FollowedLane["pause"], known: KnownFacts): FactsChange {
    const { pauseNumber, pauseReason = "", isProber } = known;
    if (pause.reason === undefined && this.#number === pauseNumber) return undefined; // its probe has just succeeded
    const isNew = pause.reason === undefined || this.#number !== pauseNumber;
    const hasBegun = pause.reason === undefined;
    this.isOld = false;
    this.#number = pauseNumber;
    if (!isProber) pause.follow(nowMs, pauseReason);
    else if (hasBegun || (!isNew && !this.#isProber)) pause.restore(nowMs, pauseReason); // the others' probe was lost
    const isTurn = isProber && !isNew && !this.#isProber;
    this.#isProber = isProber;
    if (hasBegun) return "held";
    return isTurn ? "heard" : undefined;
  }
}

/** Whether a value differs from what was reported or heard last. */
class Reported {
  reportedMs = Number.NEGATIVE_INFINITY;
  #known: string | undefined;

  /** The value, if it is to be reported. */
  news<T>(value: T | undefined): T | undefined {
    return value !== undefined && JSON.stringify(value) !== this.#known ? value : undefined;
  }

  /** All know `value` by now; true if it was new here. */
  hears(value: object): boolean {
    const text = JSON.stringify(value);
    const isNew = text !== this.#known;
    this.#known = text;
    return isNew;
  }
}
