/**
 * One quota that several processes draw from: at most `limit` units in any 60 seconds for all of them together. Its state is kept where all reach
 * it (a row of a database), changed by one process at a time, on the clock of that place. Pure; `drawn_units.ts` is the side of a process.
 *
 *   block: granted -> open, its units spent by its holder -> what was spent is charged in the slot of the report
 *                                                         -> what was not is returned, or granted longer
 *                  -> expired (no draw in time): charged whole, in the slot of its end --its holder draws again--> open
 *                                                                                      --a window later--> forgotten, with its holder
 *
 * Why no window holds more: a unit is charged from its grant on. It is spent before the report that names it, or before the end of its
 * block, and stays charged for a window from then on. So at any moment all units spent in the window that ends there are charged, and
 * the charge never passes the limit. Of a holder that is dead or stopped, the whole block counts as spent at its end: it spends
 * only during 90 % of a block's life, by its own monotonic clock, from before it asked.
 *
 * Slots of 250 ms: a charge ends when its whole slot is older than the window and a guard of 250 ms (as in bucket.ts), so at most 0.9 %
 * of the limit is lost to them. Grants are paced by GCRA at the limit's rate, with one second of it as burst.
 *
 * Rhythm: a draw locks the state for some milliseconds, so all processes together draw at most some 70 times a second: from 34 processes on each
 * draws less often, and blocks live longer in proportion. A unit is charged that much longer before it is spent: with 100 processes
 * 1.5 s of 60 (test/fleet_simulation).
 *
 * Sharing: each process asks for what it could spend until its next draw. Where the rate is less than what all ask for, work with precedence gets
 * what it wants first, and the rest is shared by water-filling; both by the weights of the projects that wait (`shared_work.ts`). Shares are seldom whole
 * units, or whole requests: of 2.6 units a process gets 2 or 3, in an even succession, and of 0.3 requests one in 3 or 4 draws. A process
 * whose turn it is keeps it until there is room for its next request: later asks leave that much for it. Units that a process had reserved and did not
 * use are its own again, in addition to its share: else processes that reserve twice what they use would have half of the limit together.
 */
import { EQUAL, type Precedence } from "./shared_work.ts";
import { EVEN_STEP, shareOf, type UnitsAsker } from "./shares.ts";
import { type Holder, type HolderRow, holderOf, rowOf } from "./window_rows.ts";

/** What one process asks for. */
export interface BlockAsk {
  /** The process, unique for its life. */
  readonly holder: string;
  /** From 1, one more for each ask that was answered; an ask that is repeated, because its answer was lost, has the same. */
  readonly sequence: number;
  /** Units spent since the last ask. May exceed what was granted: answers can take more than was reserved. */
  readonly spent: number;
  /** Of these, units in place of others that were counted before and are or will be `returned`: not of its block. Absent: none. */
  readonly moved?: number;
  /** Units of its block that it will not spend. */
  readonly unspent: number;
  /** Units that were reported as spent in a slot, and were not used. */
  readonly returned: readonly (readonly [slot: number, units: number])[];
  /** Units that it could spend until its next draw; 0: it only reports. */
  readonly wanted: number;
  /** Units of its next request: fewer are of no use to it. */
  readonly least: number;
  /** Units per window as far as it knows; the lowest of those that ask is in force. */
  readonly limit: number;
  /** Milliseconds until its next draw, where other quotas make it draw less often than this one; absent: as this one says. */
  readonly drawMs?: number | undefined;
}

export interface BlockGrant {
  /** Units that it may spend in addition to what it has. */
  readonly units: number;
  /** Its block, with all that is left of it, ends so many milliseconds after the ask reached this place. */
  readonly lifeMs: number;
  /** It should draw again after so many milliseconds. */
  readonly drawMs: number;
  /** The slot in which `spent` was charged. */
  readonly slot: number;
  /** Units charged now to all processes, and the limit in force for all. */
  readonly charged: number;
  readonly limit: number;
  /** Whether nothing was known of it: what was left of a former block is void. */
  readonly isUnknown: boolean;
}

export interface SharedWindowOptions {
  /** Default 60,000. */
  readonly windowMs?: number;
  /** How long a block lives where few processes share the quota. Default 2,000. */
  readonly lifeMs?: number;
  /** How often each process draws then. Default 500. */
  readonly drawMs?: number;
}

/** What an ask says of the time since the last one. */
interface SinceAsk {
  /** Milliseconds; undefined if the last one wanted nothing. */
  sinceMs: number | undefined;
  /** Units that had been reserved and were not used. */
  returned: number;
}

