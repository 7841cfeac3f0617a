/**
 * A limit on requests in flight that several processes share: at most `limit` for all of them together. Its state is kept where all reach it (a row
 * of a database), changed by one process at a time, on the clock of that place. Pure; `drawn_places.ts` is the side of a process.
 *
 *   free -> granted to a holder, and charged -> the holder reports that it keeps fewer -> free
 *                                            -> no report any more: charged until its requests must have ended
 *                                            -> no report for 2 s, and its session is found ended: free 3 s later
 *
 * Why there are never more: a holder starts a request only within the places of its last answer, and only during 90 % of their life by its own
 * monotonic clock, from before it asked. A grant shrinks in two steps: the answer says fewer, and the charge follows when the next report shows that
 * the holder has read it. So at any moment what a holder has in flight, or may start, is charged, and the charges never pass the limit.
 *
 * A silent holder may be dead, stopped or cut off. It starts nothing after the life of its last answer, and each of its requests ends `lastsMs` later at
 * the latest, by its time-out: until then its places stay charged. The rest of a tenth is for clocks of other speeds. That is 10 minutes by default. It is too long
 * for a killed process whose work another one continues within 10 s, so the pool may know more: the operating system closes all connections of a process that
 * ends, those to the provider and its session with the database. A process that only lost its session asks again within 3 s, or cannot reach the
 * database. While it cannot, it starts nothing, but its requests may last: this is the one case in which there may be more than the limit.
 *
 * Sharing: as that of units (shared_window.ts), by precedence and weights. Shares are seldom whole places: each 5 s it is decided anew who has the next
 * higher number, in an even succession. So with fewer places than processes each has its turn, and one of twice the weight has two.
 */
import { EQUAL, type Precedence } from "./shared_work.ts";
import { EVEN_STEP, sharesOf } from "./shares.ts";

/** What one process reports and asks for. */
export interface PlacesAsk {
  /** The process, unique for its life. */
  readonly holder: string;
  /** From 1, one more for each ask that was answered; an ask that is repeated, because its answer was lost, has the same. */
  readonly sequence: number;
  /** Places that it keeps until the answer: at least its requests in flight. */
  readonly held: number;
  /** Places that it could use until its next ask, with those that it has. */
  readonly wanted: number;
  /** As far as it knows; the lowest of those that ask is in force. */
  readonly limit: number;
  /** Milliseconds that one of its requests may last. */
  readonly lastsMs: number;
}

export interface PlacesGrant {
  /** Requests that it may have in flight. Where more are, it starts none. */
  readonly places: number;
  /** It may start requests for so many milliseconds after the ask reached this place. */
  readonly lifeMs: number;
  /** Places charged now to all processes, and the limit in force for all. */
  readonly charged: number;
  readonly limit: number;
}

/** What the pool knows of processes by their sessions. */
export interface PlacesSessions {
  /** The session through which the ask came. */
  readonly session: string;
  /** Those of silent holders that have ended. */
  readonly ended: ReadonlySet<string>;
}

interface Holder {
  /** Sequence and answer of the last ask, for its repetition. */
  sequence: number;
  grant: PlacesGrant;
  /** Places charged. */
  units: number;
  wanted: number;
  limit: number;
  lastsMs: number;
  askedMs: number;
  /** When it last asked, or repeated an ask. */
  seenMs: number;
  /** When its session was found ended, since then. */
  endedMs?: number | undefined;
  session?: string | undefined;
}

/** The state as it is kept: plain values. */
export interface SharedPlacesState {
  readonly newestMs: number;
  readonly holders: readonly (readonly [name: string, holder: Holder])[];
}

const LIFE_MS = 2_000;
const DRAW_MS = 500;
/** For how many draws an ask counts in the sharing. */
const ASKS_KEPT = 3;
/** Clocks of processes may be slower than that of this place by a tenth. */
const CLOCK_FACTOR = 1.1;
/** Without an ask for so long, a holder may have lost its session. */
const SILENT_MS = 2_000;
/** It asks again within this time after its session has ended, if it lives: a draw that hangs until then says nothing of it. */
const GONE_MS = 3_000;
const ROUND_MS = 5_000;

export class SharedPlaces {
  readonly #holders: Map<string, Holder>;
  #newestMs: number;

  constructor(state?: SharedPlacesState) {
    this.#holders = new Map(state?.holders.map(([name, holder]) => [name, { ...holder }]));
    this.#newestMs = state?.newestMs ?? Number.NEGATIVE_INFINITY;
  }

  /** Sessions of holders that have not asked for so long that it matters whether they have ended. */
  silent(clockMs: number): readonly string[] {
    return [...this.#holders.values()].flatMap(({ seenMs, units, session }) =>
      session !== undefined && units > 0 && seenMs + SILENT_MS <= clockMs ? [session] : [],
    );
  }

