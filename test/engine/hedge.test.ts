/**
 * A second attempt beside one that hangs, where `hedge` is set: the first complete answer counts, and both are booked.
 */
import { describe, expect, it } from "vitest";
import { resolveConfig } from "../../src/engine/config/config.ts";
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import { type Answering, INPUT, OUTPUT, ok, status, World } from "./world.ts";

const MINUTE_MS = 60_000;
/** Of an answer of the world. */
const ANSWER_USD = (10 * 2 + 5 * 4) / 1e6;

const priced: ConfigOptions = {
  hedge: true,
  prices: { "alpha:*": { inputUsdPerMillion: 2, outputUsdPerMillion: 4 } },
  limits: { alpha: { requestsPerMinute: 600 } },
};

/** One of a hundred hangs at first; what others take is drawn by their numbers. */
const hangs =
  (hung: number, then: (line: number, attempt: number) => ReturnType<Answering>): Answering =>
  (line, attempt) =>
    line === hung ? then(line, attempt) : { afterMs: 800 + (line % 9) * 50, result: ok(line) };

async function finished(world: World, items = 500, options: object = {}) {
  world.input(items);
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, ...options }).finished);
  await world.settle(engine.close());
  return summary;
}

/** When the requests of a line left. */
const sentAt = (world: World, line: number): number[] =>
  world.sent.filter((request) => request.line === line).map(({ atMs }) => atMs);

/** When each request of a line ended, and how. */
const endsOf = (world: World, line: number) =>
  world.wire.ledger
    .filter(({ body }) => body.includes(`[[${line}]]`))
    .map(({ sentMs, settledMs, result }) => ({ sentMs, settledMs, isOk: result?.ok === true }));

