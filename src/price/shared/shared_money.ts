/**
 * One cap that several holders draw from: what it grants to all of them together is never above the cap. Its state is kept where all reach it (a row
 * of a database), changed by one at a time. Pure; `drawn_money.ts` is the side of a holder.
 *
 *   free --granted--> of a holder, which reserves and spends it --returned, because it was not needed--> free
 *
 * A holder is what survives its process: a partition of a fleet. What it has spent is in its log, so the next owner of the partition continues with
 * the grant. No clock ends a grant: of a holder that is dead or stopped, the grant waits for its next owner, and no one else spends it. An owner
 * has an epoch; once a later one has drawn, an earlier one is refused.
 *
 * A grant is at most what the holder could use until its next draw, and at most half of an equal part of what is left, but never less than its next
 * item needs. So no holder has much that others lack. When an item does not fit into what is left, its holder waits, and all
 * the others are asked to return what they do not need (`isShort`). Nothing is kept for it, as in one process: where an item of 4 cents waits for 3, others may
 * use the 3 up, at the speed of their answers. With turns, each item of the last cents was another holder's, and took a second.
 *
 * The lowest cap that a holder named in the last 10 s is in force: workers that start one after another may have different ones. Where the amount was set
 * in the state itself, that is in force at once: holders that continue a run may name its former cap for some seconds. What was granted under a
 * higher cap stays granted until it is returned.
 */

/** What a holder reports, and asks for. All amounts are nano-USD. */
export interface MoneyAsk {
  /** The same for all owners of what it stands for. */
  readonly holder: string;
  /** Of the owner: higher than those of all earlier owners. */
  readonly epoch: number;
  /** From 1, one more for each ask that was answered; an ask that is repeated, because its answer was lost, has the same. */
  readonly sequence: number;
  /** The amount of the cap, as far as the holder knows. */
  readonly capNano: number;
  /** Billed or in doubt, in all. */
  readonly spentNano: number;
  /** Reserved for requests in flight. */
  readonly heldNano: number;
  /** Of its grant; the holder never spends it afterwards. */
  readonly returnedNano: number;
  /** In addition to its grant. */
  readonly wantedNano: number;
  /** The least that is of use to it; 0 when no item waits. */
  readonly leastNano: number;
}

export interface MoneyGrant {
  /** In addition. */
  readonly nano: number;
  /** The whole grant of the holder. It covers what it has spent. */
  readonly totalNano: number;
  /** What all others have spent, as far as they have reported. */
  readonly othersNano: number;
  /** The cap in force. */
  readonly capNano: number;
  /** Another holder lacks money: what is not needed should be returned. */
  readonly isShort: boolean;
}

interface Holder {
  epoch: number;
  sequence: number;
  /** The answer to its last ask, for its repetition. */
  grant: MoneyGrant;
  grantedNano: number;
  spentNano: number;
  wantedNano: number;
  capNano: number;
  askedMs: number;
  /** An item of it waits, and got nothing. */
  isWaiting: boolean;
}

/** As JSON. */
export interface SharedMoneyState {
  readonly newestMs: number;
  readonly holders: readonly (readonly [name: string, holder: Readonly<Holder>])[];
  /** The cap as it was set (`shards/run_rows.ts`); absent: as the holders name it. */
  readonly capNano?: number | undefined;
}

/** For how long an ask counts: in the parts of what is left, and for the cap in force. Holders ask twice as often, at least. */
const ASK_COUNTS_MS = 10_000;

export class SharedMoney {
  readonly #holders: Map<string, Holder>;
  readonly #setNano: number | undefined;
  #newestMs: number;

  constructor(state?: SharedMoneyState) {
    this.#setNano = state?.capNano;
    this.#holders = new Map(state?.holders.map(([name, holder]) => [name, { ...holder }]));
    this.#newestMs = state?.newestMs ?? 0;
  }

  /**
   * Books an ask and grants money. `clockMs`: the clock of this place. A repeated ask gets the same answer. Undefined for an owner that a later one
   * has replaced: nothing is booked.
   */
  draw(clockMs: number, ask: MoneyAsk): MoneyGrant | undefined {
    this.#newestMs = Math.max(clockMs, this.#newestMs);
    const before = this.#holders.get(ask.holder);
    if (before !== undefined && before.epoch > ask.epoch) return undefined;
    if (before?.epoch === ask.epoch && before.sequence >= ask.sequence) return before.grant;
    const { epoch, sequence, capNano, spentNano, wantedNano, leastNano } = ask;
    const keptNano = (before?.grantedNano ?? 0) - ask.returnedNano;
    const holder: Holder = {
      ...{ epoch, sequence, capNano, spentNano, wantedNano, askedMs: this.#newestMs },
      grant: before?.grant ?? NOTHING,
      grantedNano: Math.max(keptNano, spentNano + ask.heldNano), // what is spent beyond a grant counts, too
      isWaiting: false,
    };
    this.#holders.set(ask.holder, holder);
    const nano = this.#grantTo(holder, leastNano);
    holder.grantedNano += nano;
    holder.isWaiting = nano === 0 && leastNano > 0;
    holder.grant = {
      ...{ nano, totalNano: holder.grantedNano, capNano: this.#capNano() },
      othersNano: this.#sum(({ spentNano: spent }) => spent) - spentNano,
      isShort: this.#freeNano() < 0 || this.#others(holder).some(({ isWaiting }) => isWaiting),
    };
    return holder.grant;
  }

  /** The state that the next `SharedMoney` continues from. */
  toState(): SharedMoneyState {
    const set = this.#setNano === undefined ? {} : { capNano: this.#setNano };
    return { newestMs: this.#newestMs, holders: [...this.#holders], ...set };
  }

  #grantTo(holder: Holder, leastNano: number): number {
    const { wantedNano } = holder;
    if (wantedNano <= 0) return 0;
    const leftNano = this.#freeNano();
    const asking = 1 + this.#others(holder).filter((other) => other.wantedNano > 0).length;
    if (leftNano < Math.max(1, leastNano)) return 0;
    return Math.min(wantedNano, Math.max(leastNano, Math.floor(leftNano / (2 * asking))));
  }

  /** Those that still ask. */
  #others(holder: Holder): Holder[] {
    return [...this.#holders.values()].filter((other) => other !== holder && this.#counts(other));
  }

  /** Below 0 after the cap was lowered. */
  #freeNano(): number {
    return this.#capNano() - this.#sum(({ grantedNano }) => grantedNano);
  }

  #capNano(): number {
    if (this.#setNano !== undefined) return this.#setNano;
    let capNano = Number.POSITIVE_INFINITY;
    for (const holder of this.#holders.values())
      if (this.#counts(holder)) capNano = Math.min(capNano, holder.capNano);
    return capNano;
  }

  #counts({ askedMs }: Holder): boolean {
    return this.#newestMs - askedMs <= ASK_COUNTS_MS;
  }

  #sum(amount: (holder: Holder) => number): number {
    let sum = 0;
    for (const holder of this.#holders.values()) sum += amount(holder);
    return sum;
  }
}

const NOTHING: MoneyGrant = { nano: 0, totalNano: 0, othersNano: 0, capNano: 0, isShort: false };
