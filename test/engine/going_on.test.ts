/**
 * A run that is called again on other terms: what is answered stays, what is open goes on by the new ones.
 */
import { describe, expect, it } from "vitest";
import { endOf, finish } from "./runs.ts";
import type { OutputRecord } from "./world.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, okFrom, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const PRICES = { "*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } };

type Answered = OutputRecord & { readonly model?: string };

/** Lines 1 and 2 are answered; the run is stopped before it has sent the others. */
async function stopped(world: World, options: object = {}): Promise<void> {
  const engine = await world.engine();
  const run = engine.run(INPUT, { ...OPTIONS, ...options });
  await world.clock.advance(15);
  run.stop();
  await world.settle(run.finished);
  await world.settle(engine.close());
  expect(world.sent).toHaveLength(2);
}

const narrow = (config: object = {}): World => {
  const world = new World({ config: { maxInFlight: 1, ...config } });
  world.answer = (line, _attempt, model) => okFrom(line, model);
  world.input(5);
  return world;
};

describe("a stopped run that is called again", () => {
  it("goes on with another model, and each line says which one answered", async () => {
    const world = narrow();
    world.disk.put(INPUT, [1, 2, 3, 4].map((line) => itemLine(line)).join("") + itemLine(5, "beta:m2"));
    await stopped(world, { model: "alpha:m1" });
    const summary = await finish(world, { ...OPTIONS, model: "beta:m2" });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 5 }, requests_sent: 3 });
    expect(world.sent.map(({ line, model }) => [line, model])).toEqual([
      [1, "m1"],
      [2, "m1"],
      [3, "m2"],
      [4, "m2"],
      [5, "m2"],
    ]);
    const models = (world.output() as Answered[]).map(({ key, model }) => [key, model]);
    expect(models).toEqual([
      ["k1", "alpha:m1"],
      ["k2", "alpha:m1"],
      ["k3", "beta:m2"],
      ["k4", "beta:m2"],
      ["k5", "beta:m2"],
    ]);
  });

  it("returns to the models of its lines when the call does not name one any more", async () => {
    const world = narrow();
    await stopped(world, { model: "beta:m2" });
    expect(await finish(world)).toMatchObject({ status: "completed", counts: { completed: 5 } });
    expect((world.output() as Answered[]).map(({ model }) => model)).toEqual([
      "beta:m2",
      "beta:m2",
      "alpha:m1",
      "alpha:m1",
      "alpha:m1",
    ]);
  });

  it("goes on with a longer sla from then on, and prices what was answered as it was", async () => {
    const world = narrow({ prices: PRICES });
    await stopped(world, { sla: 1 });
    await world.clock.advance(120_000); // its first window is over
    const lone = new World({ config: { prices: PRICES } });
    lone.input(5);
    const [short, long] = [1, 1_440].map((sla) => ({ ...OPTIONS, sla }));
    const shortUsd = (await finish(lone, short)).cost.usd / 5;
    lone.disk.put("/other.jsonl", lone.disk.text(INPUT) ?? "");
    const longUsd = (await finish(lone, { ...long, out: "/other.out" }, "/other.jsonl")).cost.usd / 5;
    expect(longUsd).toBeLessThan(shortUsd);
    const summary = await finish(world, long);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 5, expired: 0 } });
    expect(summary.cost.usd).toBeCloseTo(2 * shortUsd + 3 * longUsd, 12);
  });

  it("ends what is open by a shorter sla, which counts from that call", async () => {
    const world = narrow();
    await stopped(world);
    await world.clock.advance(600_000);
    world.answer = (line) => (line > 3 ? "hang" : ok(line));
    const summary = await finish(world, { ...OPTIONS, sla: 1 });
    expect(summary.counts).toMatchObject({ completed: 3 });
    expect(summary.elapsed_ms).toBeGreaterThanOrEqual(29_000);
    expect(summary.elapsed_ms).toBeLessThanOrEqual(61_000);
  });

  it("keeps the window that a changed sla began, over further calls", async () => {
    const world = narrow();
    await stopped(world, { sla: 60 });
    world.answer = () => "hang";
    const long = { ...OPTIONS, sla: 120 };
    const engine = await world.engine();
    const run = engine.run(INPUT, long);
    await world.settle(run.opened);
    const { acceptedWallMs } = await run.opened;
    run.stop();
    await world.settle(run.finished);
    await world.clock.advance(600_000);
    const again = engine.run(INPUT, long);
    expect(await world.settle(again.opened)).toMatchObject({ acceptedWallMs, slaMinutes: 120 });
    again.stop();
    await world.settle(again.finished);
    await world.settle(engine.close());
  });

  it("goes on with another key and base URL", async () => {
    const world = narrow();
    await stopped(world);
    world.reconfigure({ providers: { alpha: { baseUrl: "http://elsewhere.test/v1", key: "other" } } });
    expect(await finish(world)).toMatchObject({ status: "completed", counts: { completed: 5 } });
    expect(world.wire.ledger.at(-1)?.origin).toBe("http://elsewhere.test");
    // A new key is tried with lines far from each other, so the fifth line may go before the fourth.
    expect(world.sent.map(({ line }) => line).sort()).toEqual([1, 2, 3, 4, 5]);
  });

  it("keeps its order, and says what to do", async () => {
    const world = narrow();
    await stopped(world);
    expect(await endOf(world, INPUT, { ordered: true })).toMatchObject({
      code: "conflict",
      message:
        "/out.jsonl was begun with its answers in any order, now they are requested in that of the input: repeat the order that the run began with, or use another output",
    });
  });

  it("estimates an answer that a kill left unrecorded by the model that gave it", async () => {
    const prices = {
      "alpha:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" },
      "beta:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 2_000, asOf: "2026-11-01" },
    };
    const world = new World({ config: { maxInFlight: 1, prices }, latencyMs: 50 });
    world.input(1);
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, { ...OPTIONS, model: "beta:m2" }).finished;
    await world.clock.advance(20);
    process.kill();
    world.kill();
    const file = await world.disk.open(OUTPUT, "write");
    const line = '{"key":"k1","output":{"type":"text","text":"answer 1"},"model":"beta:m2"}\n';
    await file.write(Buffer.from(line), 0);
    await file.close();
    const summary = await finish(world);
    expect(summary).toMatchObject({ status: "completed", requests_sent: 0 });
    expect(summary.cost.prices.map(({ model }) => model)).toEqual(["beta:m2"]);
    expect(summary.cost.list_usd).toBeGreaterThan(0.001);
  });
});

describe("a finished run that is called again on other terms", () => {
  it.each([{ model: "beta:m1" }, { sla: 60 }, { maxCostUsd: 1 }])(
    "sends nothing, because nothing is open: %j",
    async (terms) => {
      const world = new World();
      world.input(2);
      await finish(world);
      const before = world.disk.text(OUTPUT);
      expect(await finish(world, { ...OPTIONS, ...terms })).toMatchObject({
        status: "completed",
        requests_sent: 0,
      });
      expect(world.sent).toHaveLength(2);
      expect(world.disk.text(OUTPUT)).toBe(before);
    },
  );
});