  /**
   * Books an ask and grants places. `clockMs`: the clock of this place; when it goes back, time stands still. A repeated ask gets the same answer.
   * `precedenceOf`: how each process ranks among those that ask; absent: all are equal.
   */
  draw(
    clockMs: number,
    ask: PlacesAsk,
    sessions?: PlacesSessions,
    precedenceOf: (holder: string) => Precedence = () => EQUAL,
  ): PlacesGrant {
    const nowMs = Math.max(clockMs, this.#newestMs);
    this.#newestMs = nowMs;
    const before = this.#holders.get(ask.holder);
    if (before !== undefined) {
      before.seenMs = nowMs;
      before.session = sessions?.session;
      before.endedMs = undefined;
    }
    this.#expire(nowMs, sessions?.ended);
    if (before !== undefined && before.sequence === ask.sequence) return before.grant;
    const holder: Holder = {
      sequence: ask.sequence,
      grant: { places: 0, lifeMs: LIFE_MS, charged: 0, limit: 0 },
      units: ask.held,
      wanted: ask.wanted,
      limit: Math.max(1, Math.floor(ask.limit)),
      lastsMs: ask.lastsMs,
      askedMs: nowMs,
      seenMs: nowMs,
      session: sessions?.session,
    };
    this.#holders.set(ask.holder, holder);
    const limit = this.#limit(nowMs);
    const free = limit - this.#charged() + ask.held;
    const places = Math.max(0, Math.min(this.#share(nowMs, ask.holder, limit, precedenceOf), free));
    holder.units = Math.max(ask.held, places);
    holder.grant = { ...holder.grant, places, charged: this.#charged(), limit };
    return holder.grant;
  }

  /** Places charged now to all processes, and the limit in force; undefined where nobody has asked in the last 1.5 s. */
  inForce(clockMs: number): { readonly charged: number; readonly limit: number | undefined } {
    const nowMs = Math.max(clockMs, this.#newestMs);
    this.#expire(nowMs, undefined);
    const limit = this.#limit(nowMs);
    return { charged: this.#charged(), limit: limit === Number.POSITIVE_INFINITY ? undefined : limit };
  }

  /** The state that the next `SharedPlaces` continues from. */
  toState(): SharedPlacesState {
    return { newestMs: this.#newestMs, holders: [...this.#holders] };
  }

  #expire(nowMs: number, ended: ReadonlySet<string> | undefined): void {
    for (const [name, holder] of this.#holders) {
      const { units, askedMs, seenMs, lastsMs, session } = holder;
      const isEnded = session !== undefined && ended?.has(session) === true;
      if (isEnded && seenMs + SILENT_MS <= nowMs) holder.endedMs ??= nowMs;
      const hasEnded = holder.endedMs !== undefined && holder.endedMs + GONE_MS <= nowMs;
      const isOver = askedMs + LIFE_MS + lastsMs * CLOCK_FACTOR <= nowMs;
      if (hasEnded || isOver || (units === 0 && !isAsking(holder, nowMs))) this.#holders.delete(name);
    }
  }

  /** Whole places of one of those that ask; the others keep what they are charged. */
  #share(nowMs: number, name: string, limit: number, precedenceOf: (holder: string) => Precedence): number {
    let rest = limit;
    const asking = [];
    for (const [other, holder] of this.#holders) {
      if (isAsking(holder, nowMs) && holder.wanted > 0)
        asking.push({ name: other, wanted: holder.wanted, precedence: precedenceOf(other) });
      else if (other !== name) rest -= holder.units;
    }
    asking.sort((left, right) => (left.name < right.name ? -1 : 1));
    const shares = sharesOf(Math.max(0, rest), asking);
    const at = asking.findIndex((each) => each.name === name);
    return wholeAt(at, shares, (Math.floor(nowMs / ROUND_MS) * EVEN_STEP) % 1);
  }

  #limit(nowMs: number): number {
    let limit = Number.POSITIVE_INFINITY;
    for (const holder of this.#holders.values())
      if (isAsking(holder, nowMs)) limit = Math.min(limit, holder.limit);
    return limit;
  }

  #charged(): number {
    let units = 0;
    for (const holder of this.#holders.values()) units += holder.units;
    return units;
  }
}

/** The share at an index in whole places, so that those of all together are the sum of the shares. `offset`, in [0, 1), decides who has the next higher number. */
function wholeAt(at: number, shares: readonly number[], offset: number): number {
  const share = shares[at] ?? 0;
  const before = shares.slice(0, Math.max(0, at)).reduce((sum, each) => sum + each, 0);
  const step = (sum: number): number => Math.floor(sum + 1e-9 - offset); // sums of thirds are not exact
  return step(before + share) - step(before);
}

function isAsking({ askedMs }: Holder, nowMs: number): boolean {
  return nowMs - askedMs <= ASKS_KEPT * DRAW_MS;
}
