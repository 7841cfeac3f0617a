/**
 * Distinguishes 429s that occur by chance, at any load, from those of a limit. At half the load a limit refuses nothing, but chance
 * refuses the same share.
 *
 *   watch --more refusals than `share` explains--> full
 *   full  --after 8 requests it waits until one was accepted--> full
 *         --fewer than 3 refusals of 100 requests--> watch
 *         --3 of 40 requests or more--> half
 *         --a row of refusals, or too many for half the load to tell--> watch, and they count: a limit is used up
 *   half  --refused like at full load--> watch, with this share
 *         --hardly refused any more--> watch; after the second time in a row the next refusal counts
 *         --a row of refusals--> watch, and they count
 *
 * Once a limit is found, the lane regularly tries to exceed it, and a limit that is used up refuses a row of requests:
 *
 *   watch --a row, or more refusals than `share` explains--> watch, and they count: the limit is lower than believed
 *   watch --more than `share` explains, without a row, within 100 requests after that--> half
 *
 * 2 in a row are a row where chance refuses nothing, 4 where it refuses 10 % (a row of probability e^-7). One less is enough if the
 * request tries more than was ever accepted. Up to some 2 % of other refusals cost only their retries.
 *
 * More than `share` explains: over the last requests, from some refusal on, the sum of
 * log(q / p) for a refused request and log((1 - q) / (1 - p)) for an accepted one reaches 3.5, with p = share, at least 2 %, and q = 2
 * p + 0.1 (Page 1954, as a scan); once a limit is found, at least 1 % and q = 2 p + 0.02.
 *
 * Half against full (half_load.ts): a sum of 3.5 or more shows chance, -6 or less a limit.
 * A lane sends nothing while it has no work or obeys a stated wait, so at most 5 s between two requests count as load.
 *
 * Where answers take long, half the load shows nothing until requests from before are answered, so it is not tried. A 429 arrives at
 * once and frees its place, so a limit that is used up refuses a row of requests; chance does not. 5 in a row are a limit where 5 % are
 * refused, 9 where 25 % are (a row of probability e^-9, if 10 % more than the moving share are refused).
 *
 * A moving share above 75 % always counts as a limit: where hundreds of refusals a second overtake each other, rows are not visible.
 *
 * Requests are known by their numbers (request_sample.ts).
 */
import { HalfLoad } from "./half_load.ts";
import { RequestSample, type Sample } from "./request_sample.ts";

const SHARE_MIN = 0.02;
const EVIDENCE = 3.5;
/** Above it, a limit and chance refuse nearly the same at half the load. */
const SHARE_MAX = 0.75;
const FULL_REFUSALS = 3;
const FULL_REQUESTS_MIN = 40;
const FULL_REQUESTS_MAX = 100;
/** The longest time between two requests that counts as load. */
const GAP_MS_MAX = 5_000;
const HALF_REFUSALS = 3;
const HALF_REQUESTS_MIN = 10;
/** Sum of evidence (half_load.ts) at which half the load shows a limit. */
const LIMIT_EVIDENCE = -6;
/** This many trials in a row that show a limit are believed. */
const LIMITS = 2;
/** Refused requests in a row that show that a limit is used up: at the start of a trial, and later. */
const ROW_FIRST = 8;
const ROW = 14;
/** Assumed before anything is known. */
const SHARE_START = 0.15;
/** What chance may explain while no limit is known, and once one was found. */
const FREE: Bounds = { shareMin: SHARE_MIN, more: 0.1, rowChance: -9, rowMore: 0.1 };
const FOUND: Bounds = { shareMin: 0.01, more: 0.02, rowChance: -7, rowMore: 0.02 };
/** After refusals that counted: more refusals within this many requests, at a lower rate, are not caused by the limit. */
const AGAIN_REQUESTS = 100;
const WEIGHT = 1 / 128;

