/** Laws of a quota that several processes share: what any window holds, how much of it is used, and that nobody starves. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DrawnUnits } from "../../src/limits/shared/drawn_units.ts";
import {
  type BlockAsk,
  SharedWindow,
  type SharedWindowState,
} from "../../src/limits/shared/shared_window.ts";

const WINDOW_MS = 60_000;
const STEP_MS = 20;

interface Spend {
  atMs: number;
  units: number;
}

/** A request. `atMs`: when it is answered. */
interface Sent {
  mark: number;
  readonly spend: Spend;
  readonly atMs: number;
}

/** The place where the state is kept: as JSON, read and written by one at a time. */
class Shared {
  #state: string | undefined;

  draw(nowMs: number, ask: BlockAsk): ReturnType<SharedWindow["draw"]> {
    const state: SharedWindowState | undefined =
      this.#state === undefined ? undefined : JSON.parse(this.#state);
    const window = new SharedWindow(state);
    const grant = window.draw(nowMs, ask);
    this.#state = JSON.stringify(window.toState());
    return grant;
  }
}

interface ProcessTerms {
  readonly units: number;
  /** Its clock against that of the database: 1 for the same speed. */
  readonly speed: number;
  readonly drawEveryMs: number;
  readonly replyMs: number;
  /** Replies that are lost, one in so many; 0: none. */
  readonly losesEvery: number;
  /** Of an answer: share of the reserved units that was used; above 1 is not drawn, because it may exceed the limit. */
  readonly used: number;
  readonly answerMs: number;
  /** How long after it was counted each third request leaves: its disk was slow. 0: all leave at once. */
  readonly lateMs: number;
  /** From when to when it stands still. */
  readonly stopped: readonly [number, number];
}

/** A process that sends as much as it may. */
class Sender {
  readonly spends: Spend[] = [];
  readonly #terms: ProcessTerms;
  readonly #drawn: DrawnUnits;
  readonly #open: Sent[] = [];
  /** Counted, and not sent yet. */
  readonly #late: Sent[] = [];
  #nextDrawMs = 0;
  #reply: { readonly atMs: number; readonly grant: ReturnType<SharedWindow["draw"]> } | undefined;
  #draws = 0;

  constructor(name: string, terms: ProcessTerms) {
    this.#terms = terms;
    this.#drawn = new DrawnUnits(name);
  }

