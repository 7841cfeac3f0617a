/** A limit over full disks, failing stores and restarts that come together, drawn from seeds. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { failure, mostInAMinute } from "./runs.ts";
import { INPUT, mortal, OUTPUT, ok, status, World } from "./world.ts";

const LIMIT = 30;
const ITEMS = 70;
const SEEDS = Number(process.env["TEST_LIMIT_SEEDS"] ?? 10);

type Random = () => number;

/** One process: it works for a while, in which its disk fills up, its store fails, or both, and is killed. */
async function troubledProcess(world: World, random: Random): Promise<void> {
  const process = mortal(world.clock);
  const engine = await world.engine(process.clock);
  const run = engine.run(INPUT, { out: OUTPUT });
  run.finished.catch(() => undefined);
  const troubles = 1 + Math.floor(random() * 4);
  for (let trouble = 0; trouble < troubles; trouble += 1) {
    await world.clock.advance(random() * 12_000);
    const kind = random();
    if (kind < 0.45) world.disk.setFull(Math.floor(random() * 400));
    else if (kind < 0.7) world.disk.setFull(Number.POSITIVE_INFINITY);
    else if (kind < 0.95) world.store.failNext("disk_full", 1 + Math.floor(random() * 30));
    else world.store.failNext("store_failed");
  }
  await world.clock.advance(random() * 20_000);
  if (random() < 0.6) world.disk.setFull(Number.POSITIVE_INFINITY);
  await world.clock.advance(random() * 3_000);
  process.kill();
  world.kill({ powerCut: random() < 0.3, random });
}

/** What the store still refuses fails some more processes. */
async function completedInTheEnd(world: World): Promise<number> {
  for (let life = 0; life < 10; life += 1) {
    const engine = await world.engine();
    const { finished } = engine.run(INPUT, { out: OUTPUT });
    const completed = await world.settle(
      finished.then(
        ({ counts }) => counts.completed,
        () => undefined,
      ),
    );
    await failure(world, engine.close());
    if (completed !== undefined) return completed;
    world.kill();
  }
  return 0;
}

describe("a limit of requests", () => {
  it("holds in every minute, through full disks, failing stores and restarts together", async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const random = createRandom(seed);
      const world = new World({
        config: { limits: { alpha: { requestsPerMinute: LIMIT } } },
        latencyMs: [10, 100, 2_000][seed % 3] ?? 10,
        commitMs: [0, 5, 100][Math.floor(random() * 3)] ?? 0,
      });
      world.input(ITEMS);
      for (let life = 0; life < 6; life += 1) await troubledProcess(world, random);
      world.disk.setFull(Number.POSITIVE_INFINITY);
      expect(await completedInTheEnd(world), `seed ${seed}`).toBe(ITEMS);
      expect(mostInAMinute(world.sent.map(({ atMs }) => atMs)), `seed ${seed}`).toBeLessThanOrEqual(LIMIT);
    }
  });
});

/** The disk of the store is full for a while, and what was refused meanwhile asks for a wait of 20 s. */
function refusedWhileFull(): World {
  const world = new World({ config: { maxInFlight: 3, delivery: "at_most_once" } });
  world.input(9);
  world.answer = (line, attempt) => {
    if (line === 1) return { afterMs: 50, result: ok(line) }; // the next intent waits for room
    if (line > 3 || attempt > 1) return ok(line);
    return { afterMs: 500, result: status(429, "rate_limit_exceeded", { "retry-after": "20" }) };
  };
  return world;
}

describe("a Retry-After that arrives while intents wait for space on the disk", () => {
  it("is waited for by their requests, too, which ask the limits again", async () => {
    const world = refusedWhileFull();
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(20);
    world.store.failNext("disk_full", 4);
    await world.clock.advance(20_000);
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3]);
    const { counts, usage } = await world.settle(run.finished);
    expect(counts.completed).toBe(9);
    expect(usage).toMatchObject({ attempts: 11, ambiguous_attempts: 0 });
    expect(world.sent).toHaveLength(11);
    const { events } = await world.settle(engine.trace(OUTPUT, "k4"));
    expect(events.map(({ event, attempt }) => [event, attempt])).toEqual([
      ["accepted", undefined],
      ["held", undefined], // by the disk
      ["held", undefined], // by the 429
      ["released", undefined],
      ["admitted", 1],
      ["ended", 1],
      ["released", undefined],
      ["admitted", 1],
      ["committed", undefined],
      ["written", undefined],
    ]);
    expect(events[5]?.detail).toBe("it was not sent: its run or its lane was stopped first");
  });

  it("leaves no item in doubt when the process is killed before they are sent", async () => {
    const world = refusedWhileFull();
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT }).finished;
    await world.clock.advance(20);
    world.store.failNext("disk_full", 4);
    await world.clock.advance(10_000);
    process.kill();
    world.kill();
    const { counts } = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(counts.completed).toBe(9);
    expect(world.sent.filter(({ atMs }) => atMs < 20_500)).toHaveLength(3);
  });
});
