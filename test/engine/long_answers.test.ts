/**
 * A thousand items of one model and output limit, some of which take far longer than most: at most 1 point of them is paid
 * twice, or late, beyond what one attempt each would be. Requests that hang for ever are given up all the same.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, World } from "./world.ts";

const ITEMS = 1_000;
/** Of a thousand items. */
const POINT = 10;
const SHORT_MS = 2_000;
/** Each mix with both times. */
const DRAWS_ALL = process.env["TEST_LIMIT_SEEDS"] !== undefined;

/** An attempt may take 10 minutes. */
const LONGEST_MS = 590_000;

/** Milliseconds of the answers, by the line. */
type Draw = (line: number, random: () => number) => number;

const long = (random: () => number): number => 60_000 + 30_000 * random();

/** A share of the lines after `after` take long. */
const mix =
  (share: number, after = 0): Draw =>
  (line, random) =>
    line > after && random() < share ? long(random) : SHORT_MS;

const logNormal =
  (medianMs: number, sigma: number): Draw =>
  (_, random) =>
    Math.min(LONGEST_MS, medianMs * Math.exp(sigma * normal(random)));

const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

const blocks: Draw = (line, random) => (Math.floor((line - 1) / 100) % 2 === 1 ? long(random) : SHORT_MS);

const MIXES: Readonly<Record<string, Draw>> = {
  "one of ten": mix(0.1),
  "one of fifty": mix(0.02),
  "one of a hundred": mix(0.01),
  "one of two hundred": mix(0.005),
  "one of ten of the second half": mix(0.1, 500),
  "three of ten of the second half": mix(0.3, 500),
  "all of the second half": mix(1, 500),
  "every second hundred": blocks,
  "log-normal, 2 s, sigma 1.5": logNormal(2_000, 1.5),
  "log-normal, 2 s, sigma 2": logNormal(2_000, 2),
  "log-normal, 10 s, sigma 1.5": logNormal(10_000, 1.5),
  "log-normal, 10 s, sigma 2": logNormal(10_000, 2),
};

interface Setting {
  readonly draw: Draw;
  /** Minutes. */
  readonly sla: number;
  /** Whether each attempt takes its own time, or each item. */
  readonly isDrawnAnew?: boolean;
  /** Part of the requests that are never answered. */
  readonly hungShare?: number;
}

interface Came {
  readonly late: number;
  /** Answers that were paid, and did not come or were not waited for. */
  readonly inVain: number;
  /** Items that one attempt each, without one that hangs, would have brought too late. */
  readonly lateAtOnce: number;
  /** Requests that never were answered. */
  readonly hung: number;
  /** What was waited for each of them. */
  readonly waitedMs: readonly number[];
}

/** Ten items a second. */
async function came({ draw, sla, isDrawnAnew = false, hungShare = 0 }: Setting): Promise<Came> {
  const random = createRandom(7);
  const drawn = Array.from({ length: ITEMS }, (_, at) => draw(at + 1, random));
  const world = new World({
    config: { limits: { alpha: { requestsPerMinute: 600 } } },
    answer: (line, attempt) => {
      if (random() < hungShare) return "hang";
      const afterMs = isDrawnAnew && attempt > 1 ? draw(line, random) : (drawn[line - 1] as number);
      return { afterMs, result: ok(line) };
    },
  });
  world.input(ITEMS);
  const engine = await world.engine();
  const { counts } = await world.settle(engine.run(INPUT, { out: OUTPUT, sla }).finished);
  expect(counts.completed + counts.expired).toBe(ITEMS);
  await engine.close();
  const firstOf = new Map(world.wire.ledger.toReversed().map((entry) => [entry.body, entry]));
  const { ledger } = world.wire;
  const hung = ledger.filter(({ script }) => script.kind === "hang");
  const endMs = sla * 60_000;
  return {
    late: counts.expired,
    inVain: ledger.filter(({ script, result }) => script.kind === "answer" && result?.ok !== true).length,
    lateAtOnce: [...firstOf.values()].filter(
      ({ script, sentMs }) => script.kind === "answer" && sentMs + script.afterMs > endMs,
    ).length,
    hung: hung.length,
    waitedMs: hung.map(({ sentMs, settledMs = endMs }) => settledMs - sentMs),
  };
}

for (const sla of [1_440, 5])
  describe(`of a thousand items with ${sla} minutes, at most ten are paid twice or late for it`, () => {
    for (const [index, [name, draw]] of Object.entries(MIXES).entries()) {
      if (!DRAWS_ALL && index % 4 < 2 === (sla === 5)) continue; // each mix once: three of each kind and time
      const isDrawnAnew = (index % 2 === 0) === (sla === 5);
      it(`when long answers are ${name}${isDrawnAnew ? ", and each attempt has its own" : ""}`, async () => {
        const { late, inVain, lateAtOnce } = await came({ draw, sla, isDrawnAnew });
        expect(inVain).toBeLessThanOrEqual(lateAtOnce + POINT);
        expect(ITEMS - late).toBeGreaterThanOrEqual(0.99 * (ITEMS - lateAtOnce));
      });
    }
  });

describe("requests that hang for ever", () => {
  for (const share of [0.01, 0.05])
    for (const [name, draw] of Object.entries({
      "quick answers": () => 900,
      "answers of which one of two hundred takes long": mix(0.005),
      "answers of which one of a hundred takes long": mix(0.01),
    }))
      it(`are given up in time among ${name}: ${share * 100} %`, async () => {
        const { late, inVain, hung, waitedMs } = await came({ draw, sla: 5, hungShare: share });
        expect(hung).toBeGreaterThan(ITEMS * share * 0.5);
        expect(inVain).toBeLessThanOrEqual(POINT);
        // Only an item of which both attempts hang has no third one in time.
        expect(late).toBeLessThanOrEqual(hung * share + 3);
        expect(waitedMs.filter((ms) => ms > 181_000).length).toBeLessThanOrEqual(late);
      });

  it("are given up soon once earlier waits have proved it, while others are answered", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 200 } } },
      answer: (line, attempt) =>
        line % 40 === 20 && attempt === 1 ? "hang" : { afterMs: 900, result: ok(line) },
    });
    world.input(ITEMS);
    const { finished } = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 1_440 });
    expect(await world.settle(finished)).toMatchObject({
      counts: { completed: ITEMS },
      usage: { attempts: ITEMS + ITEMS / 40 },
    });
    const hung = world.wire.ledger.filter(({ script }) => script.kind === "hang");
    const waitedMs = hung.map(({ sentMs, settledMs = Number.POSITIVE_INFINITY }) => settledMs - sentMs);
    expect(Math.max(...waitedMs)).toBeLessThan(135_000);
    const after = waitedMs.filter((_, at) => (hung[at]?.sentMs as number) > 200_000);
    expect(after.length).toBeGreaterThan(6);
    expect(Math.max(...after)).toBeLessThan(6_000);
  });
});
