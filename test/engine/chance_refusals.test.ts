/** 429s that come by chance, at any rate, without a wait: they cost their own retries, and no pace. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { type Answering, INPUT, OUTPUT, ok, status, World } from "./world.ts";

const ITEMS = 1_000;
/** `TEST_LIMIT_SEEDS` draws more, and of every rate. */
const SEEDS = Array.from({ length: Number(process.env["TEST_LIMIT_SEEDS"] ?? 1) }, (_, index) => index + 1);
const DRAWS_ALL = process.env["TEST_LIMIT_SEEDS"] !== undefined;
const LOOKED_EVERY_MS = 1_000;
/** What trials, and the backoff of the last items, may take beside the pace; at one half refused, ten 429s in a row are common. */
const FIXED_S = new Map([
  [0.01, 5],
  [0.05, 20],
  [0.1, 15],
  [0.25, 60],
  [0.5, 120],
]);

interface Job {
  readonly share: number;
  readonly inFlight: number;
  readonly latencyMs: number;
  /** What a 429 takes; as long as an answer. */
  readonly refusalMs?: number;
  readonly seed: number;
}

/** Of the rates, two with each number in flight and each latency: a fault that one of them shows, others show, too. */
const JOBS = [...FIXED_S.keys()].flatMap((share, rate) =>
  [8, 64].flatMap((inFlight, places) =>
    [50, 2_000].flatMap((latencyMs, answers) =>
      DRAWS_ALL || (rate + places + answers) % 2 === 0
        ? SEEDS.map((seed): Job => ({ share, inFlight, latencyMs, seed }))
        : [],
    ),
  ),
);

/** Where answers take long: 429s that come at once, and as late as an answer. */
const LATE_JOBS = (DRAWS_ALL ? [5_000, 10_000, 30_000] : [5_000, 30_000]).flatMap((latencyMs) =>
  [50, latencyMs].flatMap((refusalMs) =>
    [0.01, 0.1, 0.25].flatMap((share) =>
      SEEDS.map((seed) => ({ share, inFlight: 64, latencyMs, refusalMs, seed })),
    ),
  ),
);

describe("429s that come by chance", () => {
  it.each(JOBS)(
    "$share of all, $inFlight in flight, $latencyMs ms, seed $seed: hardly later than without them",
    async (job) => {
      const { seconds, answered } = await run(job);
      const alone = (ITEMS * job.latencyMs) / job.inFlight / 1_000;
      expect(answered).toBe(ITEMS);
      expect(seconds).toBeLessThan((2 * alone) / (1 - job.share) + (FIXED_S.get(job.share) ?? 0));
    },
  );

  it.each(LATE_JOBS)(
    "$share of all, answers of $latencyMs ms, 429s of $refusalMs ms, seed $seed: less than twice as long",
    async (job) => {
      const { seconds, answered } = await run(job);
      expect(answered).toBe(ITEMS);
      expect(seconds).toBeLessThan((2 * ITEMS * job.latencyMs) / job.inFlight / 1_000);
    },
  );

  it("all of them: a few probes a minute, and no storm", async () => {
    const { requests, answered } = await run({ share: 1, inFlight: 64, latencyMs: 50, seed: 1 }, 10 * 60_000);
    expect(answered).toBe(0);
    expect(requests).toBeLessThan(64 + 10 * 20);
  });
});

describe("time in which a lane has nothing to send, or may not send", () => {
  const REFUSED = 0.15;

  it.each([40, 80, 140])(
    "between two runs is no time of low load: 300 items take less than 40 s, an hour after %i others",
    async (before) => {
      const random = createRandom(3);
      const world = worldOf({ inFlight: 8, latencyMs: 200 }, (line) =>
        random() < REFUSED ? status(429, "rate_limit_exceeded") : ok(line),
      );
      const engine = await world.engine();
      world.input(before);
      await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
      await world.clock.advance(3_600_000);
      const fromMs = world.clock.nowMs();
      world.input(300, "alpha:m1", "/later.jsonl");
      const { counts } = await world.settle(engine.run("/later.jsonl", { out: "/later.out.jsonl" }).finished);
      expect(counts.completed).toBe(300);
      expect(world.clock.nowMs() - fromMs).toBeLessThan(40_000);
      await world.settle(engine.close());
    },
  );

  it.each([20, 40, 70])(
    "because a 429 states a wait is no time of low load: 300 items take less than 60 s beside it, with it at request %i",
    async (stating) => {
      const random = createRandom(3);
      let requests = 0;
      const world = worldOf({ inFlight: 8, latencyMs: 200 }, (line) => {
        requests += 1;
        if (requests === stating) return status(429, "rate_limit_exceeded", { "retry-after": "900" });
        return random() < REFUSED ? status(429, "rate_limit_exceeded") : ok(line);
      });
      world.input(300);
      const engine = await world.engine();
      const { counts } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
      expect(counts.completed).toBe(300);
      expect(world.clock.nowMs()).toBeLessThan(960_000);
      await world.settle(engine.close());
    },
  );
});

function worldOf({ inFlight, latencyMs }: Pick<Job, "inFlight" | "latencyMs">, answer: Answering): World {
  return new World({ config: { maxInFlight: inFlight, waitMs: 36_000_000 }, latencyMs, answer });
}

async function run(
  { share, inFlight, latencyMs, refusalMs = latencyMs, seed }: Job,
  limitMs = 1_500_000,
): Promise<{ readonly seconds: number; readonly requests: number; readonly answered: number }> {
  const random = createRandom(seed);
  let [answered, requests, lastMs] = [0, 0, 0];
  const world: World = worldOf({ inFlight, latencyMs }, (line) => {
    requests += 1;
    if (random() < share) return { afterMs: refusalMs, result: status(429, "rate_limit_exceeded") };
    answered += 1;
    lastMs = world.clock.nowMs();
    return ok(line);
  });
  world.input(ITEMS);
  const engine = await world.engine();
  engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined); // the last test leaves it under way
  for (let atMs = 0; atMs < limitMs && answered < ITEMS; atMs += LOOKED_EVERY_MS)
    await world.clock.advance(LOOKED_EVERY_MS);
  return { seconds: lastMs / 1_000, requests, answered };
}
