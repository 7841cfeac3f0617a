/** Laws of a cap that several holders share: it is never exceeded, though owners die and replies are lost, and it is used to the last item that fits. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Budget, Cap, type MoneyReservation } from "../../src/price/budget.ts";
import { DrawnMoney } from "../../src/price/shared/drawn_money.ts";
import { type MoneyAsk, SharedMoney, type SharedMoneyState } from "../../src/price/shared/shared_money.ts";

const STEP_MS = 100;
const DRAW_MS = 500;
const NANO = 1e9;

/** The place where the state is kept: as JSON, read and written by one at a time. */
class Shared {
  #state: string | undefined;

  draw(nowMs: number, ask: MoneyAsk): ReturnType<SharedMoney["draw"]> {
    const state: SharedMoneyState | undefined =
      this.#state === undefined ? undefined : JSON.parse(this.#state);
    const money = new SharedMoney(state);
    const grant = money.draw(nowMs, ask);
    this.#state = JSON.stringify(money.toState());
    return grant;
  }

  get grantedNano(): number {
    const { holders } = JSON.parse(this.#state ?? '{"holders":[]}') as SharedMoneyState;
    return holders.reduce((sum, [, { grantedNano }]) => sum + grantedNano, 0);
  }
}

interface Terms {
  /** Of an item, in nano-USD: what is reserved, and the share of that which it costs. */
  readonly mostNano: number;
  readonly used: number;
  readonly answerMs: number;
  readonly replyMs: number;
  readonly commitMs: number;
  readonly inFlight: number;
  /** Replies that are lost, one in so many; 0: none. */
  readonly losesEvery: number;
  /** From when to when it has no owner. */
  readonly dead: readonly [number, number];
  /** From when to when it has items. */
  readonly fromMs: number;
  readonly toMs: number;
}

interface Sent {
  readonly reservation: MoneyReservation;
  readonly sentAtMs: number;
  endedAtMs?: number;
}

/** A partition: what its log has, and its owner of the moment, which sends as much as it may. */
class Partition {
  /** What the provider has billed, with what it will bill for requests in flight. */
  billedNano = 0;
  isExhausted = false;
  readonly #terms: Terms;
  readonly #name: string;
  #epoch = 0;
  /** The log: durable commitMs after its events. */
  #intents: Sent[] = [];
  #inDoubtNano = 0;
  #settledNano = 0;
  #owner: { readonly cap: Cap; readonly budget: Budget } | undefined;
  #open: Sent[] = [];
  #nextDrawMs = 0;
  #lacks = false;
  #reply: { readonly atMs: number; readonly grant: NonNullable<ReturnType<SharedMoney["draw"]>> } | undefined;
  #draws = 0;
  #isRefused = false;

  constructor(name: string, terms: Terms) {
    this.#name = name;
    this.#terms = terms;
  }