  step(nowMs: number, shared: Shared, limit: number): void {
    const { stopped, speed, units, replyMs, losesEvery, drawEveryMs } = this.#terms;
    if (nowMs >= stopped[0] && nowMs < stopped[1]) return;
    const ownMs = 5_000 + nowMs * speed;
    if (this.#reply !== undefined && this.#reply.atMs <= nowMs) {
      this.#drawn.answered(this.#reply.grant);
      this.#reply = undefined;
    }
    this.#leave(nowMs);
    this.#settle(nowMs);
    for (let count = 0; count < 20 && this.#drawn.has(ownMs, units); count++) this.#send(nowMs);
    if (nowMs < this.#nextDrawMs || this.#reply !== undefined) return;
    this.#nextDrawMs = nowMs + drawEveryMs * (0.9 + 0.2 * ((this.#draws * 0.618) % 1));
    const ask = this.#drawn.ask(ownMs, limit);
    if (ask === undefined) return;
    const grant = shared.draw(1e12 + nowMs + replyMs / 2, ask);
    this.#draws += 1;
    if (losesEvery === 0 || this.#draws % losesEvery !== 0) this.#reply = { atMs: nowMs + replyMs, grant };
  }

  #send(nowMs: number): void {
    const { units, answerMs, lateMs } = this.#terms;
    const spend = { atMs: nowMs, units };
    this.spends.push(spend);
    const isLate = lateMs > 0 && this.spends.length % 3 === 0;
    const atMs = nowMs + answerMs + (isLate ? lateMs : 0);
    const sent = { mark: this.#drawn.spend(units), spend, atMs };
    this.#open.push(sent);
    this.#open.sort((one, other) => one.atMs - other.atMs);
    if (isLate) this.#late.push(sent);
  }

  #leave(nowMs: number): void {
    while (this.#late[0] !== undefined && this.#late[0].spend.atMs + this.#terms.lateMs <= nowMs) {
      const sent = this.#late.shift()!;
      sent.mark = this.#drawn.move(sent.mark, sent.spend.units);
      sent.spend.atMs = nowMs;
    }
  }

  #settle(nowMs: number): void {
    while (this.#open[0] !== undefined && this.#open[0].atMs <= nowMs) {
      const { mark, spend } = this.#open.shift()!;
      const used = Math.floor(spend.units * this.#terms.used);
      this.#drawn.adjust(mark, used - spend.units);
      spend.units = used;
    }
  }
}

function run(senders: readonly Sender[], limit: number, lengthMs: number): Spend[] {
  const shared = new Shared();
  for (let nowMs = 0; nowMs < lengthMs; nowMs += STEP_MS)
    for (const sender of senders) sender.step(nowMs, shared, limit);
  return senders.flatMap(({ spends }) => spends).sort((left, right) => left.atMs - right.atMs);
}

/** Windows are half open. */
function fullest(spends: readonly Spend[]): number {
  let [most, sum, oldest] = [0, 0, 0];
  for (const { atMs, units } of spends) {
    sum += units;
    while (spends[oldest]!.atMs <= atMs - WINDOW_MS) sum -= spends[oldest++]!.units;
    most = Math.max(most, sum);
  }
  return most;
}

function usedFrom(spends: readonly Spend[], fromMs: number): number {
  return spends.reduce((sum, { atMs, units }) => (atMs >= fromMs ? sum + units : sum), 0);
}

const ORDINARY: ProcessTerms = {
  ...{ units: 1, speed: 1, drawEveryMs: 500, replyMs: 20, losesEvery: 0, used: 1, answerMs: 100 },
  lateMs: 0,
  stopped: [0, 0],
};

const terms = fc.record({
  units: fc.integer({ min: 1, max: 40 }),
  speed: fc.double({ min: 0.95, max: 1.05, noNaN: true }),
  drawEveryMs: fc.integer({ min: 200, max: 900 }),
  replyMs: fc.constantFrom(0, 20, 400, 3_000),
  losesEvery: fc.constantFrom(0, 0, 2, 5),
  used: fc.double({ min: 0, max: 1, noNaN: true }),
  answerMs: fc.constantFrom(0, 700, 8_000, 70_000),
  lateMs: fc.constantFrom(0, 300, 3_000),
  stopped: fc
    .tuple(fc.integer({ min: 0, max: 90_000 }), fc.constantFrom(0, 1_000, 5_000, 70_000, 1e9))
    .map(([fromMs, lengthMs]): [number, number] => [fromMs, fromMs + lengthMs]),
});

describe("SharedWindow and DrawnUnits", () => {
  it("hold the limit in any 60 s of all processes, with stops, deaths, lost and late answers and clocks of other speeds", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 40, max: 5_000 }),
        fc.array(terms, { minLength: 1, maxLength: 5 }),
        (limit, all) => {
          const senders = all.map((each, index) => new Sender(`p${index}`, each));
          expect(fullest(run(senders, limit, 150_000))).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: 40 },
    );
  });

  it.each([
    [60_000, 8, 25],
    [3_600_000, 8, 3_000],
    [600, 8, 1],
  ])(
    "use at least 97 percent of %i a minute, shared fairly by %i processes with requests of %i",
    (limit, count, units) => {
      const senders = Array.from(
        { length: count },
        (_, index) => new Sender(`p${index}`, { ...ORDINARY, units, drawEveryMs: 490 + index * 3 }),
      );
      const spends = run(senders, limit, 180_000);
      const used = spends.reduce((sum, { atMs, units: one }) => sum + (atMs >= 120_000 ? one : 0), 0);
      expect(used).toBeGreaterThanOrEqual(limit * 0.97);
      const shares = senders.map((sender) => sender.spends.length);
      expect(Math.min(...shares) / Math.max(...shares)).toBeGreaterThan(0.8);
    },
  );

  it.each([
    [6_000, 1],
    [60_000, 25],
  ])(
    "use at least 97 percent of %i a minute where requests of %i leave after they were counted",
    (limit, units) => {
      const late = { ...ORDINARY, units, lateMs: 700 };
      const senders = Array.from(
        { length: 8 },
        (_, index) => new Sender(`p${index}`, { ...late, drawEveryMs: 490 + index * 3 }),
      );
      expect(usedFrom(run(senders, limit, 180_000), 120_000)).toBeGreaterThanOrEqual(limit * 0.97);
    },
  );

  it("give a process whose requests leave late no more than the others", () => {
    const senders = [700, 0].map(
      (lateMs, index) =>
        new Sender(`p${index}`, { ...ORDINARY, units: 10, lateMs, drawEveryMs: 490 + index * 7 }),
    );
    const spends = run(senders, 24_000, 180_000);
    const part = usedFrom(senders[0]!.spends, 60_000) / usedFrom(spends, 60_000);
    expect(part).toBeGreaterThan(0.45);
    expect(part).toBeLessThan(0.55);
  });

  it("end by the process's own clock after 90 % of a block's life, counted from before the first try of the ask", () => {
    const drawn = new DrawnUnits("a");
    expect(drawn.has(0, 3)).toBe(false);
    const ask = drawn.ask(100, 600)!;
    expect(drawn.ask(900, 600)).toBe(ask);
    const grant = { units: 3, lifeMs: 2_000, drawMs: 500, slot: 0, charged: 3, limit: 600, isUnknown: false };
    drawn.answered(grant);
    expect(drawn.has(1_899, 3)).toBe(true);
    expect(drawn.has(1_900, 3)).toBe(false);
  });

  it("charge what a dead process had for a window after its end, and then no more", () => {
    const shared = new Shared();
    const dead = {
      holder: "dead",
      sequence: 1,
      spent: 0,
      unspent: 0,
      returned: [],
      wanted: 10,
      least: 10,
      limit: 600,
    };
    expect(shared.draw(0, dead).units).toBe(10);
    const other = { ...dead, holder: "other", wanted: 0 };
    const chargedAt = (nowMs: number, sequence: number): number =>
      shared.draw(nowMs, { ...other, sequence }).charged;
    expect(chargedAt(1_000, 1)).toBe(10);
    expect(chargedAt(61_900, 2)).toBe(10);
    expect(chargedAt(62_600, 3)).toBe(0);
  });

  it("report what is charged and the lowest limit of those that drew lately, also long after the last draw", () => {
    const window = new SharedWindow();
    const ask = { sequence: 1, spent: 0, unspent: 0, returned: [], wanted: 10, least: 10 };
    window.draw(0, { ...ask, holder: "a", limit: 900 });
    window.draw(100, { ...ask, holder: "b", limit: 600, wanted: 0 });
    expect(window.inForce(1_600)).toEqual({ charged: 10, limit: 600 });
    expect(window.inForce(1_601)).toEqual({ charged: 10, limit: undefined });
    const read = (nowMs: number) => new SharedWindow(window.toState()).inForce(nowMs);
    expect(read(61_900)).toEqual({ charged: 10, limit: undefined });
    expect(read(200_000)).toEqual({ charged: 0, limit: undefined });
  });

  it("answer an ask that is repeated as before, and book it once", () => {
    const shared = new Shared();
    const ask = {
      holder: "a",
      sequence: 1,
      spent: 0,
      unspent: 0,
      returned: [],
      wanted: 5,
      least: 1,
      limit: 600,
    };
    const first = shared.draw(0, ask);
    expect(first.units).toBe(5);
    expect(shared.draw(400, ask)).toEqual(first);
    const report = { ...ask, sequence: 2, spent: 3, wanted: 0 };
    expect(shared.draw(500, report).charged).toBe(5);
    expect(shared.draw(600, report).charged).toBe(5);
  });

  it("let a request above the limit go alone in its window, before smaller ones that come later", () => {
    const shared = new Shared();
    const ask = { sequence: 0, spent: 0, unspent: 0, returned: [], wanted: 1, least: 1, limit: 100 };
    expect(shared.draw(0, { ...ask, holder: "small", sequence: 1 }).units).toBe(1);
    const large = { ...ask, holder: "large", wanted: 150, least: 150 };
    const granted: [number, string][] = [];
    for (let nowMs = 500, sequence = 2; nowMs < 150_000; nowMs += 500, sequence++) {
      if (shared.draw(nowMs, { ...large, sequence }).units > 0) granted.push([nowMs, "large"]);
      if (shared.draw(nowMs, { ...ask, holder: "small", sequence, spent: sequence === 2 ? 1 : 0 }).units > 0)
        granted.push([nowMs, "small"]);
      if (granted.length > 0) break;
    }
    expect(granted).toEqual([[61_000, "large"]]);
  });

  it("have each of 60 processes draw every 0.9 s, and use at least 96 percent together", () => {
    const [limit, count] = [180_000, 60];
    const senders = Array.from(
      { length: count },
      (_, index) => new Sender(`p${index}`, { ...ORDINARY, units: 50, drawEveryMs: 870 + index }),
    );
    const spends = run(senders, limit, 130_000);
    expect(fullest(spends)).toBeLessThanOrEqual(limit);
    const used = spends.reduce((sum, { atMs, units }) => sum + (atMs >= 70_000 ? units : 0), 0);
    expect(used).toBeGreaterThanOrEqual(limit * 0.96);
    const shared = new Shared();
    const ask = { sequence: 1, spent: 0, unspent: 0, returned: [], wanted: 5, least: 1, limit };
    const grants = Array.from({ length: count }, (_, index) =>
      shared.draw(index, { ...ask, holder: `p${index}` }),
    );
    expect(grants[0]).toMatchObject({ drawMs: 500, lifeMs: 2_000 });
    expect(grants.at(-1)).toMatchObject({ drawMs: 900, lifeMs: 3_600 });
  });

  it.each([0.9, 0.5, 0.25])("use the limit where answers use %s of what was reserved for them", (used) => {
    const LIMIT = 24_000;
    const all = [0, 1, 2].map(
      (at) =>
        new Sender(`process ${at}`, { ...ORDINARY, units: 40, used, replyMs: 20 + at * 7, answerMs: 400 }),
    );
    const spends = run(all, LIMIT, 180_000);
    const sums = all.map(({ spends: own }) => usedFrom(own, 60_000));
    const sum = sums.reduce((one, other) => one + other, 0);
    expect(sum / (2 * LIMIT)).toBeGreaterThan(0.95);
    for (const own of sums) expect(own / sum).toBeGreaterThan(0.25);
    expect(fullest(spends)).toBeLessThanOrEqual(LIMIT);
  });

  it("let a block live as long as its holder needs until its next draw, when another quota makes it draw less often", () => {
    const ask = {
      holder: "a",
      sequence: 1,
      spent: 0,
      unspent: 0,
      returned: [],
      wanted: 5,
      least: 1,
      limit: 600,
    };
    expect(new Shared().draw(0, { ...ask, drawMs: 1_500 })).toMatchObject({ drawMs: 500, lifeMs: 6_000 });
  });

  it("count what left later than it was counted once, and leave the block as it was", () => {
    const shared = new Shared();
    const drawn = new DrawnUnits("a");
    const draw = (nowMs: number) => {
      const grant = shared.draw(nowMs, drawn.ask(nowMs, 480)!);
      drawn.answered(grant);
      return grant;
    };
    expect(drawn.has(0, 8)).toBe(false);
    expect(draw(0).units).toBe(8);
    const mark = drawn.spend(8);
    expect(drawn.has(400, 2)).toBe(false);
    expect(draw(500).units).toBe(8);
    const late = drawn.move(mark, 8);
    expect(drawn.has(600, 2)).toBe(true);
    drawn.spend(2);
    drawn.adjust(late, -3);
    const nextAt = [1_000, 1_500, 2_000].map(draw);
    expect(nextAt.at(-1)!.charged).toBe(7);
  });

  it("say that a draw before its time brings nothing where all want more than there is", () => {
    const shared = new Shared();
    const drawn = new DrawnUnits("a");
    expect(drawn.has(0, 10)).toBe(false);
    drawn.answered(shared.draw(0, drawn.ask(0, 600)!));
    expect([drawn.isShort, drawn.has(1, 10)]).toEqual([false, true]);
    drawn.spend(10);
    expect(drawn.has(100, 10)).toBe(false);
    drawn.answered(shared.draw(100, drawn.ask(100, 600)!));
    expect([drawn.isShort, drawn.has(101, 10)]).toEqual([true, false]);
  });
});

