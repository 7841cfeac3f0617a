/**
 * What one process may spend of a quota that several share: its side of `shared_window.ts`. Pure; `engine/limits/limit_draws.ts` draws for it, every
 * 500 ms and when a request lacks units.
 *
 *   empty --a request lacks units--> lacking --answered--> has units --90 % of their life, from before the ask--> may not spend them
 *   may not spend them --the next ask is answered--> has units
 *
 * An ask that was not answered is repeated unchanged, because it may have been booked; what happens meanwhile waits for the next
 * one. Units may be spent while an ask is under way: what the ask returns is set aside first. What is left here is what the quota charges to this process
 * as not yet spent: every path keeps both equal, else units would be lost to all for as long as the process lives.
 */
import type { BlockAsk, BlockGrant } from "./shared_window.ts";

/** The part of a block's life that this process uses by its own clock: the speeds of its clock and the database's may differ by a tenth. */
const SPENT_LIFE = 0.9;

interface Asked {
  readonly ask: BlockAsk;
  /** When it was first sent. */
  readonly sentMs: number;
}

export class DrawnUnits {
  readonly #holder: string;
  #left = 0;
  #untilMs = Number.NEGATIVE_INFINITY;
  #spent = 0;
  /** Of `#spent`, what is in place of units that are returned. */
  #moved = 0;
  #sequence = 0;
  #asked: Asked | undefined;
  readonly #demand = new Demand();
  readonly #unused = new UnusedUnits();
  /** What the last draw said. `isShort`: it granted less than was asked for. */
  #said = { charged: 0, drawMs: 0, isShort: false };

  /** `holder`: this process, unique for its life. */
  constructor(holder: string) {
    this.#holder = holder;
  }

  /** Units charged to all processes as of the last draw; 0 before the first. */
  get charged(): number {
    return this.#said.charged;
  }

  /** How often to draw, as of the last draw; 0 before the first. */
  get drawMs(): number {
    return this.#said.drawMs;
  }

  /** Whether all processes together want more than the limit: a draw before its time would bring nothing. */
  get isShort(): boolean {
    return this.#said.isShort;
  }

