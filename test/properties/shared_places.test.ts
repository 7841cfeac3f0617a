/** Laws of a limit on requests in flight that several processes share: how many there are together, how many are used, and that nobody starves. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DrawnPlaces } from "../../src/limits/shared/drawn_places.ts";
import {
  type PlacesAsk,
  type PlacesGrant,
  SharedPlaces,
  type SharedPlacesState,
} from "../../src/limits/shared/shared_places.ts";
import { EQUAL, type Precedence } from "../../src/limits/shared/shared_work.ts";

const STEP_MS = 20;
const LASTS_MS = 8_000;

/** The place where the state is kept: as JSON, read and written by one at a time. It knows which processes were killed. */
class Shared {
  readonly killed = new Set<string>();
  readonly #precedenceOf: ((holder: string) => Precedence) | undefined;
  #state: string | undefined;

  constructor(precedenceOf?: (holder: string) => Precedence) {
    this.#precedenceOf = precedenceOf;
  }

  draw(nowMs: number, ask: PlacesAsk): PlacesGrant {
    const state: SharedPlacesState | undefined =
      this.#state === undefined ? undefined : JSON.parse(this.#state);
    const places = new SharedPlaces(state);
    const ended = new Set(places.silent(nowMs).filter((session) => this.killed.has(session)));
    const grant = places.draw(nowMs, ask, { session: ask.holder, ended }, this.#precedenceOf);
    this.#state = JSON.stringify(places.toState());
    return grant;
  }
}

interface ProcessTerms {
  /** Its clock against that of the database: 1 for the same speed. */
  readonly speed: number;
  readonly drawEveryMs: number;
  readonly replyMs: number;
  /** Replies that are lost, one in so many; 0: none. */
  readonly losesEvery: number;
  /** How long the provider works on a request; its time-out is `LASTS_MS`. */
  readonly answerMs: number;
  /** Requests that it would have in flight. */
  readonly demand: number;
  /** It wants none in every second such time. */
  readonly burstMs: number;
  /** From when to when it stands still. The provider works on. */
  readonly stopped: readonly [number, number];
  /** Killed then: the provider notices at once. */
  readonly killedMs: number;
  /** Its machine loses power then: nobody notices, and the provider works on. */
  readonly lostMs: number;
}

/** A process that sends as much as it may. */
class Sender {
  /** Of requests under way: when the provider has answered. */
  #open: number[] = [];
  /** Sums over the steps. */
  used = 0;
  readonly #name: string;
  readonly #terms: ProcessTerms;
  readonly #drawn: DrawnPlaces;
  #nextDrawMs = 0;
  #isLacking = false;
  #reply: { readonly atMs: number; readonly grant: PlacesGrant } | undefined;
  #draws = 0;
  readonly #shared: Shared;