/** The lane at a refusal: whether no limit was found yet, and its requests in flight including the refused one. */
export interface Situation {
  readonly isFree: boolean;
  readonly inFlight: number;
  /** Whether answers take so long that two loads cannot be compared in time. */
  readonly isLate: boolean;
  /** Milliseconds from one request to the next at the rate that was found; 0 without one. */
  readonly everyMs: number;
  /** Whether the request tries more than was ever accepted. */
  readonly isExpected: boolean;
}

interface Bounds {
  /** The least share to expect, and the excess that shows another cause. */
  readonly shareMin: number;
  readonly more: number;
  /** Logarithm of the probability of a row by chance, if `rowMore` more are refused than seen; a limit explains less likely rows. */
  readonly rowChance: number;
  readonly rowMore: number;
}

/** One per lane. Times are monotonic. */
export class ChanceRefusals {
  #state: "watch" | "full" | "half" = "watch";
  /** Share refused by chance, 0 to 1; 0 if nothing is. */
  #share = 0;
  /** The moving share of all refusals. */
  #mean = SHARE_START;
  readonly #sample = new RequestSample();
  /** When the last request was sent, and the time under load since the present sample began. */
  #sentMs = 0;
  #loadMs = 0;
  readonly #half = new HalfLoad();
  /** How often in a row half the load showed a limit. */
  #limits = 0;
  /** The newest request when refusals last counted against a limit that had been found. */
  #alarmAt = Number.NEGATIVE_INFINITY;