  /** Billed, in doubt or reserved, as its owner counts it, or its next owner will. */
  committedNano(nowMs: number): number {
    if (this.#owner !== undefined) return Math.round(this.#owner.budget.committedUsd * NANO);
    return this.#recovered(nowMs);
  }

  get spentNano(): number {
    return Math.round((this.#owner?.cap.spentUsd ?? 0) * NANO);
  }

  step(nowMs: number, shared: Shared, capUsd: number): void {
    const { dead, mostNano, used, answerMs, replyMs, losesEvery, inFlight, fromMs, toMs, commitMs } =
      this.#terms;
    if (nowMs >= dead[0] && nowMs < dead[1]) {
      this.#die(nowMs);
      return;
    }
    this.#owner ??= this.#adopt(nowMs, capUsd);
    const { cap, budget } = this.#owner;
    cap.limit(capUsd);
    if (this.#reply !== undefined && this.#reply.atMs <= nowMs) {
      cap.answered(this.#reply.grant);
      this.#isRefused = this.#reply.grant.nano === 0;
      this.#reply = undefined;
    }
    for (const sent of this.#open.filter(({ sentAtMs }) => sentAtMs + answerMs <= nowMs)) {
      sent.endedAtMs = nowMs;
      this.#open.splice(this.#open.indexOf(sent), 1);
      budget.settle(sent.reservation, { billedUsd: (mostNano * used) / NANO, ambiguousUsd: 0 });
    }
    this.isExhausted = false;
    while (nowMs >= fromMs && nowMs < toMs && this.#open.length < inFlight) {
      const answer = budget.reserve(mostNano / NANO);
      this.isExhausted = !answer.ok && answer.reason === "exhausted";
      if (!answer.ok) break;
      const sent: Sent = { reservation: answer.reservation, sentAtMs: nowMs + commitMs };
      this.#intents.push(sent);
      this.#open.push(sent);
      this.billedNano += mostNano * used;
    }
    const isDue = nowMs >= this.#nextDrawMs || (this.#lacks && !this.#isRefused);
    if (!isDue || this.#reply !== undefined) return;
    this.#lacks = false;
    this.#draws += 1;
    this.#nextDrawMs = nowMs + DRAW_MS * (0.9 + 0.2 * ((this.#draws * 0.618) % 1));
    const grant = shared.draw(1e12 + nowMs, cap.ask()!);
    expect(grant).toBeDefined();
    if (losesEvery === 0 || this.#draws % losesEvery !== 0)
      this.#reply = { atMs: nowMs + replyMs, grant: grant! };
  }

  #die(nowMs: number): void {
    if (this.#owner === undefined) return;
    const recovered = this.#recovered(nowMs);
    for (const { sentAtMs } of this.#intents) // those that never left
      if (sentAtMs > nowMs) this.billedNano -= this.#terms.mostNano * this.#terms.used;
    this.#settledNano = recovered;
    this.#intents = [];
    this.#open = [];
    this.#inDoubtNano = 0;
    this.#owner = undefined;
    this.#reply = undefined;
  }

  #recovered(nowMs: number): number {
    const { commitMs, mostNano, used } = this.#terms;
    let nano = this.#settledNano + this.#inDoubtNano;
    for (const { sentAtMs, endedAtMs } of this.#intents) {
      if (sentAtMs > nowMs) continue; // its intent is not durable, and it was not sent
      const isSettled = endedAtMs !== undefined && endedAtMs + commitMs <= nowMs;
      nano += isSettled ? mostNano * used : mostNano;
    }
    return Math.round(nano);
  }

  #adopt(nowMs: number, capUsd: number): { readonly cap: Cap; readonly budget: Budget } {
    this.#epoch += 1;
    const drawn = new DrawnMoney({ holder: this.#name, epoch: this.#epoch }, () => {
      this.#lacks = true;
    });
    const cap = new Cap(capUsd, "all", drawn);
    const ambiguousUsd = this.#recovered(nowMs) / NANO;
    this.#settledNano = Math.round(ambiguousUsd * NANO);
    this.#nextDrawMs = nowMs;
    return { cap, budget: new Budget([cap], { billedUsd: 0, ambiguousUsd }) };
  }
}

const MOST_NANO = 1_000_000;
const ORDINARY: Terms = {
  ...{ mostNano: MOST_NANO, used: 0.2, answerMs: 300, replyMs: 50, commitMs: 50, inFlight: 4, losesEvery: 0 },
  ...{ dead: [0, 0], fromMs: 0, toMs: Number.POSITIVE_INFINITY },
};

const terms: fc.Arbitrary<Terms> = fc.record({
  mostNano: fc.integer({ min: 100_000, max: 3_000_000 }),
  used: fc.constantFrom(0, 0.1, 0.5, 1),
  answerMs: fc.integer({ min: 50, max: 3_000 }),
  replyMs: fc.integer({ min: 10, max: 1_500 }),
  commitMs: fc.constantFrom(0, 50, 300),
  inFlight: fc.integer({ min: 1, max: 20 }),
  losesEvery: fc.constantFrom(0, 2, 5),
  dead: fc.tuple(fc.integer({ min: 0, max: 30_000 }), fc.integer({ min: 0, max: 30_000 })),
  fromMs: fc.integer({ min: 0, max: 20_000 }),
  toMs: fc.integer({ min: 0, max: 60_000 }),
});

describe("a cap that several share", () => {
  it("is never exceeded: not by what providers bill, nor by what is in doubt, nor by what is granted", () => {
    fc.assert(
      fc.property(
        fc.array(terms, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 200 }),
        (all, items) => {
          const shared = new Shared();
          const capNano = items * MOST_NANO;
          const partitions = all.map((one, index) => new Partition(`p${index}`, one));
          for (let nowMs = 0; nowMs < 60_000; nowMs += STEP_MS) {
            let [billed, committed] = [0, 0];
            for (const partition of partitions) partition.step(nowMs, shared, capNano / NANO);
            for (const partition of partitions) {
              billed += partition.billedNano;
              committed += partition.committedNano(nowMs);
            }
            expect(billed).toBeLessThanOrEqual(capNano);
            expect(committed).toBeLessThanOrEqual(capNano + all.length); // each sum is rounded
            expect(shared.grantedNano).toBeLessThanOrEqual(capNano);
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  it("is not returned before the log has what freed it, whenever an owner is killed", () => {
    for (let run = 0; run < 200; run += 1) {
      const shared = new Shared();
      const [toMs, killedMs] = [2_000 + (run % 10) * STEP_MS, 2_500 + Math.floor(run / 10) * STEP_MS];
      const slow = { ...ORDINARY, used: 0, commitMs: 400, inFlight: 10, toMs };
      const partitions = [
        new Partition("killed", { ...slow, dead: [killedMs, 9_000] }),
        new Partition("greedy", { ...ORDINARY, used: 1, inFlight: 100, fromMs: 1_000 }),
      ];
      let most = 0;
      for (let nowMs = 0; nowMs < 7_000; nowMs += STEP_MS) {
        for (const partition of partitions) partition.step(nowMs, shared, 0.02);
        const committed = partitions.map((partition) => partition.committedNano(nowMs));
        most = Math.max(
          most,
          committed.reduce((sum, one) => sum + one, 0),
        );
      }
      expect(most).toBeLessThanOrEqual(20 * MOST_NANO + 2);
    }
  });

  it("is used until less than one item is left, by whatever holders have items, and all know that", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            used: fc.constantFrom(0.1, 0.5, 1),
            fromMs: fc.nat(5_000),
            inFlight: fc.integer({ min: 4, max: 10 }),
          }),
          {
            minLength: 1,
            maxLength: 6,
          },
        ),
        fc.integer({ min: 1, max: 60 }),
        (all, items) => {
          const shared = new Shared();
          const capNano = items * MOST_NANO;
          const partitions = all.map((one, index) => new Partition(`p${index}`, { ...ORDINARY, ...one }));
          let nowMs = 0;
          const run = (untilMs: number, usd: number): void => {
            for (; nowMs < untilMs; nowMs += STEP_MS)
              for (const partition of partitions) partition.step(nowMs, shared, usd);
          };
          run(180_000, capNano / NANO);
          const left = (): number =>
            partitions.reduce((rest, partition) => rest - partition.billedNano, capNano);
          expect(partitions.every(({ isExhausted }) => isExhausted)).toBe(true);
          expect(left()).toBeLessThan(MOST_NANO);
          run(360_000, (2 * capNano) / NANO); // raised
          expect(left() + capNano).toBeLessThan(MOST_NANO);
        },
      ),
      { numRuns: 12 },
    );
  });

  it("goes to the one that has items, while others have none and one is dead", () => {
    const shared = new Shared();
    const partitions = [
      new Partition("busy", { ...ORDINARY, fromMs: 20_000 }),
      new Partition("done", { ...ORDINARY, dead: [8_000, 8_050], fromMs: 0, inFlight: 1 }),
      new Partition("dead", { ...ORDINARY, dead: [5_000, 90_000] }),
    ];
    for (let nowMs = 0; nowMs < 240_000; nowMs += STEP_MS)
      for (const partition of partitions) partition.step(nowMs, shared, 0.1);
    const billed = partitions.map(({ billedNano }) => billedNano);
    const doubtNano = 2 * 4 * MOST_NANO; // of those that died
    expect(100 * MOST_NANO - billed.reduce((sum, one) => sum + one, 0)).toBeLessThan(MOST_NANO + doubtNano);
  });

  it("refuses an owner that a later one has replaced, and repeats an answer that was lost", () => {
    const shared = new Shared();
    const ask = (epoch: number, sequence: number, more: Partial<MoneyAsk> = {}): MoneyAsk => ({
      ...{ holder: "p", epoch, sequence, capNano: 100, spentNano: 0, heldNano: 0, returnedNano: 0 },
      ...{ wantedNano: 10, leastNano: 10, ...more },
    });
    const first = shared.draw(0, ask(1, 1));
    expect(first).toMatchObject({ nano: 10, totalNano: 10 });
    expect(shared.draw(100, ask(1, 1))).toEqual(first);
    expect(shared.draw(200, ask(2, 1, { wantedNano: 0, leastNano: 0 }))).toMatchObject({
      nano: 0,
      totalNano: 10,
    });
    expect(shared.draw(300, ask(1, 2, { returnedNano: 10 }))).toBeUndefined();
    expect(shared.grantedNano).toBe(10);
  });

  it("has the lowest amount that living holders name, and calls back what was granted under a higher one", () => {
    const shared = new Shared();
    const ask = (holder: string, sequence: number, more: Partial<MoneyAsk>): MoneyAsk => ({
      ...{ holder, epoch: 1, sequence, capNano: 100, spentNano: 0, heldNano: 0, returnedNano: 0 },
      ...{ wantedNano: 0, leastNano: 0, ...more },
    });
    expect(shared.draw(0, ask("a", 1, { wantedNano: 80, leastNano: 80 }))).toMatchObject({ totalNano: 80 });
    const low = shared.draw(1_000, ask("b", 1, { capNano: 60, wantedNano: 10, leastNano: 10 }));
    expect(low).toMatchObject({ nano: 0, capNano: 60 });
    expect(shared.draw(2_000, ask("a", 2, {}))).toMatchObject({ capNano: 60, isShort: true });
    shared.draw(3_000, ask("a", 3, { returnedNano: 70 }));
    expect(shared.draw(4_000, ask("b", 2, { capNano: 60, wantedNano: 10, leastNano: 10 }))).toMatchObject({
      nano: 10,
    });
    expect(shared.draw(20_000, ask("a", 4, {}))).toMatchObject({ capNano: 100 }); // b is silent
  });

  it("has the amount that was set in its state, while a holder still names a former one", () => {
    const ask = (holder: string, sequence: number, more: Partial<MoneyAsk>): MoneyAsk => ({
      ...{ holder, epoch: 1, sequence, capNano: 100, spentNano: 0, heldNano: 0, returnedNano: 0 },
      ...{ wantedNano: 10, leastNano: 10, ...more },
    });
    const money = new SharedMoney();
    money.draw(0, ask("a", 1, { capNano: 10 }));
    expect(money.draw(100, ask("b", 1, { capNano: 10 }))).toMatchObject({ nano: 0, capNano: 10 });
    const set = new SharedMoney({ ...money.toState(), capNano: 100 });
    expect(set.draw(200, ask("b", 2, {}))).toMatchObject({ nano: 10, capNano: 100 });
    const read = new SharedMoney(JSON.parse(JSON.stringify(set.toState())));
    expect(read.draw(300, ask("a", 2, { capNano: 10 }))).toMatchObject({ nano: 10, capNano: 100 });
  });

  it("that was exhausted and has another amount waits for the next answer, whatever an earlier ask is answered", () => {
    const shared = new Shared();
    let lacks = 0;
    const drawn = new DrawnMoney({ holder: "a", epoch: 1 }, () => {
      lacks += 1;
    });
    const cap = new Cap(10 / NANO, "cap", drawn);
    const asked = (nowMs: number): void => cap.answered(shared.draw(nowMs, cap.ask()!)!);
    cap.lacks(10);
    asked(0);
    cap.move(0, 10);
    expect(cap.fits(1)).toBe("exhausted");
    cap.lacks(1);
    const late = cap.ask()!;
    expect(cap.limit(10 / NANO)).toBe(false);
    expect(cap.limit(20 / NANO)).toBe(true);
    expect(cap.fits(1)).toBe("wait");
    cap.answered(shared.draw(500, late)!);
    expect(cap.fits(1)).toBe("wait");
    cap.lacks(1);
    asked(1_000);
    expect([cap.fits(1), cap.capUsd, lacks]).toEqual(["ok", 20 / NANO, 3]);
  });
});
