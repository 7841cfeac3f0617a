/**
 * Answers that take much of the time there is: an attempt has all of it, what hangs is asked again, and what would be
 * answered too late is not sent.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { INPUT, itemLine, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const MINUTE_MS = 60_000;
const RUNS = 10;
const ITEMS = 60;

/** Milliseconds of an answer, by a seed and its number. */
type Draw = (line: number) => number;

const fixed =
  (share: number): Draw =>
  () =>
    share * MINUTE_MS;

/** Log-normal, the median is a share of a minute. */
function logNormal(share: number, sigma: number, seed: number): Draw {
  const random = createRandom(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return () => share * MINUTE_MS * Math.exp(sigma * normal());
}

interface Came {
  /** Of all items, in percent. */
  readonly onTime: number;
  readonly paidInVain: number;
  /** What one attempt each would have brought. */
  readonly onTimeAtOnce: number;
}

/** Ten runs after another with a minute each. */
async function came(draw: Draw): Promise<Came> {
  let onTimeAtOnce = 0;
  const world = new World({
    answer: (line, attempt) => {
      const afterMs = draw(line);
      if (attempt === 1 && afterMs <= MINUTE_MS) onTimeAtOnce += 1;
      return { afterMs, result: ok(line) };
    },
  });
  const engine = await world.engine();
  let onTime = 0;
  for (let run = 0; run < RUNS; run += 1) {
    const lines = Array.from({ length: ITEMS }, (_, at) => itemLine(run * ITEMS + at + 1));
    world.disk.put(`/in${run}`, lines.join(""));
    const { finished } = engine.run(`/in${run}`, { out: `/out${run}`, sla: 1 });
    const { counts, usage } = await world.settle(finished);
    expect(counts.completed + counts.expired).toBe(ITEMS);
    expect(usage.attempts - usage.ambiguous_attempts).toBe(counts.completed);
    onTime += counts.completed;
  }
  await engine.close();
  const percent = 100 / (RUNS * ITEMS);
  return {
    onTime: onTime * percent,
    paidInVain: (world.sent.length - onTime) * percent,
    onTimeAtOnce: onTimeAtOnce * percent,
  };
}

function expectNoWorse({ onTime, paidInVain, onTimeAtOnce }: Came): void {
  expect(onTime).toBeGreaterThanOrEqual(0.99 * onTimeAtOnce);
  expect(paidInVain).toBeLessThanOrEqual(100 - onTimeAtOnce + 1);
}

describe("answers that take a share of the deadline", () => {
  for (const share of [0.1, 0.3, 0.5, 0.75, 0.95]) {
    it(`come in time and are paid once when all take ${share * 100} % of it`, async () => {
      expect(await came(fixed(share))).toEqual({ onTime: 100, paidInVain: 0, onTimeAtOnce: 100 });
    });

    for (const sigma of [0.5, 1])
      it(`come as one attempt each would bring them: log-normal, ${share * 100} %, sigma ${sigma}`, async () => {
        expectNoWorse(await came(logNormal(share, sigma, Math.round(share * 100 + sigma * 1_000))));
      });
  }
});

describe("a request that hangs", () => {
  it("among quick ones is given up and requested again in time", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 600 } } },
      answer: (line, attempt) =>
        line % 50 === 0 && attempt === 1 ? "hang" : { afterMs: 800 + (line % 9) * 50, result: ok(line) },
    });
    world.input(500);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 2 });
    expect(await world.settle(run.finished)).toMatchObject({
      counts: { completed: 500 },
      usage: { attempts: 510, ambiguous_attempts: 10 },
    });
  });

  it("is requested again without a deadline, too, long before its provider's time-out", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 600 } } },
      answer: (line, attempt) =>
        line === 100 && attempt === 1 ? "hang" : { afterMs: 900, result: ok(line) },
    });
    world.input(300);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 300 } });
    expect(world.clock.nowMs()).toBeLessThan(MINUTE_MS);
  });

  it.each(["500", "reset"])(
    "is given up, too, if an earlier request of its item ended in a %s",
    async (how) => {
      const broken = how === "500" ? status(500) : ({ ok: false, failure: "lost", message: how } as const);
      const world = new World({
        config: { limits: { alpha: { requestsPerMinute: 600 } } },
        answer: (line, attempt) => {
          if (line === 200 && attempt < 3) return attempt === 1 ? broken : "hang";
          return { afterMs: 900, result: ok(line) };
        },
      });
      world.input(500);
      const run = (await world.engine()).run(INPUT, { out: OUTPUT });
      expect(await world.settle(run.finished)).toMatchObject({
        counts: { completed: 500 },
        usage: { attempts: 502, ambiguous_attempts: 2 },
      });
      expect(world.clock.nowMs()).toBeLessThan(1.5 * MINUTE_MS);
    },
  );

  it("is waited for when everything else hangs with it", async () => {
    const slow = { fromMs: 30_000, untilMs: 70_000 };
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 300 } } },
      answer: (line) => {
        const nowMs = world.clock.nowMs();
        const isSlow = slow.fromMs <= nowMs && nowMs < slow.untilMs;
        return { afterMs: isSlow ? slow.untilMs - nowMs + 500 : 500, result: ok(line) };
      },
    });
    world.input(300);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 5 });
    expect(await world.settle(run.finished)).toMatchObject({
      counts: { completed: 300 },
      usage: { attempts: 300, ambiguous_attempts: 0 },
    });
  });

  it("is given up once for an item: what takes long by itself is answered", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 600 } } },
      answer: (line) => ({ afterMs: line === 400 ? 40_000 : 700, result: ok(line) }),
    });
    world.input(500);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 3 });
    expect(await world.settle(run.finished)).toMatchObject({
      counts: { completed: 500 },
      usage: { attempts: 501, ambiguous_attempts: 1 },
    });
  });

  it("ends at its provider's own time-out, and no sooner", async () => {
    const provider = { baseUrl: "http://alpha.test/v1", key: "k", timeoutMs: 1_200_000 };
    const world = new World({
      config: { providers: { alpha: provider } },
      answer: (line, attempt) => (attempt === 1 ? "hang" : ok(line)),
    });
    world.input(1);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1 } });
    expect(world.sent[1]?.atMs).toBeGreaterThanOrEqual(1_200_000);
    expect(world.sent[1]?.atMs).toBeLessThan(1_300_000);
  });
});

