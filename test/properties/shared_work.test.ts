/** Laws of shares in a quota that several processes draw from: by the weights of what waits, with precedence, lent while unused, and nobody starves. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DrawnUnits } from "../../src/limits/shared/drawn_units.ts";
import { SharedWindow, type SharedWindowState } from "../../src/limits/shared/shared_window.ts";
import {
  CLASSES_MAX,
  type DueClass,
  dueClasses,
  NO_WORK,
  SharedWork,
  type SharedWorkState,
  type WorkStanding,
} from "../../src/limits/shared/shared_work.ts";
import { shareAt, waterLevel } from "../../src/limits/shared/water_filling.ts";

const WINDOW_MS = 60_000;
const STEP_MS = 20;
const ENDLESS = 1e9;

interface ProcessTerms {
  /** Of each request. */
  readonly units: number;
  /** Undefined: a version that says nothing of its work. */
  readonly weight: number | undefined;
  readonly drawEveryMs: number;
  /** Requests a second that it would send. */
  readonly perSecond: number;
  /** Units with precedence that wait from when on, and until when it works. */
  readonly first: number;
  readonly fromMs: number;
  readonly untilMs: number;
}

const ORDINARY: ProcessTerms = {
  ...{ units: 1, weight: 1, drawEveryMs: 500, perSecond: ENDLESS, first: 0, fromMs: 0 },
  untilMs: Number.POSITIVE_INFINITY,
};

interface Spend {
  readonly atMs: number;
  readonly units: number;
}

/** The place where the states are kept, as JSON. */
class Shared {
  window: string | undefined;
  work: string | undefined;

  draw(nowMs: number, ask: Parameters<SharedWindow["draw"]>[1], standing: WorkStanding | undefined) {
    const work = new SharedWork(parsed<SharedWorkState>(this.work));
    if (standing !== undefined && work.report(nowMs, { holder: ask.holder, ...standing }))
      this.work = JSON.stringify(work.toState());
    const window = new SharedWindow(parsed<SharedWindowState>(this.window));
    const grant = window.draw(nowMs, ask, (holder) => work.precedence(holder, "requests"));
    this.window = JSON.stringify(window.toState());
    return grant;
  }
}

function parsed<T>(text: string | undefined): T | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as T);
}

class Sender {
  readonly spends: Spend[] = [];
  readonly #terms: ProcessTerms;
  readonly #drawn: DrawnUnits;
  #nextDrawMs = 0;
  #draws = 0;
  #first: number;

  constructor(name: string, terms: ProcessTerms) {
    this.#terms = terms;
    this.#drawn = new DrawnUnits(name);
    this.#first = terms.first;
  }

  step(nowMs: number, shared: Shared, limit: number): void {
    const { units, perSecond, fromMs, untilMs, drawEveryMs } = this.#terms;
    if (nowMs < fromMs || nowMs >= untilMs) return;
    const due = ((nowMs - fromMs) / 1_000) * perSecond;
    for (let count = 0; count < 20 && this.spends.length < due && this.#drawn.has(nowMs, units); count++) {
      this.spends.push({ atMs: nowMs, units });
      this.#first = Math.max(0, this.#first - units);
      this.#drawn.spend(units);
    }
    if (nowMs < this.#nextDrawMs) return;
    this.#nextDrawMs = nowMs + drawEveryMs * (0.95 + 0.1 * ((this.#draws * 0.618) % 1));
    this.#draws += 1;
    const ask = this.#drawn.ask(nowMs, limit);
    if (ask !== undefined) this.#drawn.answered(shared.draw(1e12 + nowMs, ask, this.#standing()));
  }

  /** Units sent in a time. */
  sent(fromMs: number, untilMs: number): number {
    return this.spends.reduce(
      (sum, { atMs, units }) => sum + (atMs >= fromMs && atMs < untilMs ? units : 0),
      0,
    );
  }

  #standing(): WorkStanding | undefined {
    const { weight } = this.#terms;
    if (weight === undefined) return undefined;
    const none = { inputTokens: 0, outputTokens: 0 };
    const first = this.#first > 0 ? { weight, requests: this.#first, ...none } : NO_WORK.first;
    return { weight, first, classes: [{ deadlineMs: null, requests: ENDLESS, ...none }], batched: [] };
  }
}

function run(all: readonly Partial<ProcessTerms>[], limit: number, lengthMs: number): Sender[] {
  const shared = new Shared();
  const senders = all.map(
    (terms, index) => new Sender(`p${index}`, { ...ORDINARY, drawEveryMs: 490 + index * 7, ...terms }),
  );
  for (let nowMs = 0; nowMs < lengthMs; nowMs += STEP_MS)
    for (const sender of senders) sender.step(nowMs, shared, limit);
  return senders;
}

