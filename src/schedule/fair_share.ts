/**
 * Whose turn it is: those who wait for one lane share what it can do by their weights, by weighted deficit round robin
 * (Shreedhar and Varghese 1996, "Efficient fair queuing using deficit round-robin", section III).
 *
 *   absent --join--> waiting its turn --next--> served, while its credit pays for its first item --> waiting its turn
 *   any --leave--> absent, its credit forgotten
 *
 * A round visits all in the order in which they joined. A visit adds `unit * weight` to the credit of one who can be
 * served; what it is served is taken from it, and what is left is kept for the next round. One who cannot be served gets
 * no credit, so nobody saves up for a burst. `unit` is fixed for a round: the mean cost of what the round before
 * served, divided by the highest weight: so a visit gives about one item at most, and turns are as short as they
 * can be. Rounds in which nobody's credit would suffice are not walked but reckoned.
 *
 * Promise: over any time in which i and j can both be served, with Max the largest cost (lemma 2 of the paper):
 *
 *   |served(i) / weight(i) - served(j) / weight(j)|  <=  unit + Max / weight(i) + Max / weight(j)
 *
 * So who joins with n items of cost c while N others wait, all of weight 1, is done after at most (N + 1) (n + 1) of
 * the largest items: with one other, in twice its time alone and two items.
 *
 * Limits: `next` looks at each of those present twice at most, and at one when their items cost alike; `join` and
 * `leave` take O(present). With one present nothing is reckoned.
 */

interface Turn<T> {
  readonly who: T;
  weight: number;
  credit: number;
}

/** One for a lane. */
export class FairShare<T> {
  readonly #ring: Turn<T>[] = [];
  /** Index of whose turn it is. */
  #turn = 0;
  /** Whether this visit has given its credit. */
  #isCredited = false;
  /** Credit of weight 1 in this round; 0 before the first cost is known. */
  #unit = 0;
  /** What was served since the round began. */
  #served = 0;
  #servings = 0;
  #weightMax = 0;

  get size(): number {
    return this.#ring.length;
  }

  /** Sum of the weights of those present. */
  get weightTotal(): number {
    let total = 0;
    for (const { weight } of this.#ring) total += weight;
    return total;
  }

  /** In the order of the rounds. */
  *present(): Generator<T> {
    for (const { who } of this.#ring) yield who;
  }

  /** Has a turn from now on, after all others; who is present already keeps its place. `weight` is above 0. */
  join(who: T, weight: number): void {
    const known = this.#find(who);
    if (known >= 0) {
      (this.#ring[known] as Turn<T>).weight = weight;
    } else {
      this.#ring.splice(this.#turn, 0, { who, weight, credit: 0 });
      if (this.#ring.length > 1) this.#turn += 1;
      if (this.#ring.length <= 2) this.#beginRound();
    }
  }

  /** Has nothing that waits any more. */
  leave(who: T): void {
    const index = this.#find(who);
    if (index < 0) return;
    this.#ring.splice(index, 1);
    if (index < this.#turn) this.#turn -= 1;
    else if (index === this.#turn) this.#arrive(index);
  }

  /**
   * Whose turn it is; asked again without `served` it names the same one while that can be served. `costOf` says
   * what serving someone costs, above 0, and undefined when it cannot be served now. Undefined when nobody can. With
   * one present that one is named without being asked.
   */
  next(costOf: (who: T) => number | undefined): T | undefined {
    const ring = this.#ring;
    if (ring.length < 2) return ring[0]?.who;
    for (;;) {
      let lack = Number.POSITIVE_INFINITY;
      for (let looked = 0; looked <= ring.length; looked += 1) {
        const turn = ring[this.#turn] as Turn<T>;
        const cost = costOf(turn.who);
        if (cost !== undefined) {
          this.#credit(turn, cost);
          if (turn.credit >= cost) return turn.who;
          lack = Math.min(lack, (cost - turn.credit) / turn.weight);
        }
        this.#arrive(this.#turn + 1);
      }
      if (lack === Number.POSITIVE_INFINITY) return undefined;
      this.#skip(Math.floor(lack / this.#unit), costOf);
    }
  }

  /** What `next` named was served at this cost. */
  served(who: T, cost: number): void {
    const turn = this.#ring[this.#turn];
    if (this.#ring.length < 2 || turn?.who !== who) return;
    turn.credit -= cost;
    this.#served += cost;
    this.#servings += 1;
  }

  #find(who: T): number {
    return this.#ring.findIndex((turn) => turn.who === who);
  }

  #credit(turn: Turn<T>, cost: number): void {
    if (this.#isCredited) return;
    this.#isCredited = true;
    if (this.#unit === 0) this.#unit = cost / this.#weightMax;
    turn.credit += this.#unit * turn.weight;
  }

  /** As many rounds at once. */
  #skip(rounds: number, costOf: (who: T) => number | undefined): void {
    if (rounds === 0) return;
    for (const turn of this.#ring)
      if (costOf(turn.who) !== undefined) turn.credit += rounds * this.#unit * turn.weight;
  }

  #arrive(index: number): void {
    this.#isCredited = false;
    this.#turn = index < this.#ring.length ? index : 0;
    if (this.#turn === 0) this.#beginRound();
  }

  #beginRound(): void {
    this.#weightMax = 0;
    for (const { weight } of this.#ring) this.#weightMax = Math.max(this.#weightMax, weight);
    if (this.#ring.length < 2) this.#unit = 0;
    if (this.#servings > 0) this.#unit = this.#served / this.#servings / this.#weightMax;
    this.#served = 0;
    this.#servings = 0;
  }
}
