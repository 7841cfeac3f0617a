/**
 * What one engine may spend of a cap that several share: its side of `shared_money.ts`. Pure; `engine/limits/cap_draws.ts` draws for it.
 *
 *   unknown --first answer--> open: reserves within its grant, draws more when an item does not fit, returns what it does not need
 *
 * Nothing is reserved before the first answer: it says what earlier owners were granted. An ask that was not answered is repeated unchanged,
 * because it may have been booked.
 *
 * What is returned must never be spent, also by an owner that reads this one's log after a kill. That log may lack what settled last, and count
 * more for it. So money is returned only if it was unused at the last ask, and nothing was reserved of it since; by now the log has what freed it.
 */
import type { MoneyAsk, MoneyGrant } from "./shared_money.ts";

/** What its cap counts. */
export interface CountedMoney {
  readonly spentNano: number;
  readonly heldNano: number;
}

/** While items wait, twice what was used since the last ask; else a quarter more. */
const GROWTH = 2;
const SPARE = 1.25;

export class DrawnMoney {
  readonly #owner: Pick<MoneyAsk, "holder" | "epoch">;
  readonly #onLack: () => void;
  #sequence = 0;
  #asked: MoneyAsk | undefined;
  #answer: MoneyGrant | undefined;
  /** Of what may be reserved: what is asked back is subtracted at once. */
  #grantNano = 0;
  #lackedNano = 0;
  /** Reserved since the last ask, also what has ended meanwhile. */
  #reservedNano = 0;
  /** As of the last ask. */
  readonly #last = { unusedNano: 0, committedNano: 0, spentNano: 0, roseNano: 0, isCapChanged: false };
  #isStarved = false;

  /** `onLack`: called when an item waits for money, as often as one does. */
  constructor({ holder, epoch }: Pick<MoneyAsk, "holder" | "epoch">, onLack: () => void) {
    this.#owner = { holder, epoch };
    this.#onLack = onLack;
  }

  /** What others have spent, as of the last answer. */
  get othersNano(): number {
    return this.#answer?.othersNano ?? 0;
  }

  /** The cap in force for all as of the last answer; Infinity before the first. */
  get capNano(): number {
    return this.#answer?.capNano ?? Number.POSITIVE_INFINITY;
  }

  /** The cap of this process has another amount: the last answer, and that of an ask under way, no longer say which cap is in force. */
  capChanged(): void {
    this.#last.isCapChanged = true;
    if (this.#answer !== undefined) this.#answer = { ...this.#answer, capNano: Number.POSITIVE_INFINITY };
  }

  /** Whether an item waits for the next answer. */
  get isLacking(): boolean {
    return this.#lackedNano > 0 || (this.#asked?.leastNano ?? 0) > 0;
  }

  /** Whether so much more may be reserved. */
  has(nano: number, { spentNano, heldNano }: CountedMoney): boolean {
    return this.#answer !== undefined && spentNano + heldNano + nano <= this.#grantNano;
  }

  /** An item that may cost so much waits. */
  lacks(nano: number): void {
    this.#lackedNano = Math.max(this.#lackedNano, nano);
    this.#onLack();
  }

  /** So much more is reserved or spent; negative when it is less. */
  moved(nano: number): void {
    if (nano > 0) this.#reservedNano += nano;
  }

  /** Whether there is something to ask, return or watch: else a draw is needed only every few seconds. */
  isBusy({ spentNano, heldNano }: CountedMoney): boolean {
    const committedNano = spentNano + heldNano;
    const isReported = this.#last.committedNano === committedNano && this.#last.spentNano === spentNano;
    return (
      this.#asked !== undefined || // it may not have been booked
      this.#answer === undefined ||
      this.#lackedNano > 0 ||
      heldNano > 0 ||
      !isReported ||
      this.#grantNano > committedNano
    );
  }

  /** What to ask now. `capNano`: the amount as far as this process knows. */
  ask(capNano: number, { spentNano, heldNano }: CountedMoney): MoneyAsk {
    if (this.#asked !== undefined) return this.#asked;
    const committedNano = spentNano + heldNano;
    const unusedNano = Math.max(0, this.#grantNano - committedNano);
    const targetNano = this.#targetNano(committedNano);
    const isOfUse = !this.#isStarved && (this.#answer?.isShort !== true || unusedNano >= this.#lackedNano);
    const keptNano = isOfUse ? Math.min(unusedNano, targetNano) : 0; // else it may be enough for another's item
    const quietNano = Math.max(0, this.#last.unusedNano - this.#reservedNano);
    const returnedNano = Math.min(quietNano, unusedNano - keptNano);
    const leftNano = unusedNano - returnedNano;
    const lackedNano = this.#lackedNano;
    this.#sequence += 1;
    this.#last.isCapChanged = false;
    this.#last.spentNano = spentNano;
    this.#asked = {
      ...{ ...this.#owner, sequence: this.#sequence, capNano, spentNano, heldNano, returnedNano },
      wantedNano: Math.max(0, targetNano - leftNano),
      leastNano: Math.max(0, lackedNano - leftNano),
    };
    this.#grantNano -= returnedNano;
    this.#last.unusedNano = leftNano;
    this.#reservedNano = this.#lackedNano = 0;
    return this.#asked;
  }

  /** Takes the answer to the ask under way. */
  answered(grant: MoneyGrant): void {
    this.#isStarved = (this.#asked?.leastNano ?? 0) > 0 && grant.nano === 0;
    this.#asked = undefined;
    this.#answer = this.#last.isCapChanged ? { ...grant, capNano: Number.POSITIVE_INFINITY } : grant;
    this.#grantNano = grant.totalNano;
  }

  /** What it could use until its next ask, beside what is committed. */
  #targetNano(committedNano: number): number {
    const roseNano = Math.max(0, committedNano - this.#last.committedNano);
    const busiestNano = Math.max(roseNano, this.#last.roseNano);
    this.#last.committedNano = committedNano;
    this.#last.roseNano = this.#answer === undefined ? 0 : roseNano; // what earlier owners spent says nothing of this one
    const spareNano = Math.ceil(busiestNano * (this.#lackedNano > 0 ? GROWTH : SPARE));
    return this.#answer === undefined ? this.#lackedNano : this.#lackedNano + spareNano;
  }
}