/** Units of all in the fullest window; windows are half open. */
function fullest(senders: readonly Sender[]): number {
  const spends = senders.flatMap(({ spends }) => spends).sort((left, right) => left.atMs - right.atMs);
  let [most, sum, oldest] = [0, 0, 0];
  for (const { atMs, units } of spends) {
    sum += units;
    while (spends[oldest]!.atMs <= atMs - WINDOW_MS) sum -= spends[oldest++]!.units;
    most = Math.max(most, sum);
  }
  return most;
}

describe("shares of a quota that processes draw from", () => {
  it("hold the limit in any 60 s, whatever waits and has precedence", () => {
    const terms = fc.record({
      units: fc.integer({ min: 1, max: 30 }),
      weight: fc.constantFrom(undefined, 0.5, 1, 3, 40),
      drawEveryMs: fc.integer({ min: 200, max: 900 }),
      perSecond: fc.constantFrom(1, 10, ENDLESS),
      first: fc.constantFrom(0, 1, 500, ENDLESS),
      fromMs: fc.integer({ min: 0, max: 60_000 }),
      untilMs: fc.integer({ min: 60_000, max: 150_000 }),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 30, max: 3_000 }),
        fc.array(terms, { minLength: 1, maxLength: 5 }),
        (limit, all) => {
          expect(fullest(run(all, limit, 130_000))).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: 30 },
    );
  });

  it.each([
    [60, 1, [1, 3]],
    [600, 1, [1, 3]],
    [600, 1, [1, 1, 2, 4]],
    [60_000, 25, [1, 3]],
    [60_000, 400, [2, 1, 3]],
    [60_000, 1_500, [1, 3]],
  ])(
    "of %i a minute with requests of %i are as the weights %j, and all of it is used",
    (limit, units, weights) => {
      const senders = run(
        weights.map((weight) => ({ weight, units })),
        limit,
        300_000,
      );
      const sent = senders.map((sender) => sender.sent(60_000, 300_000));
      const all = sent.reduce((sum, each) => sum + each, 0);
      expect(all).toBeGreaterThanOrEqual(limit * 4 * 0.96);
      const weight = weights.reduce((sum, each) => sum + each, 0);
      for (const [index, each] of sent.entries())
        expect(Math.abs(each / all - weights[index]! / weight)).toBeLessThan(0.04);
    },
  );

  it("are equal for a process that says nothing of its work and one with a single project", () => {
    const [silent, other] = run([{ weight: undefined }, { weight: 1 }], 600, 180_000);
    expect(silent!.sent(60_000, 180_000) / other!.sent(60_000, 180_000)).toBeGreaterThan(0.9);
    expect(silent!.sent(60_000, 180_000) / other!.sent(60_000, 180_000)).toBeLessThan(1.1);
  });

  it("are lent: one alone has all, and a heavy one that wants little leaves the rest", () => {
    const [alone] = run([{ weight: 1 }, { weight: 9, perSecond: 0 }], 600, 180_000);
    expect(alone!.sent(60_000, 120_000)).toBeGreaterThan(0.97 * 600);
    const [light, heavy] = run([{ weight: 1 }, { weight: 9, perSecond: 2 }], 600, 180_000);
    expect(heavy!.sent(60_000, 120_000)).toBeGreaterThan(0.95 * 120);
    expect(light!.sent(60_000, 120_000)).toBeGreaterThan(0.95 * 480);
  });

  it("are all for work with precedence while it waits, and then as before", () => {
    const [first, patient] = run([{ first: 300, fromMs: 65_000 }, { weight: 3 }], 600, 180_000);
    expect(first!.sent(67_000, 95_000)).toBeGreaterThan(0.93 * 280);
    expect(patient!.sent(70_000, 93_000)).toBeLessThan(0.05 * 230);
    const [share, rest] = [first!.sent(120_000, 180_000), patient!.sent(120_000, 180_000)];
    expect(share / (share + rest)).toBeGreaterThan(0.2);
    expect(share / (share + rest)).toBeLessThan(0.3);
  });

  it("leave others what work with precedence does not want", () => {
    const [first, patient] = run([{ first: ENDLESS, perSecond: 4 }, {}], 600, 180_000);
    expect(first!.sent(60_000, 120_000)).toBeGreaterThan(0.97 * 240);
    expect(patient!.sent(60_000, 120_000)).toBeGreaterThan(0.93 * 360);
  });

  it("are by weight between two with precedence, before a third without", () => {
    const [one, three, none] = run(
      [{ first: ENDLESS }, { first: ENDLESS, weight: 3 }, { weight: 100 }],
      600,
      180_000,
    );
    const sent = [one, three].map((sender) => sender!.sent(60_000, 180_000));
    expect(sent[0]! / (sent[0]! + sent[1]!)).toBeGreaterThan(0.21);
    expect(sent[0]! / (sent[0]! + sent[1]!)).toBeLessThan(0.29);
    expect(none!.sent(60_000, 180_000)).toBeLessThan(30);
  });

  it("are others' again within 5 s of the death of one with precedence, and nobody starves whose requests are larger than a share", () => {
    const [, patient] = run([{ first: ENDLESS, untilMs: 90_000 }, {}], 600, 180_000);
    expect(patient!.sent(95_000, 105_000)).toBeGreaterThan(0.9 * 100);
    const [large] = run([{ units: 550 }, { weight: 9 }], 600, 900_000);
    expect(large!.spends.length).toBeGreaterThanOrEqual(2);
  });

  it("let a first request go at once, however large the others' weights", () => {
    const [, late] = run([{ weight: 50 }, { fromMs: 100_000, perSecond: 0.1 }], 600, 130_000);
    expect(late!.spends[0]?.atMs).toBeLessThan(112_000);
  });
});