describe("a request that hangs, with hedge", () => {
  it("goes on while a second one is sent, whose answer counts, and is cut and booked in doubt", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) => (attempt === 1 ? "hang" : { afterMs: 900, result: ok(line) })),
    });
    const { counts, usage, cost } = await finished(world);
    expect(counts).toMatchObject({ completed: 500, failed: 0 });
    expect(usage).toMatchObject({ attempts: 501, ambiguous_attempts: 1 });
    expect(cost.is_estimated).toBe(true);
    expect(cost.billed_usd).toBeCloseTo(500 * ANSWER_USD, 9);
    expect(cost.ambiguous_usd).toBeGreaterThan(0);
    expect(world.output().filter(({ key }) => key === "k100")).toHaveLength(1);
    const [first, second] = endsOf(world, 100);
    expect(second).toMatchObject({ isOk: true });
    expect(first).toEqual({ sentMs: first?.sentMs, settledMs: second?.settledMs, isOk: false });
  });

  it("is answered after all: its answer counts, the second one is cut and booked in doubt", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) => (attempt === 1 ? { afterMs: 20_000, result: ok(line) } : "hang")),
    });
    const { counts, usage, cost } = await finished(world);
    expect(counts).toMatchObject({ completed: 500 });
    expect(usage).toMatchObject({ attempts: 501, ambiguous_attempts: 1 });
    expect(cost.billed_usd).toBeCloseTo(500 * ANSWER_USD, 9);
    const [first, second] = endsOf(world, 100);
    expect(first).toMatchObject({ isOk: true });
    expect(second).toMatchObject({ settledMs: first?.settledMs, isOk: false });
  });

  it("results in one line and two bills when both are answered at once", async () => {
    let answerMs = 0;
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) => {
        if (attempt === 1) answerMs = world.clock.nowMs() + 30_000;
        return { afterMs: answerMs - world.clock.nowMs(), result: ok(line) };
      }),
    });
    const { counts, usage, cost } = await finished(world);
    expect(counts).toMatchObject({ completed: 500 });
    expect(usage.attempts).toBe(501);
    expect(cost.billed_usd + cost.ambiguous_usd).toBeGreaterThanOrEqual(501 * ANSWER_USD - 1e-9);
    expect(world.output().filter(({ key }) => key === "k100")).toHaveLength(1);
  });

  it("is one of two at most", async () => {
    const world = new World({
      config: { ...priced, attemptMsMax: 5 * MINUTE_MS },
      answer: hangs(100, (line, attempt) => (attempt <= 2 ? "hang" : ok(line))),
    });
    const { counts, usage } = await finished(world);
    expect(counts).toMatchObject({ completed: 500 });
    expect(usage).toMatchObject({ attempts: 502, ambiguous_attempts: 2 });
    const [first, second, third] = endsOf(world, 100);
    expect(second?.sentMs).toBeLessThan(first?.settledMs as number);
    expect(third?.sentMs).toBeGreaterThanOrEqual(second?.settledMs as number);
    expect((first?.settledMs as number) - (first?.sentMs as number)).toBe(5 * MINUTE_MS);
  });

  it("goes on when the second one is refused", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) =>
        attempt === 1 ? { afterMs: 60_000, result: ok(line) } : status(503, "overloaded"),
      ),
    });
    const { counts, cost } = await finished(world);
    expect(counts).toMatchObject({ completed: 500 });
    expect(cost.billed_usd).toBeCloseTo(500 * ANSWER_USD, 9);
    const [first, second] = endsOf(world, 100);
    expect(first).toMatchObject({ isOk: true });
    expect((first?.settledMs as number) - (first?.sentMs as number)).toBe(60_000);
    expect(second?.settledMs).toBeLessThan(first?.settledMs as number);
  });

  it("may fail while the second one goes on and is answered", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) =>
        attempt === 1
          ? { afterMs: 20_000, result: status(500, "server_error") }
          : { afterMs: 40_000, result: ok(line) },
      ),
    });
    const { counts, usage } = await finished(world);
    expect(counts).toMatchObject({ completed: 500 });
    expect(usage).toMatchObject({ attempts: 501, ambiguous_attempts: 1 });
    expect(sentAt(world, 100)).toHaveLength(2);
  });

  it("is requested again after both have failed, and not before", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) =>
        attempt <= 2
          ? { afterMs: attempt === 1 ? 20_000 : 40_000, result: status(500, "server_error") }
          : ok(line),
      ),
    });
    const { counts } = await finished(world);
    expect(counts).toMatchObject({ completed: 500 });
    const [first, second, third] = endsOf(world, 100);
    expect(third?.sentMs).toBeGreaterThan(Math.max(first?.settledMs as number, second?.settledMs as number));
  });

  it("is given up as before without hedge", async () => {
    const world = new World({
      config: { ...priced, hedge: false },
      answer: hangs(100, (line, attempt) => (attempt === 1 ? "hang" : ok(line))),
    });
    await finished(world);
    const [first, second] = endsOf(world, 100);
    expect(first?.settledMs).toBeLessThanOrEqual(second?.sentMs as number);
  });

  it("is refused together with at_most_once, which it would break", () => {
    expect(() => resolveConfig({ hedge: true, delivery: "at_most_once" }, {})).toThrow(
      "hedge sends a second request while the first one is under way, and delivery is at_most_once: remove hedge, or set delivery to at_least_once",
    );
    expect(() => resolveConfig({ hedge: true }, { PERIGEE_DELIVERY: "at_most_once" })).toThrow(
      "at_most_once",
    );
  });

  it("is refused for a run of an engine with at_most_once, before anything is sent", async () => {
    const world = new World({ config: { delivery: "at_most_once" } });
    world.input(1);
    const engine = await world.engine();
    expect(() => engine.run(INPUT, { out: OUTPUT, hedge: true })).toThrow("delivery is at_most_once");
    expect(world.sent).toHaveLength(0);
  });

  it("is hedged where its run says so, and not where its run says that it must not be", async () => {
    const answer = hangs(100, (line, attempt) => (attempt === 1 ? "hang" : ok(line)));
    for (const [engine, run, isHedged] of [
      [false, true, true],
      [true, false, false],
    ] as const) {
      const world = new World({ config: { ...priced, hedge: engine }, answer });
      await finished(world, 500, { hedge: run });
      const [first, second] = endsOf(world, 100);
      expect((first?.settledMs as number) > (second?.sentMs as number)).toBe(isHedged);
    }
  });
});