  /** Whether `amount` may be spent now; if not, the next draw asks for it. */
  has(nowMs: number, amount: number): boolean {
    if (amount <= 0 || (nowMs < this.#untilMs && this.#left >= amount)) return true;
    this.#demand.lacks(amount);
    return false;
  }

  /** Spends `amount`; returns the mark that `adjust` needs. */
  spend(amount: number): number {
    this.#left -= amount;
    this.#spent += amount;
    this.#demand.spent += amount;
    return this.#sequence + 1;
  }

  /** Corrects what was spent as `mark`. A raise counts as spent now, and may exceed what was granted. */
  adjust(mark: number, delta: number): void {
    if (delta < 0 && mark <= this.#sequence) {
      this.#unused.add(mark, -delta);
      return;
    }
    this.#left -= delta;
    this.#spent += delta;
  }

  /** What was spent as `mark` is used only now: it counts from now on, in place of then. Returns the mark that `adjust` needs. */
  move(mark: number, amount: number): number {
    if (mark > this.#sequence) return mark; // the next report is later than now
    this.#unused.add(mark, amount);
    this.#spent += amount;
    this.#moved += amount;
    return this.#sequence + 1;
  }

  /** The quota is not limited: what was spent so far is not reported, and not taken from what is left. */
  forget(): void {
    if (this.#asked !== undefined || (this.#spent === 0 && this.#moved === 0)) return;
    this.#left += this.#spent - this.#moved;
    this.#spent = this.#moved = 0;
    this.#sequence += 1; // the marks until now belong to no report
  }

  /** What to ask now; undefined when there is nothing to ask or report. `limit`: units a window, as far as this process knows. `drawMs`: until its next draw. */
  ask(nowMs: number, limit: number, drawMs?: number): BlockAsk | undefined {
    if (this.#asked !== undefined) return this.#asked.ask;
    const left = Math.max(0, this.#left);
    const [spent, moved] = [this.#spent, this.#moved];
    const { kept, wanted, least } = this.#demand.next(left);
    const unspent = left - kept;
    const returned = this.#unused.take(this.#sequence);
    if (spent === 0 && unspent === 0 && wanted === 0 && returned.length === 0) return undefined;
    this.#sequence += 1;
    const report = { holder: this.#holder, sequence: this.#sequence, spent, moved, unspent, returned };
    this.#asked = { ask: { ...report, wanted, least, limit, drawMs }, sentMs: nowMs };
    this.#left = kept; // also where more was used than it had: that is reported as spent
    this.#spent = this.#moved = 0;
    return this.#asked.ask;
  }

  /** Takes the answer to the ask under way. */
  answered(grant: BlockGrant): void {
    if (this.#asked === undefined) return;
    const { ask, sentMs } = this.#asked;
    this.#asked = undefined;
    this.#demand.answered(grant.units);
    this.#unused.reported(ask.sequence, grant.slot);
    // What was spent since the ask was sent stays spent.
    this.#left = (grant.isUnknown ? this.#moved - this.#spent : this.#left) + grant.units;
    this.#untilMs = sentMs + grant.lifeMs * SPENT_LIFE;
    const { charged, drawMs } = grant;
    this.#said = { charged, drawMs, isShort: grant.units < ask.wanted };
  }
}

const SPARE = 1.25;
const GROWTH = 2;

/**
 * How much to hold until the next draw: a quarter more than was taken since the last one; twice as much, and what it lacked, if a request
 * had to wait; nothing while nothing is taken. A process that lacked units and got none returns what is too little for it, and keeps its turn.
 */
class Demand {
  /** The largest request that lacked units since the last ask; 0 for none. */
  lacked = 0;
  /** Units that requests took since the last ask, before it was known what they used. */
  spent = 0;
  #isStarved = false;
  /** `spent` of the time before the last ask. */
  #last = 0;

  lacks(amount: number): void {
    this.lacked = Math.max(this.lacked, amount);
  }

  /** Whole units of `left` to keep, units to ask for, and the least that are of use. */
  next(left: number): { kept: number; wanted: number; least: number } {
    const { lacked } = this;
    const busiest = Math.max(this.spent, this.#last);
    const held = lacked > 0 ? lacked + busiest * GROWTH : busiest * SPARE;
    const kept = this.#isStarved && lacked > 0 ? 0 : Math.min(left, Math.ceil(held));
    this.#isStarved = lacked > 0; // until it is answered
    this.#last = this.spent;
    this.spent = this.lacked = 0;
    return {
      kept,
      wanted: Math.max(0, Math.ceil(held - kept)),
      least: Math.max(1, Math.ceil(lacked - kept)),
    };
  }

  answered(units: number): void {
    this.#isStarved &&= units === 0;
  }
}

/** How many slots of reports are kept: those of a window with a draw each 50 ms. */
const SLOTS_KEPT = 1_280;

/** Units that were reported as spent and then not used, until they can be returned: the slot of their report must be known. */
class UnusedUnits {
  /** By sequence. */
  readonly #slots = new Map<number, number>();
  #units = new Map<number, number>();

  add(sequence: number, units: number): void {
    this.#units.set(sequence, (this.#units.get(sequence) ?? 0) + units);
  }

  reported(sequence: number, slot: number): void {
    this.#slots.set(sequence, slot);
    const [oldest] = this.#slots.keys();
    if (oldest !== undefined && this.#slots.size > SLOTS_KEPT) this.#slots.delete(oldest);
  }

  /** Takes out the units that can be returned; `last`: the newest sequence. */
  take(last: number): (readonly [slot: number, units: number])[] {
    const waiting = new Map<number, number>();
    const returned: (readonly [number, number])[] = [];
    for (const [sequence, units] of this.#units) {
      const slot = this.#slots.get(sequence);
      if (slot !== undefined) returned.push([slot, units]);
      else if (sequence > last - SLOTS_KEPT) waiting.set(sequence, units);
    }
    this.#units = waiting;
    return returned;
  }
}