interface Item {
  mark: number;
  units: number;
  /** Whether no ask has told of it yet. */
  isNew: boolean;
}

/** A process of which each step is said, and what it has used. */
class Teller {
  items: Item[] = [];
  readonly #drawn: DrawnUnits;
  readonly #shared: Shared;
  #under: ReturnType<SharedWindow["draw"]> | undefined;
  #isUnder = false;
  /** Since the last ask, more than new items. */
  #hasChanged = false;

  constructor(name: string, shared: Shared) {
    this.#drawn = new DrawnUnits(name);
    this.#shared = shared;
  }

  get used(): number {
    return this.items.reduce((sum, { units }) => sum + units, 0);
  }

  spend(nowMs: number, units: number): void {
    if (this.#drawn.has(nowMs, units))
      this.items.push({ mark: this.#drawn.spend(units), units, isNew: true });
  }

  /** Items that are sent while nothing is limited. */
  spendUnlimited(units: number): void {
    if (this.#isUnder || this.#hasChanged || this.items.some(({ isNew }) => isNew)) return;
    this.#drawn.spend(units);
    this.#drawn.forget();
  }

  settle(which: number, by: number): void {
    const item = this.items[which % Math.max(1, this.items.length)];
    if (item === undefined) return;
    const delta = Math.max(-item.units, by);
    this.#drawn.adjust(item.mark, delta);
    item.units += delta;
    this.#hasChanged = true;
  }

  move(which: number): void {
    const item = this.items[which % Math.max(1, this.items.length)];
    if (item === undefined) return;
    item.mark = this.#drawn.move(item.mark, item.units);
    this.#hasChanged = true;
  }

  /** The answer arrives later. */
  ask(nowMs: number): void {
    const wasUnder = this.#isUnder;
    const ask = this.#drawn.ask(nowMs, 100_000);
    if (ask === undefined) return;
    this.#under = this.#shared.draw(1e12 + nowMs, ask);
    this.#isUnder = true;
    if (wasUnder) return;
    for (const item of this.items) item.isNew = false;
    this.#hasChanged = false;
  }

  answer(): void {
    if (this.#under !== undefined) this.#drawn.answered(this.#under);
    this.#under = undefined;
    this.#isUnder = false;
  }
}

const told = fc.record({
  kind: fc.constantFrom("spend", "spend", "spendUnlimited", "settle", "move", "ask", "answer", "wait"),
  who: fc.nat(1),
  which: fc.nat(40),
  units: fc.integer({ min: 1, max: 60 }),
  by: fc.integer({ min: -60, max: 30 }),
  ms: fc.constantFrom(1, 400, 1_900, 2_600),
});

it("a quota that several share charges what they have used, and nothing else once nobody wants more", () => {
  fc.assert(
    fc.property(fc.array(told, { maxLength: 60 }), (steps) => {
      const shared = new Shared();
      const tellers = [new Teller("a", shared), new Teller("b", shared)] as const;
      let nowMs = 0;
      for (const { kind, who, which, units, by, ms } of steps) {
        const teller = tellers[who === 0 ? 0 : 1];
        if (kind === "wait" && nowMs + ms < 50_000) nowMs += ms;
        else if (kind === "spend") teller.spend(nowMs, units);
        else if (kind === "spendUnlimited") teller.spendUnlimited(units);
        else if (kind === "settle") teller.settle(which, by);
        else if (kind === "move") teller.move(which);
        else if (kind === "ask") teller.ask(nowMs);
        else if (kind === "answer") teller.answer();
      }
      for (let round = 0; round < 5; round += 1) {
        nowMs += 500;
        for (const teller of tellers) {
          teller.ask(nowMs);
          teller.answer();
        }
      }
      const { charged } = shared.draw(1e12 + nowMs, { ...NOTHING, holder: "reader" });
      expect(charged).toBe(tellers[0].used + tellers[1].used);
    }),
    { numRuns: 500 },
  );
});

const NOTHING = {
  ...{ sequence: 1, spent: 0, unspent: 0, returned: [], wanted: 0, least: 1, limit: 100_000 },
};