/** As JSON. Short, because each draw reads and writes it while the others wait: 100 bytes a process. */
export interface SharedWindowState {
  readonly newestMs: number;
  readonly nextMs: number;
  /** Turns given out. */
  readonly turns: number;
  /** Slot and units, oldest first. */
  readonly slots: readonly (readonly [slot: number, units: number])[];
  readonly holders: readonly HolderRow[];
}

const SLOT_MS = 250;
const GUARD_MS = 250;
/** Burst of the pace, in milliseconds of the limit's rate. */
const BURST_MS = 1_000;
/** Draws are often late: the next ones may take what a late one missed. The pace still holds for all together. */
const CATCH_UP = 1.05;
/** For how many draws an ask counts in the sharing. */
const ASKS_KEPT = 3;
/** Between the draws of two processes, on average, where many share the quota. */
const HOLDER_MS = 15;
/** The longest time between two draws of a process. */
const DRAW_MS_MAX = 10_000;
/** The turn of a process without a share, while work with precedence waits: it is its turn as soon as it has one. */
const WITHOUT_SHARE = 0;
/** Of what the pace may earn ahead: from here on it is taken for what nobody can use now. */
const IDLE_SHARE = 0.9;

export class SharedWindow {
  readonly #windowMs: number;
  readonly #lifeMs: number;
  readonly #drawMs: number;
  readonly #slots: Map<number, number>;
  readonly #holders: Map<string, Holder>;
  #newestMs: number;
  #nextMs: number;
  #turns: number;
  #precedenceOf: (holder: string) => Precedence = () => EQUAL;

  constructor(state?: SharedWindowState, options: SharedWindowOptions = {}) {
    this.#windowMs = options.windowMs ?? 60_000;
    this.#lifeMs = options.lifeMs ?? 2_000;
    this.#drawMs = options.drawMs ?? 500;
    this.#slots = new Map(state?.slots);
    this.#holders = new Map(state?.holders.map((row) => [row[0], holderOf(row, state.newestMs)]));
    this.#newestMs = state?.newestMs ?? Number.NEGATIVE_INFINITY;
    this.#nextMs = state?.nextMs ?? Number.NEGATIVE_INFINITY;
    this.#turns = state?.turns ?? 0;
  }

