/** Items that are always refused with a 429, among others that are answered: their refusals say nothing about a limit. */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const WAITS: Readonly<Record<string, Record<string, string>>> = {
  "no wait": {},
  "a wait of 50 ms": { "retry-after": "0.05" },
};

interface Sent {
  readonly line: number;
  readonly atMs: number;
  readonly isAnswered: boolean;
}

interface Case {
  readonly count: number;
  readonly isRefused: (line: number) => boolean;
  readonly maxInFlight: number;
  readonly latencyMs?: number;
  readonly headers?: Record<string, string>;
  /** Requests that the provider accepts in a sliding minute. */
  readonly limit?: number;
  readonly forMs?: number;
}

const RATE_LIMIT = "rate_limit_exceeded";

/** What a run sends. */
async function sentOf(options: Case): Promise<readonly Sent[]> {
  const { count, isRefused, maxInFlight, latencyMs = 20, headers = {}, limit, forMs = 60_000 } = options;
  const sent: Sent[] = [];
  const isFull = (nowMs: number): boolean =>
    limit !== undefined &&
    sent.filter(({ atMs, isAnswered }) => isAnswered && atMs > nowMs - 60_000).length >= limit;
  const world: World = new World({
    config: { maxInFlight },
    latencyMs,
    answer: (line): Reply => {
      const atMs = world.clock.nowMs();
      const isAnswered = !isRefused(line) && !isFull(atMs);
      sent.push({ line, atMs, isAnswered });
      return isAnswered ? ok(line) : status(429, RATE_LIMIT, isRefused(line) ? headers : {});
    },
  });
  world.input(count);
  const engine = await world.engine();
  engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
  await world.clock.advance(forMs);
  return sent;
}

const answered = (sent: readonly Sent[]): readonly Sent[] => sent.filter(({ isAnswered }) => isAnswered);

/** Spread evenly. */
const spread =
  (refused: number, count: number) =>
  (line: number): boolean =>
    line % Math.floor(count / refused) === 7;

const CASES = [8, 64].flatMap((maxInFlight) =>
  [
    [1, 1_000],
    [2, 400],
    [3, 300],
    [10, 450],
  ].flatMap(([refused = 0, count = 0]) =>
    Object.keys(WAITS).map((wait) => [refused, count, maxInFlight, wait] as const),
  ),
);

describe("items that are always refused", () => {
  it.each(CASES)(
    "do not slow the others: %i of %i, %i in flight, %s",
    async (refused, count, maxInFlight, wait) => {
      const isRefused = spread(refused, count);
      const headers = WAITS[wait] ?? {};
      const alone = answered(await sentOf({ count, isRefused: () => false, maxInFlight }));
      const beside = answered(await sentOf({ count, isRefused, maxInFlight, headers }));
      expect(alone).toHaveLength(count);
      expect(beside).toHaveLength(count - refused);
      const [aloneMs = 0, besideMs = 0] = [alone.at(-1)?.atMs, beside.at(-1)?.atMs];
      expect(besideMs).toBeLessThan(2 * aloneMs + refused * 500); // until its second refusal, an item holds the lane
    },
  );

  it.each([8, 64])(
    "do not slow the others when they are the first, with answers of 2 s: %i in flight",
    async (maxInFlight) => {
      const options = { count: 300, maxInFlight, latencyMs: 2_000, forMs: 200_000 };
      const alone = answered(await sentOf({ ...options, isRefused: () => false }));
      const beside = answered(await sentOf({ ...options, isRefused: (line) => line <= 3 }));
      expect(beside).toHaveLength(297);
      expect(alone).toHaveLength(300);
      expect(beside.at(-1)?.atMs).toBeLessThan((alone.at(-1)?.atMs ?? 0) + 45_000);
    },
  );

  it("are tried further, and less and less often", async () => {
    const sent = await sentOf({
      count: 200,
      isRefused: (line) => line === 7,
      maxInFlight: 8,
      forMs: 600_000,
    });
    const tries = sent.filter(({ line, atMs }) => line === 7 && atMs > 60_000);
    expect(tries.length).toBeGreaterThan(10);
    expect(tries.length).toBeLessThan(100);
  });

  it.each([
    [600, 1],
    [600, 3],
    [60, 1],
  ])("do not hide a real limit of %i a minute: %i of them", async (limit, refused) => {
    const isRefused = (line: number): boolean => line % 10 === 7 && line <= refused * 10;
    const options = { count: limit * 7, maxInFlight: 64, limit, forMs: 300_000 };
    const sent = (await sentOf({ ...options, isRefused })).filter(({ atMs }) => atMs > 60_000);
    const others = sent.filter(({ line }) => !isRefused(line));
    const used = answered(others).length;
    expect(used).toBeGreaterThanOrEqual(0.9 * 4 * limit);
    expect(others.length - used).toBeLessThan(0.03 * others.length);
  });
});

describe("items for which an account has no money, while it has for others", () => {
  it.each([1, 3, 10])("%i of 400 cost the others a second each, and stay open", async (dear) => {
    const isDear = (line: number): boolean => line % 20 === 5 && line < 20 * dear;
    const world: World = new World({
      answer: (line) => (isDear(line) ? status(402, "insufficient_credits") : ok(line)),
      latencyMs: 200,
      config: { maxInFlight: 8 },
    });
    world.input(400);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 3_600_000 });
    expect(await world.settle(run.finished)).toMatchObject({
      counts: { completed: 400 - dear, submitted: dear },
    });
    const last = world.sent.findLast(({ line }) => !isDear(line));
    expect(last?.atMs).toBeLessThan(10_000 + dear * 1_500);
  });
});