describe("a second attempt", () => {
  it("is not sent under a cap that has no room for it, and the first goes on", async () => {
    const answer = hangs(200, (line, attempt) =>
      attempt === 1 ? { afterMs: 90_000, result: ok(line) } : "hang",
    );
    const world = new World({ config: priced, answer });
    const free = await finished(world, 210);
    expect(sentAt(world, 200)).toHaveLength(2);
    const mostUsd = free.cost.ambiguous_usd;
    expect(mostUsd).toBeGreaterThan(ANSWER_USD);
    for (const [room, sent] of [
      [1.9, 1],
      [2.1, 2],
    ] as const) {
      const capped = new World({ config: priced, answer });
      const maxCostUsd = 209 * ANSWER_USD + room * mostUsd;
      const { counts, cost } = await finished(capped, 210, { maxCostUsd });
      expect(counts).toMatchObject({ completed: 210 });
      expect(sentAt(capped, 200)).toHaveLength(sent);
      expect(cost.billed_usd + cost.ambiguous_usd).toBeLessThanOrEqual(maxCostUsd);
    }
  });

  it("counts against limits: no minute has more requests than are allowed", async () => {
    const world = new World({
      config: { hedge: true, limits: { alpha: { requestsPerMinute: 60 } } },
      answer: (line, attempt) =>
        line % 5 === 0 && attempt === 1 ? "hang" : { afterMs: 500, result: ok(line) },
    });
    const { counts, usage } = await finished(world, 300);
    expect(counts).toMatchObject({ completed: 300 });
    expect(usage.ambiguous_attempts).toBeGreaterThan(30);
    const times = world.sent.map(({ atMs }) => atMs);
    for (const [at, fromMs] of times.entries())
      expect(times.slice(at).filter((atMs) => atMs < fromMs + MINUTE_MS).length).toBeLessThanOrEqual(60);
  });

  it("keeps within the places in flight", async () => {
    let most = 0;
    const world = new World({
      config: { hedge: true, limits: { alpha: { concurrency: 4 } } },
      answer: (line, attempt) => {
        most = Math.max(most, world.wire.inFlight + 1);
        return line > 100 && line % 20 === 0 && attempt === 1 ? "hang" : { afterMs: 500, result: ok(line) };
      },
    });
    const { counts } = await finished(world, 200);
    expect(counts).toMatchObject({ completed: 200 });
    expect(most).toBeLessThanOrEqual(4);
    expect(world.sent.length).toBeGreaterThan(200);
  });

  /** Of two places, one has line 100 when it hangs, and the other is taken by line 109 soon after for `takenMs`. */
  const onePlace = (takenMs: number): Answering => {
    const slow = new Map([
      [100, 25_000],
      [109, takenMs],
    ]);
    return (line, attempt) => ({ afterMs: attempt === 1 ? (slow.get(line) ?? 400) : 400, result: ok(line) });
  };
  const places: ConfigOptions = { hedge: true, limits: { alpha: { concurrency: 2 } } };

  it("waits for a place, and is withdrawn when the first is answered meanwhile", async () => {
    const world = new World({ config: places, answer: onePlace(30_000) });
    const { counts, usage } = await finished(world, 108 + 1);
    expect(counts).toMatchObject({ completed: 109 });
    expect(usage).toMatchObject({ attempts: 109, ambiguous_attempts: 0 });
    const free = new World({ config: places, answer: onePlace(3_000) });
    await finished(free, 108 + 1);
    expect(sentAt(free, 100)).toHaveLength(2); // where a place becomes free for it
  });

  /** When the intent of a second attempt is being recorded: the first hangs from 5 s on, and a commit takes 2 s. */
  const RECORDED_MS = 6_000;

  for (const [name, result] of [
    ["answered", ok(100)],
    ["refused", status(429, "rate_limited")],
  ] as const)
    it(`is not sent when the first is ${name} while its intent is recorded, and is not in doubt`, async () => {
      const world = new World({
        config: priced,
        commitMs: 2_000,
        answer: (line, attempt) =>
          line === 100 && attempt === 1
            ? { afterMs: RECORDED_MS, result }
            : { afterMs: 400, result: ok(line) },
      });
      const { counts, usage, cost } = await finished(world, 300);
      expect(counts).toMatchObject({ completed: 300 });
      expect(usage).toMatchObject({ attempts: world.sent.length, ambiguous_attempts: 0 });
      expect(cost.ambiguous_usd).toBe(0);
    });

  it("ends with its run when that is cancelled: both are drained, one line each", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, () => "hang"),
    });
    world.input(300);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(2 * MINUTE_MS);
    expect(sentAt(world, 100)).toHaveLength(2);
    run.cancel();
    const { counts } = await world.settle(run.finished);
    await world.settle(engine.close());
    expect(world.wire.inFlight).toBe(0);
    expect(counts.completed).toBe(299);
    expect(world.sent).toHaveLength(301);
  });

  /** The most that a request of the world may cost. */
  async function mostUsd(): Promise<number> {
    const world = new World({
      config: priced,
      answer: hangs(100, (line, attempt) => (attempt === 1 ? "hang" : ok(line))),
    });
    return (await finished(world, 300)).cost.ambiguous_usd;
  }

  it("and the first are both in doubt after a kill, and what either may have cost is", async () => {
    const world = new World({ config: priced, answer: hangs(100, () => "hang") });
    world.input(300);
    const engine = await world.engine();
    void engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
    await world.clock.advance(2 * MINUTE_MS);
    expect(sentAt(world, 100)).toHaveLength(2);
    world.kill();
    world.answer = (line) => ok(line);
    const next = await world.engine();
    const { counts, usage, cost } = await world.settle(next.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(next.close());
    expect(counts).toMatchObject({ completed: 300 });
    expect(usage).toMatchObject({ attempts: 302, ambiguous_attempts: 2 });
    expect(cost.billed_usd).toBeCloseTo(300 * ANSWER_USD, 9);
    expect(cost.ambiguous_usd).toBeCloseTo(2 * (await mostUsd()), 9);
  });

  it("leaves only itself in doubt after a kill when the first had failed by then", async () => {
    const world = new World({
      config: priced,
      answer: hangs(100, (_, attempt) =>
        attempt === 1 ? { afterMs: 30_000, result: status(429, "rate_limited") } : "hang",
      ),
    });
    world.input(300);
    const engine = await world.engine();
    void engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
    await world.clock.advance(2 * MINUTE_MS);
    expect(sentAt(world, 100)).toHaveLength(2);
    world.kill();
    world.answer = (line) => ok(line);
    const next = await world.engine();
    const { usage, cost } = await world.settle(next.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(next.close());
    expect(usage).toMatchObject({ attempts: 302, ambiguous_attempts: 1 });
    expect(cost.ambiguous_usd).toBeCloseTo(await mostUsd(), 9);
  });

  it("is not sent when its run stops while it waits, and the first is drained", async () => {
    const world = new World({ config: places, answer: onePlace(30_000) });
    world.input(130);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(30_000);
    expect(sentAt(world, 109)).toHaveLength(1);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    expect(world.sent).toHaveLength(109);
    const next = await world.engine();
    const { counts, usage } = await world.settle(next.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(next.close());
    expect(counts).toMatchObject({ completed: 130 });
    expect(usage).toMatchObject({ attempts: 130, ambiguous_attempts: 0 });
  });
});