  /**
   * Books an ask and grants units. `clockMs`: the clock of this place, read for this draw; when it goes back, time stands still. A repeated ask
   * gets the same answer. `precedenceOf`: how each process ranks among those that ask; absent: as in the draw before, at first all are equal.
   */
  draw(clockMs: number, ask: BlockAsk, precedenceOf?: (holder: string) => Precedence): BlockGrant {
    this.#precedenceOf = precedenceOf ?? this.#precedenceOf;
    const nowMs = Math.max(clockMs, this.#newestMs);
    this.#newestMs = nowMs;
    this.#expire(nowMs);
    const before = this.#holders.get(ask.holder);
    if (before !== undefined && before.sequence === ask.sequence) return this.#answer(nowMs, before);
    const { units, returned } = this.#report(nowMs, ask, before);
    const wasUnknown = before === undefined;
    const { sequence, wanted, least } = ask;
    const drawMs = this.#rhythmMs;
    const lifeMs = (this.#lifeMs / this.#drawMs) * Math.max(drawMs, ask.drawMs ?? 0);
    const holder: Holder = {
      ...{ sequence, granted: 0, wasUnknown, askedMs: nowMs, lifeMs, drawMs, units, wanted, least },
      ...{ limit: Math.max(1, ask.limit), turn: before?.turn },
    };
    this.#holders.set(ask.holder, holder);
    const sinceMs = before === undefined || before.wanted <= 0 ? undefined : nowMs - before.askedMs;
    const fair = wanted > 0 ? this.#fairUnits(nowMs, ask.holder, holder, { sinceMs, returned }) : 0;
    const isFair = fair !== undefined && fair > 0;
    holder.granted = isFair ? this.#grant(nowMs, ask.holder, holder, fair) : 0;
    holder.units += holder.granted;
    if (holder.granted > 0) this.#pace(nowMs, holder.granted);
    if (fair === undefined) holder.turn = WITHOUT_SHARE;
    else if (holder.granted > 0 || fair <= 0) holder.turn = undefined;
    else if (holder.turn === undefined || holder.turn === WITHOUT_SHARE) holder.turn = ++this.#turns;
    return this.#answer(nowMs, holder);
  }

  #answer(nowMs: number, { granted, lifeMs, drawMs, askedMs, wasUnknown }: Holder): BlockGrant {
    return {
      ...{ units: granted, lifeMs, drawMs, slot: slotOf(askedMs), isUnknown: wasUnknown },
      ...{ charged: this.#charged(), limit: this.#limit(nowMs) },
    };
  }

  /** Units charged now to all processes, and the limit in force; undefined where nobody has drawn in the last 1.5 s. */
  inForce(clockMs: number): { readonly charged: number; readonly limit: number | undefined } {
    const nowMs = Math.max(clockMs, this.#newestMs);
    this.#expire(nowMs);
    const limit = this.#limit(nowMs);
    return { charged: this.#charged(), limit: limit === Number.POSITIVE_INFINITY ? undefined : limit };
  }

  /** The state that the next `SharedWindow` continues from. */
  toState(): SharedWindowState {
    return {
      newestMs: this.#newestMs,
      nextMs: this.#nextMs,
      turns: this.#turns,
      slots: [...this.#slots].sort(([left], [right]) => left - right),
      holders: [...this.#holders].map(([name, holder]) => rowOf(name, holder, this.#newestMs)),
    };
  }

  /** Books what the ask reports of its former block; returns what is left of it, and the units of earlier ones that were reserved and not used. */
  #report(
    nowMs: number,
    { spent, moved = 0, unspent, returned }: BlockAsk,
    before: Holder | undefined,
  ): { units: number; returned: number } {
    for (const [slot, units] of returned) this.#charge(slot, -units);
    const given = returned.reduce((sum, [, units]) => sum + units, 0);
    const unused = given - moved + unspent;
    const unusedBefore = Math.max(0, given - moved);
    if (unused !== 0) this.#nextMs -= (unused * this.#windowMs) / this.#limit(nowMs);
    if (before?.expiredSlot !== undefined) this.#charge(before.expiredSlot, -before.units); // its units are charged as those of its block again
    this.#charge(slotOf(nowMs), spent);
    const units = before === undefined ? 0 : Math.max(0, before.units - (spent - moved) - unspent);
    return { units, returned: unusedBefore };
  }

  #expire(nowMs: number): void {
    for (const [name, holder] of this.#holders) {
      if (holder.expiredSlot !== undefined) {
        if (this.#hasAged(nowMs, holder.expiredSlot)) this.#holders.delete(name);
      } else if (holder.askedMs + holder.lifeMs <= nowMs) {
        holder.expiredSlot = slotOf(holder.askedMs + holder.lifeMs);
        this.#charge(holder.expiredSlot, holder.units);
      }
    }
    for (const [slot] of this.#slots) if (this.#hasAged(nowMs, slot)) this.#slots.delete(slot);
  }

  #hasAged(nowMs: number, slot: number): boolean {
    return (slot + 1) * SLOT_MS + this.#windowMs + GUARD_MS <= nowMs;
  }

  /** Units that a holder gets now, of those that are its share. */
  #grant(nowMs: number, name: string, holder: Holder, fair: number): number {
    const limit = this.#limit(nowMs);
    const charged = this.#charged();
    if (holder.least > limit) return charged === 0 ? holder.least : 0; // as in bucket.ts: alone in a window
    const perMs = limit / this.#windowMs;
    const burst = Math.max(1, perMs * BURST_MS);
    const earned = Math.min(nowMs - this.#nextMs, this.#drawMs) * perMs + burst;
    const claimed = this.#claimedBefore(name, holder, burst);
    if (earned < Math.min(holder.least, burst) + claimed) return 0;
    const asked = Math.max(holder.least, Math.min(holder.wanted, fair, earned - claimed));
    const free = limit - charged - claimed;
    return free >= holder.least ? Math.floor(Math.min(asked, free)) : 0;
  }

  /**
   * Whole units of its share, the least of use or more; 0 while it is the turn of others, undefined while it has none. `sinceMs`: since its last ask, if it
   * wanted units then. `returned`: units of earlier shares, which it had reserved and did not use: they are its own again.
   */
  #fairUnits(
    nowMs: number,
    name: string,
    holder: Holder,
    { sinceMs, returned }: SinceAsk,
  ): number | undefined {
    const { least, drawMs, turn } = holder;
    const limit = this.#limit(nowMs);
    if (least > limit) return least;
    const draws = Math.min(2, Math.max(0.01, (sinceMs ?? drawMs) / drawMs)); // a draw before its time brings that much less
    const even = evenOf(name, Math.floor(nowMs / drawMs));
    const part = shareOf(name, (limit / this.#windowMs) * drawMs * CATCH_UP, this.#asking(nowMs)) * draws;
    const share = part > 0 ? part + returned : 0;
    if (this.#isUnclaimed(nowMs, name, holder)) return Math.max(least, Math.ceil(share));
    if (share >= least) return Math.floor(share + even);
    if (share <= 0 && !turn) return undefined;
    const isItsTurn = turn !== undefined || sinceMs === undefined || share / least + even >= 1;
    return isItsTurn ? least : 0;
  }

  /** How often each process should draw, for those whose blocks have not expired. */
  get #rhythmMs(): number {
    let living = 1;
    for (const { expiredSlot } of this.#holders.values()) if (expiredSlot === undefined) living += 1;
    return Math.min(DRAW_MS_MAX, Math.max(this.#drawMs, living * HOLDER_MS));
  }

  /** Whether nearly all was earned that may be, and nobody has claimed it: shares of those who cannot use them now are lent. */
  #isUnclaimed(nowMs: number, name: string, holder: Holder): boolean {
    const perMs = this.#limit(nowMs) / this.#windowMs;
    const burst = Math.max(1, perMs * BURST_MS);
    const earned = Math.min(nowMs - this.#nextMs, this.#drawMs) * perMs + burst;
    return (
      earned - this.#claimedBefore(name, holder, burst) >=
      Math.max(2 * holder.least, (burst + this.#drawMs * perMs) * IDLE_SHARE)
    );
  }

  #asking(nowMs: number): UnitsAsker[] {
    return [...this.#holders].flatMap(([name, { wanted, askedMs, drawMs }]) =>
      wanted > 0 && nowMs - askedMs <= ASKS_KEPT * drawMs
        ? [{ name, wanted, precedence: this.#precedenceOf(name) }]
        : [],
    );
  }

  /** Units for which holders with an earlier turn wait. Large requests without precedence wait for all that have it, and none of these for them. */
  #claimedBefore(name: string, holder: Holder, burst: number): number {
    const turn = holder.turn || Number.POSITIVE_INFINITY;
    const isFirst = this.#precedenceOf(name).first > 0;
    let units = 0;
    for (const [otherName, other] of this.#holders) {
      if (otherName === name || !other.turn || other.expiredSlot !== undefined) continue;
      const isOtherFirst = this.#precedenceOf(otherName).first > 0;
      const isLarge = isFirst !== isOtherFirst && (isFirst ? other : holder).least > burst;
      if (isLarge ? isOtherFirst : other.turn < turn) units += other.least;
    }
    return units;
  }

  #limit(nowMs: number): number {
    let limit = Number.POSITIVE_INFINITY;
    for (const { limit: known, askedMs, drawMs } of this.#holders.values())
      if (nowMs - askedMs <= ASKS_KEPT * drawMs) limit = Math.min(limit, known);
    return limit;
  }

  #charged(): number {
    let units = 0;
    for (const charge of this.#slots.values()) units += charge;
    for (const holder of this.#holders.values()) if (holder.expiredSlot === undefined) units += holder.units;
    return units;
  }

  #charge(slot: number, units: number): void {
    const charged = Math.max(0, (this.#slots.get(slot) ?? 0) + units);
    if (charged > 0) this.#slots.set(slot, charged);
    else this.#slots.delete(slot);
  }

  #pace(nowMs: number, units: number): void {
    const msPerUnit = this.#windowMs / this.#limit(nowMs);
    // As in bucket.ts: debt of the pace never outlives the window.
    // What was earned while nobody drew is kept for one draw, because the process whose turn it is may draw that much later.
    const fromMs = Math.max(this.#nextMs, nowMs - this.#drawMs);
    this.#nextMs = Math.min(fromMs + units * msPerUnit, nowMs + this.#windowMs);
  }
}

/** The same for all quotas of one draw: a request needs units of each. */
function evenOf(name: string, draw: number): number {
  let phase = 0;
  for (let index = 0; index < name.length; index += 1) phase = (phase * 31 + name.charCodeAt(index)) % 65_536;
  return ((draw % 1_000_000) * EVEN_STEP + phase / 65_536) % 1;
}

function slotOf(atMs: number): number {
  return Math.floor(atMs / SLOT_MS);
}