describe("a request whose answer would be late", () => {
  const config = { limits: { alpha: { requestsPerMinute: 60 } } };

  /** A run of a hundred with a minute, of which the second half cannot be answered in time. */
  async function paced(world: World, path: string, first: number, more: object = {}) {
    world.disk.put(path, Array.from({ length: 100 }, (_, at) => itemLine(first + at)).join(""));
    return { out: `${path}.out`, sla: 1, ...more };
  }

  it("is not sent once that is known, and its item ends at its deadline without a request", async () => {
    const world = new World({ config, answer: (line) => ({ afterMs: 40_000, result: ok(line) }) });
    const engine = await world.engine();
    await world.settle(engine.run("/first", await paced(world, "/first", 1)).finished);
    const [sentBefore, startMs] = [world.sent.length, world.clock.nowMs()];
    const second = await world.settle(engine.run("/second", await paced(world, "/second", 1_000)).finished);
    const sent = world.sent.slice(sentBefore);
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(startMs + MINUTE_MS);
    expect(sent.length).toBeGreaterThan(15);
    for (const { atMs } of sent) expect(atMs - startMs).toBeLessThanOrEqual(20_000);
    expect(second.counts).toMatchObject({ completed: sent.length, expired: 100 - sent.length });
    expect(second.usage).toMatchObject({ attempts: sent.length, ambiguous_attempts: 0 });
  });

  it("holds up nobody who has the time", async () => {
    const world = new World({ config, answer: (line) => ({ afterMs: 40_000, result: ok(line) }) });
    const engine = await world.engine();
    await world.settle(engine.run("/first", await paced(world, "/first", 1)).finished);
    const late = engine.run("/late", await paced(world, "/late", 1_000));
    await world.clock.advance(30_000);
    const before = world.sent.length;
    const patient = engine.run("/patient", await paced(world, "/patient", 5_000, { sla: 60 }));
    await world.clock.advance(25_000);
    expect(world.sent.length - before).toBeGreaterThan(20);
    expect(world.sent.slice(before).every(({ line }) => line >= 5_000)).toBe(true);
    expect(await world.settle(patient.finished)).toMatchObject({ counts: { completed: 100 } });
    await world.settle(late.finished);
  });

  it("is sent after all when answers become quicker", async () => {
    let latencyMs = 40_000;
    const world = new World({ config, answer: (line) => ({ afterMs: latencyMs, result: ok(line) }) });
    const engine = await world.engine();
    await world.settle(engine.run("/first", await paced(world, "/first", 1)).finished);
    latencyMs = 1_000;
    await world.settle(engine.run("/quick", await paced(world, "/quick", 1_000, { sla: 60 })).finished);
    const again = await world.settle(engine.run("/again", await paced(world, "/again", 5_000)).finished);
    expect(again.counts.completed).toBeGreaterThan(50);
  });
});