  constructor(name: string, terms: ProcessTerms, shared: Shared, limit: number) {
    this.#name = name;
    this.#terms = terms;
    this.#shared = shared;
    this.#drawn = new DrawnPlaces(name, limit, LASTS_MS, () => {
      this.#isLacking = true;
    });
  }

  /** What the provider works on. */
  inFlight(nowMs: number): number {
    return nowMs >= this.#terms.killedMs ? 0 : this.#open.filter((atMs) => atMs > nowMs).length;
  }

  step(nowMs: number): void {
    const { stopped, speed, drawEveryMs, replyMs, losesEvery, answerMs, burstMs, killedMs, lostMs } =
      this.#terms;
    const demand = Math.floor(nowMs / burstMs) % 2 === 0 ? this.#terms.demand : 0;
    if (nowMs >= killedMs) this.#shared.killed.add(this.#name);
    if (nowMs >= Math.min(killedMs, lostMs) || (nowMs >= stopped[0] && nowMs < stopped[1])) return;
    const ownMs = 5_000 + nowMs * speed;
    const open = this.#open.filter((atMs) => atMs > nowMs);
    for (let ended = open.length; ended < this.#open.length; ended++) this.#drawn.free();
    this.#open = open;
    if (this.#reply !== undefined && this.#reply.atMs <= nowMs) {
      this.#drawn.answered(this.#reply.grant);
      this.#reply = undefined;
    }
    while (this.#open.length < demand && this.#drawn.hasRoom(ownMs)) {
      this.#drawn.take();
      this.#open.push(nowMs + answerMs);
    }
    this.used += this.#open.length;
    if (nowMs < this.#nextDrawMs && !this.#isLacking) return;
    if (this.#reply !== undefined || nowMs < this.#nextDrawMs - drawEveryMs + 50) return;
    this.#nextDrawMs = nowMs + drawEveryMs * (0.9 + 0.2 * ((this.#draws * 0.618) % 1));
    this.#isLacking = false;
    const ask = this.#drawn.ask(ownMs);
    if (ask === undefined) return;
    const grant = this.#shared.draw(1e12 + nowMs + replyMs / 2, ask);
    this.#draws += 1;
    if (losesEvery === 0 || this.#draws % losesEvery !== 0) this.#reply = { atMs: nowMs + replyMs, grant };
  }
}

interface Ran {
  readonly senders: readonly Sender[];
  /** Together, at each step. */
  readonly inFlight: readonly number[];
}

function run(
  all: readonly ProcessTerms[],
  limit: number,
  lengthMs: number,
  precedenceOf?: (holder: string) => Precedence,
): Ran {
  const shared = new Shared(precedenceOf);
  const senders = all.map((terms, index) => new Sender(`p${index}`, terms, shared, limit));
  const inFlight: number[] = [];
  for (let nowMs = 0; nowMs < lengthMs; nowMs += STEP_MS) {
    for (const sender of senders) sender.step(nowMs);
    inFlight.push(senders.reduce((sum, sender) => sum + sender.inFlight(nowMs), 0));
  }
  return { senders, inFlight };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

const ORDINARY: ProcessTerms = {
  ...{ speed: 1, drawEveryMs: 500, replyMs: 20, losesEvery: 0, answerMs: 400, demand: 1_000 },
  ...{
    burstMs: Number.POSITIVE_INFINITY,
    stopped: [0, 0],
    killedMs: Number.POSITIVE_INFINITY,
    lostMs: Number.POSITIVE_INFINITY,
  },
};

const never = fc.constant(Number.POSITIVE_INFINITY);
const atMs = fc.integer({ min: 0, max: 40_000 });

const terms = fc.record({
  speed: fc.double({ min: 0.95, max: 1.05, noNaN: true }),
  drawEveryMs: fc.integer({ min: 200, max: 900 }),
  replyMs: fc.constantFrom(0, 20, 400, 3_000),
  losesEvery: fc.constantFrom(0, 0, 2, 5),
  answerMs: fc.constantFrom(20, 300, 2_000, LASTS_MS),
  demand: fc.constantFrom(1, 3, 20, 1_000),
  burstMs: fc.constantFrom(Number.POSITIVE_INFINITY, 80, 700, 1_100, 3_000),
  stopped: fc
    .tuple(atMs, fc.constantFrom(0, 1_000, 5_000, 30_000, 1e9))
    .map(([fromMs, lengthMs]): [number, number] => [fromMs, fromMs + lengthMs]),
  killedMs: fc.oneof(never, never, atMs),
  lostMs: fc.oneof(never, never, atMs),
});

describe("SharedPlaces and DrawnPlaces", () => {
  it("hold the limit on requests in flight of all processes, with stops, kills, lost machines and replies, and clocks of other speeds", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.array(terms, { minLength: 1, maxLength: 5 }),
        (limit, all) => {
          expect(Math.max(...run(all, limit, 60_000).inFlight)).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: 60 },
    );
  });

  it.each([
    [8, 2],
    [100, 8],
    [3, 8],
    [1, 2],
  ])("use at least 90 percent of %i places, shared by %i processes of which none starves", (limit, count) => {
    const all = Array.from({ length: count }, (_, index) => ({ ...ORDINARY, drawEveryMs: 490 + index * 3 }));
    const { senders, inFlight } = run(all, limit, 200_000); // turns are even over some 40 rounds
    expect(mean(inFlight.slice(100))).toBeGreaterThan(0.9 * limit);
    const shares = senders.map(({ used }) => used);
    expect(Math.min(...shares) / Math.max(...shares)).toBeGreaterThan(0.8);
  });

  it.each([
    [8, 6],
    [4, 3],
    [1, 0.75],
  ])("are shared by weights: of %i places one of weight 3 beside one of weight 1 has %d", (limit, heavy) => {
    const all = [0, 1].map((index) => ({ ...ORDINARY, drawEveryMs: 490 + index * 3 }));
    const { senders, inFlight } = run(all, limit, 240_000, (name) => ({
      ...EQUAL,
      weight: name === "p0" ? 3 : 1,
    }));
    const steps = inFlight.length;
    expect(mean(inFlight.slice(100))).toBeGreaterThan(0.9 * limit);
    expect(Math.abs(senders[0]!.used / steps - heavy)).toBeLessThan(0.06 * limit);
  });

  it("serve what has precedence first, and the rest by weights", () => {
    const all = [0, 1].map((index) => ({ ...ORDINARY, drawEveryMs: 490 + index * 3 }));
    const { senders, inFlight } = run(all, 8, 60_000, (name) => ({ ...EQUAL, first: name === "p0" ? 6 : 0 }));
    expect(senders[0]!.used / inFlight.length).toBeGreaterThan(6.5);
  });

  it("give one process all places within a second while the others want none", () => {
    const idle = { ...ORDINARY, demand: 0 };
    const { inFlight } = run([ORDINARY, idle, idle], 32, 10_000);
    expect(Math.min(...inFlight.slice(50))).toBeGreaterThanOrEqual(31);
  });

  it("free the places of a killed process 5 s after its last ask, and those of a lost machine when its requests must have ended", () => {
    const waits = (dead: Partial<ProcessTerms>): number => {
      const { inFlight } = run([{ ...ORDINARY, answerMs: 20, ...dead }, ORDINARY], 8, 30_000);
      const from = 10_000 / STEP_MS;
      return inFlight.slice(from).indexOf(8) * STEP_MS;
    };
    expect(waits({ killedMs: 10_000 })).toBeGreaterThan(4_000);
    expect(waits({ killedMs: 10_000 })).toBeLessThan(6_500);
    expect(waits({ lostMs: 10_000 })).toBeGreaterThan(LASTS_MS);
    expect(waits({ lostMs: 10_000 })).toBeLessThan(12_500);
  });

  it("keep the places of a process whose ask hung until its session ended, and that asks again then", () => {
    const places = new SharedPlaces();
    const draw = (
      nowMs: number,
      holder: string,
      sequence: number,
      held: number,
      ended: readonly string[] = [],
    ) =>
      places.draw(
        nowMs,
        { holder, sequence, held, wanted: 64, limit: 64, lastsMs: 600_000 },
        { session: `${holder}${nowMs}`, ended: new Set(ended) },
      ).places;
    expect(draw(0, "a", 1, 0)).toBe(64);
    for (let nowMs = 500, sequence = 1; nowMs < 6_000; nowMs += 500, sequence += 1)
      expect(draw(nowMs, "b", sequence, 0)).toBe(0);
    expect(draw(6_450, "b", 20, 0, ["a0"])).toBe(0);
    expect(draw(6_600, "a", 2, 64)).toBeGreaterThan(0);
    expect(draw(7_000, "b", 21, 0)).toBe(0);
    for (let nowMs = 9_000, sequence = 30; nowMs < 12_500; nowMs += 500, sequence += 1)
      draw(nowMs, "b", sequence, 0, ["a6600"]);
    expect(draw(12_500, "b", 50, 0, ["a6600"])).toBe(64);
  });

  it("report what is charged and the lowest limit of those that asked lately, also long after the last ask", () => {
    const places = new SharedPlaces();
    places.draw(0, { holder: "a", sequence: 1, held: 0, wanted: 3, limit: 10, lastsMs: LASTS_MS });
    places.draw(100, { holder: "b", sequence: 1, held: 0, wanted: 0, limit: 8, lastsMs: LASTS_MS });
    expect(places.inForce(1_600)).toEqual({ charged: 3, limit: 8 });
    expect(places.inForce(1_601)).toEqual({ charged: 3, limit: undefined });
    expect(new SharedPlaces(places.toState()).inForce(20_000)).toEqual({ charged: 0, limit: undefined });
  });

  it("answer an ask that is repeated as before", () => {
    const shared = new Shared();
    const ask = { holder: "a", sequence: 1, held: 0, wanted: 5, limit: 8, lastsMs: LASTS_MS };
    const first = shared.draw(0, ask);
    expect(first.places).toBe(5);
    shared.draw(100, { ...ask, holder: "b" });
    expect(shared.draw(400, ask)).toEqual(first);
  });

  it("start nothing after 90 % of a grant's life by the process's own clock, counted from before the first try of the ask", () => {
    const drawn = new DrawnPlaces("a", 8, LASTS_MS, () => undefined);
    expect(drawn.hasRoom(0)).toBe(false);
    const ask = drawn.ask(100)!;
    expect(drawn.ask(900)).toBe(ask);
    drawn.answered({ places: 3, lifeMs: 2_000, charged: 3, limit: 8 });
    expect(drawn.hasRoom(1_899)).toBe(true);
    expect(drawn.hasRoom(1_900)).toBe(false);
    expect(drawn.mayStart(1_900)).toBe(false);
  });

  it("keep fewer places only when their holder has read so", () => {
    const shared = new Shared();
    const ask = { sequence: 1, held: 0, wanted: 8, limit: 8, lastsMs: LASTS_MS };
    expect(shared.draw(0, { ...ask, holder: "a" }).places).toBe(8);
    expect(shared.draw(10, { ...ask, holder: "b" }).places).toBe(0);
    expect(shared.draw(500, { ...ask, holder: "a", sequence: 2, held: 8 }).places).toBe(4);
    expect(shared.draw(510, { ...ask, holder: "b", sequence: 2 }).places).toBe(0);
    expect(shared.draw(1_000, { ...ask, holder: "a", sequence: 3, held: 4 }).places).toBe(4);
    expect(shared.draw(1_010, { ...ask, holder: "b", sequence: 3 }).places).toBe(4);
  });
});