describe("water-filling", () => {
  it("gives out the amount or all that is wanted, and nobody less than one of the same weight who gets more", () => {
    const claim = fc.record({
      wanted: fc.double({ min: 0, max: 100, noNaN: true }),
      weight: fc.double({ min: 0.01, max: 50, noNaN: true }),
    });
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 500, noNaN: true }),
        fc.array(claim, { maxLength: 8 }),
        (amount, claims) => {
          const level = waterLevel(amount, claims);
          const shares = claims.map((each) => shareAt(level, each));
          const sum = shares.reduce((total, share) => total + share, 0);
          const wanted = claims.reduce((total, each) => total + each.wanted, 0);
          expect(sum).toBeCloseTo(Math.min(amount, wanted), 6);
          for (const [index, share] of shares.entries())
            expect(share === claims[index]!.wanted || share >= level * claims[index]!.weight - 1e-9).toBe(
              true,
            );
        },
      ),
    );
  });
});

describe("SharedWork", () => {
  const standing: WorkStanding = {
    weight: 3,
    first: { weight: 2, requests: 10, inputTokens: 100, outputTokens: 50 },
    classes: [{ deadlineMs: 1_700_000_000_000, requests: 10, inputTokens: 100, outputTokens: 50 }],
    batched: [{ deadlineMs: null, requests: 3, inputTokens: 30, outputTokens: 20 }],
  };

  it("keeps what each process has, and forgets it 12 s after its last report, or when it has nothing", () => {
    const before = new SharedWork();
    expect(before.report(0, { holder: "a", ...standing })).toBe(true);
    const work = new SharedWork(parsed<SharedWorkState>(JSON.stringify(before.toState())));
    expect(work.others(0, "b")).toEqual([
      { holder: "a", weight: 3, classes: standing.classes, batched: standing.batched },
    ]);
    expect(work.others(0, "a")).toEqual([]);
    expect(work.precedence("a", "tokens")).toEqual({ weight: 3, first: 150, firstWeight: 2 });
    expect(work.precedence("b", "tokens")).toEqual({ weight: 1, first: 0, firstWeight: 1 });
    expect(work.others(12_001, "b")).toEqual([]);
    expect(work.report(600, { holder: "a", ...NO_WORK })).toBe(true);
    expect(work.others(600, "b")).toEqual([]);
  });

  it("is written each second, and at once when weights change", () => {
    const work = new SharedWork();
    expect(work.report(0, { holder: "a", ...standing })).toBe(true);
    expect(work.report(500, { holder: "a", ...standing })).toBe(false);
    expect(work.report(500, { holder: "a", ...standing, weight: 4 })).toBe(true);
    expect(work.report(1_500, { holder: "a", ...standing, weight: 4 })).toBe(true);
    expect(work.report(1_500, { holder: "b", ...NO_WORK })).toBe(false);
  });

  it("puts deadlines together until there are few, loses no work, and makes none of it due later", () => {
    const work = fc.record({
      deadlineMs: fc.option(fc.integer({ min: -10_000, max: 700_000_000 })),
      requests: fc.integer({ min: 1, max: 1_000 }),
      inputTokens: fc.nat(10_000),
      outputTokens: fc.nat(10_000),
    });
    fc.assert(
      fc.property(fc.array(work, { maxLength: 200 }), (works: readonly DueClass[]) => {
        const classes = dueClasses(0, works);
        expect(classes.length).toBeLessThanOrEqual(CLASSES_MAX);
        const dueBy = (all: readonly DueClass[], untilMs: number): number =>
          all.reduce(
            (sum, { deadlineMs, requests }) => sum + ((deadlineMs ?? 1e12) <= untilMs ? requests : 0),
            0,
          );
        expect(dueBy(classes, 1e13)).toBe(dueBy(works, 1e13));
        for (const { deadlineMs } of works)
          expect(dueBy(classes, deadlineMs ?? 1e12)).toBeGreaterThanOrEqual(dueBy(works, deadlineMs ?? 1e12));
      }),
    );
  });
});