describe("what an earlier process learnt of answers", () => {
  /** Runs so many items of a world in an engine of its own, in a minute each. */
  async function runIn(world: World, items: number): Promise<{ completed: number; sent: number }> {
    const before = world.sent.length;
    world.input(items);
    const engine = await world.engine();
    const out = `/out${before}`;
    const { counts } = await world.settle(engine.run(INPUT, { out, id: out, sla: 1 }).finished);
    await world.settle(engine.close());
    return { completed: counts.completed, sent: world.sent.length - before };
  }

  it("keeps the next one from sending what would be late, but for one request that looks whether it still is", async () => {
    const world = new World({ answer: (line) => ({ afterMs: 90_000, result: ok(line) }) });
    expect(await runIn(world, 40)).toEqual({ completed: 0, sent: 40 });
    expect(await runIn(world, 40)).toEqual({ completed: 0, sent: 1 });
  });

  it("is not forgotten by answers that take as long", async () => {
    const random = createRandom(1);
    const answer = (line: number): Reply => ({ afterMs: 41_000 + 8_000 * random(), result: ok(line) });
    const world = new World({ answer });
    await runIn(world, 64);
    const startMs = world.clock.nowMs();
    const before = world.sent.length;
    await runIn(world, 100);
    const late = world.sent.slice(before).filter(({ atMs }) => atMs - startMs > 20_000);
    expect(late.length).toBeLessThanOrEqual(1); // which looks whether it still is so
  });

  it("is forgotten at the first answer that is much quicker", async () => {
    let afterMs = 90_000;
    const world = new World({ answer: (line) => ({ afterMs, result: ok(line) }) });
    await runIn(world, 40);
    afterMs = 2_000;
    expect(await runIn(world, 40)).toEqual({ completed: 40, sent: 40 });
  });

  it("says from the start what hangs", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 600 } } } });
    world.input(100);
    const first = await world.engine();
    await world.settle(first.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(first.close());
    const lines = Array.from({ length: 20 }, (_, at) => itemLine(1_001 + at)).join("");
    world.answer = (line, attempt) => (line === 1_001 && attempt === 1 ? "hang" : ok(line));
    world.disk.put("/next.jsonl", lines);
    const startMs = world.clock.nowMs();
    const next = await world.engine();
    await world.settle(next.run("/next.jsonl", { out: "/next.out" }).finished);
    expect(world.clock.nowMs() - startMs).toBeLessThan(20_000);
    await world.settle(next.close());
  });
});