  /** Milliseconds until one more request may be sent, in a trial; Infinity if only an answer can allow it. */
  waitMs(nowMs: number, inFlight: number): number {
    if (this.#state === "full") return inFlight > 0 && this.#isWaiting ? Number.POSITIVE_INFINITY : 0;
    return this.#state === "half" ? this.#half.waitMs(nowMs, inFlight) : 0;
  }

  /** A request is sent; returns its number. */
  sent(nowMs: number): number {
    this.#loadMs = this.#loadMsAt(nowMs);
    this.#sentMs = nowMs;
    if (this.#state === "half") this.#half.sent(nowMs);
    return this.#sample.add();
  }

  /** A request was accepted. */
  accepted(index: number): void {
    this.#know(index);
    if (this.#state === "full" && this.#sample.known.all >= FULL_REQUESTS_MAX) this.#begin(0, "watch");
    else if (this.#state === "half" && this.#half.evidence(this.#sample.known) <= LIMIT_EVIDENCE) {
      this.#limits += 1;
      this.#alarmAt = Number.NEGATIVE_INFINITY;
      this.#begin(0, "watch");
    }
  }

  /** Whether chance may explain a refusal. If not, a search for a limit begins. */
  explains(nowMs: number, index: number, lane: Situation): boolean {
    const { isFree, inFlight, isLate } = lane;
    this.#know(index);
    this.#mean += (1 - this.#mean) * WEIGHT;
    if (this.#mean > SHARE_MAX) return this.#found(nowMs);
    if (isLate && this.#state !== "watch") this.#begin(nowMs, "watch");
    if (!this.#sample.has(index)) return true;
    this.#sample.refuse(index);
    if (isLate && isFree) return this.row < rowMin(FREE, this.#mean);
    if (this.#state === "full") return this.#triedFull(nowMs, inFlight);
    if (this.#state === "half") return this.#triedHalf();
    if (!isFree) return this.#explainsFound(nowMs, lane);
    if (this.#limits < LIMITS && !this.#isAlarming(FREE)) return true;
    if (this.#limits >= LIMITS) return this.#found(nowMs);
    this.#begin(nowMs, "full");
    return true;
  }

  /** The same once a limit was found. If refusals counted a short time ago, that limit was lowered. */
  #explainsFound(nowMs: number, { inFlight, isLate, everyMs, isExpected }: Situation): boolean {
    const isRow = this.row >= rowMin(FOUND, this.#share) - (isExpected ? 1 : 0);
    if (!isRow && !this.#isAlarming(FOUND)) return true;
    if (isRow || this.#sample.newest - this.#alarmAt > AGAIN_REQUESTS) return this.#foundAgain(nowMs);
    if (isLate) this.#learn(this.#sample.known);
    else this.#tryHalf(nowMs, inFlight, everyMs);
    return true;
  }

  #foundAgain(nowMs: number): false {
    this.#alarmAt = this.#sample.newest;
    this.#begin(nowMs, "watch");
    return false;
  }

  #know(index: number): void {
    const more = this.#sample.know(index);
    if (more === 0) return;
    this.#mean *= (1 - WEIGHT) ** more;
    if (this.#share > 0) this.#share = Math.min(this.#share, 1.5 * this.#mean + 0.01);
    if (this.#share < SHARE_MIN) this.#share = 0;
  }

  /** Whether one of a trial's first requests must be accepted before more are sent: a limit that is used up refuses all. */
  get #isWaiting(): boolean {
    return this.#sample.count >= ROW_FIRST && this.#sample.isRefused;
  }

  /** Whether there are more refusals than the share explains, counted from some refusal on. */
  #isAlarming({ shareMin, more }: Bounds): boolean {
    const share = Math.max(shareMin, this.#share);
    return this.#sample.reaches(EVIDENCE, share, Math.min(0.95, 2 * share + more));
  }

  /** Length of the row of refusals that ends with the last request whose end is known. */
  get row(): number {
    return this.#sample.row;
  }

  /** Whether the last requests were all refused. */
  get #isRow(): boolean {
    const isFirst = this.#share === 0 && this.#sample.isRefused;
    const least = this.#share === 0 ? ROW : Math.max(ROW, rowMin(FREE, this.#share));
    return this.row >= (isFirst ? ROW_FIRST : least);
  }

  #loadMsAt(nowMs: number): number {
    return this.#loadMs + Math.min(GAP_MS_MAX, nowMs - this.#sentMs);
  }

  #triedFull(nowMs: number, inFlight: number): boolean {
    const sample = this.#sample.known;
    const share = sample.refused / sample.all;
    const isOver = sample.refused >= FULL_REFUSALS && sample.all >= FULL_REQUESTS_MIN;
    if (this.#isRow || (isOver && share > SHARE_MAX)) return this.#found(nowMs);
    if (!isOver) return true;
    this.#tryHalf(nowMs, inFlight, Math.max(1, this.#loadMsAt(nowMs)) / (sample.all - sample.refused));
    return true;
  }

  /** `everyMs`: mean time between accepted requests so far. */
  #tryHalf(nowMs: number, inFlight: number, everyMs: number): void {
    this.#half.begin(nowMs, this.#sample.known, inFlight, everyMs);
    this.#begin(nowMs, "half");
  }

  #triedHalf(): boolean {
    const sample = this.#sample.known;
    if (this.#isRow) return this.#found(0);
    const isFew = sample.refused < HALF_REFUSALS || sample.all < HALF_REQUESTS_MIN;
    if (isFew || this.#half.evidence(sample) < EVIDENCE) return true;
    const { refused, all } = this.#half.full;
    this.#learn({ refused: refused + sample.refused, all: all + sample.all });
    return true;
  }

  #learn({ refused, all }: Sample): void {
    this.#share = this.#mean = Math.min(SHARE_MAX, Math.max(SHARE_MIN, (refused + 1) / all));
    this.#limits = 0;
    this.#begin(0, "watch");
  }

  #found(nowMs: number): false {
    this.#share = 0;
    this.#limits = 0;
    this.#begin(nowMs, "watch");
    return false;
  }

  #begin(nowMs: number, state: "watch" | "full" | "half"): void {
    this.#state = state;
    this.#sentMs = nowMs;
    this.#loadMs = 0;
    this.#sample.begin();
  }
}

/** The shortest row of refusals that chance does not explain where it refuses `share`. */
function rowMin({ rowChance, rowMore }: Bounds, share: number): number {
  return Math.ceil(rowChance / Math.log(Math.min(0.8, share + rowMore)));
}
