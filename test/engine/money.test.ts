/**
 * What a run says of its money: billed, in doubt, list price and what callers are charged, each for what it is.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { readStatus } from "../../src/engine/runs/run_status.ts";
import { jsonAnswer } from "../../src/testing/index.ts";
import { INPUT, mortal, OUTPUT, ok, status, World } from "./world.ts";

/** An answer of the world takes 10 tokens in and 5 out: 0.035 USD. */
const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000, asOf: "2026-11-01" } };
const ANSWER_USD = 0.035;
const LOST: WireResult = { ok: false, failure: "lost", message: "reset" };
const OPTIONS = { out: OUTPUT };

describe("the money of a run", () => {
  it("is all billed, and nothing of it estimated, where every answer arrived", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(4);
    const { cost } = await world.settle(
      (await world.engine()).run(INPUT, { ...OPTIONS, sla: 1_440 }).finished,
    );
    expect(cost).toMatchObject({ billed_usd: 0.14, ambiguous_usd: 0, list_usd: 0.14, is_estimated: false });
    expect(cost.usd).toBeCloseTo(0.14 * 0.5, 9); // what a service charges within a day
    expect(Object.keys(cost).join()).not.toContain("saved");
  });

  it("takes the tier that was served: priority is billed twice, flex half", async () => {
    const openai = { baseUrl: "http://openai.test/v1", key: "k" };
    const prices = { "openai:*": PRICES["alpha:*"] };
    const world = new World({ config: { providers: { openai }, prices } });
    world.input(3, "openai:m1");
    const tiers = ["priority", "flex", "default"];
    world.answer = (line) =>
      jsonAnswer(200, {
        choices: [{ message: { content: "answer" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 10, completion_tokens: 5 },
        service_tier: tiers[line - 1],
      });
    const { cost } = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(cost.billed_usd).toBeCloseTo(ANSWER_USD * (2 + 0.5 + 1), 9);
    expect(cost.list_usd).toBeCloseTo(ANSWER_USD * 3, 9);
  });

  it("keeps in doubt the most that an attempt without a known end may have cost", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(3);
    world.answer = (line, attempt) => (line === 2 && attempt === 1 ? LOST : ok(line));
    const run = (await world.engine()).run(INPUT, OPTIONS);
    const { cost, usage } = await world.settle(run.finished);
    expect(usage.ambiguous_attempts).toBe(1);
    expect(cost.billed_usd).toBeCloseTo(3 * ANSWER_USD, 9);
    expect(cost.ambiguous_usd).toBeGreaterThan(16 * 5e-3); // its output limit, and what goes in
    expect(cost.ambiguous_usd).toBeLessThan(0.16);
    expect(cost.is_estimated).toBe(true);
    expect(run.progress()).toMatchObject({ billedUsd: expect.closeTo(0.105, 9) });
    expect(run.progress().ambiguousUsd).toBeCloseTo(cost.ambiguous_usd, 9);
  });

  it("keeps in doubt what is under way when the run ends, and says so again when it goes on", async () => {
    const world = new World({ config: { prices: PRICES, maxInFlight: 2 } });
    world.input(4);
    world.answer = (line) => (line > 2 ? "hang" : ok(line));
    const engine = await world.engine();
    const first = engine.run(INPUT, OPTIONS);
    await world.clock.advance(100);
    first.stop();
    const stopped = (await world.settle(first.finished)).cost;
    expect(stopped.billed_usd).toBeCloseTo(2 * ANSWER_USD, 9);
    expect(stopped.ambiguous_usd).toBeGreaterThan(2 * 16 * 5e-3);
    expect(stopped.is_estimated).toBe(true);
    await world.settle(engine.close());
    world.answer = (line) => ok(line);
    const { cost, counts } = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(counts.completed).toBe(4);
    expect(cost.billed_usd).toBeCloseTo(4 * ANSWER_USD, 9);
    expect(cost.ambiguous_usd).toBeCloseTo(stopped.ambiguous_usd, 9);
  });

  it("is the provider's own book within what is in doubt, however often the process is killed", async () => {
    const world = new World({ config: { prices: PRICES, maxInFlight: 5 }, latencyMs: 40 });
    world.input(60);
    let bookUsd = 0;
    world.answer = (line, attempt) => {
      bookUsd += ANSWER_USD; // billed when it arrives, also if nobody reads the answer
      return (line + attempt) % 11 === 0 ? LOST : ok(line);
    };
    for (let life = 0; life < 5; life += 1) {
      const process = mortal(world.clock);
      void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
      await world.clock.advance(90);
      process.kill();
      world.kill({ powerCut: life % 2 === 0, random: () => 0.999 });
    }
    const { cost, counts, usage } = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(counts.completed + counts.failed).toBe(60);
    expect(cost.billed_usd).toBeCloseTo(counts.completed * ANSWER_USD, 9);
    expect(bookUsd).toBeGreaterThan(cost.billed_usd);
    expect(bookUsd).toBeLessThanOrEqual(cost.billed_usd + cost.ambiguous_usd);
    const eachUsd = cost.ambiguous_usd / usage.ambiguous_attempts; // each is counted once
    expect(eachUsd).toBeGreaterThan(16 * 5e-3);
    expect(eachUsd).toBeLessThan(0.16);
  });
});

describe("an answer without text", () => {
  const empty = jsonAnswer(200, {
    choices: [{ message: { content: "" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 5 },
  });

  it("is paid twice, stopped between or not, and is billed and not in doubt", async () => {
    for (const isStopped of [false, true]) {
      const world = new World({ config: { prices: PRICES }, answer: () => empty });
      world.input(1);
      if (isStopped) {
        const engine = await world.engine();
        const run = engine.run(INPUT, OPTIONS);
        while (world.sent.length < 1) await world.clock.advance(1);
        await world.clock.advance(1);
        run.stop();
        expect(await world.settle(run.finished)).toMatchObject({ status: "stopped" });
        await world.settle(engine.close());
        expect(world.sent).toHaveLength(1);
      }
      const engine = await world.engine();
      const { usage, cost, errors } = await world.settle(engine.run(INPUT, OPTIONS).finished);
      await world.settle(engine.close());
      expect(world.sent).toHaveLength(2);
      expect({ usage, errors }).toMatchObject({
        usage: { attempts: 2, ambiguous_attempts: 0 },
        errors: { empty_output: 1 },
      });
      expect(cost).toMatchObject({ billed_usd: 2 * ANSWER_USD, ambiguous_usd: 0 });
      const store = await world.store.open();
      const task = await store.taskByName(`out:${OUTPUT}`);
      if (task === undefined) throw new Error("no task");
      const status = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
      expect(status).toMatchObject({ ambiguous_usd: 0, ambiguous_requests: 0 });
    }
  });
});

describe("money in doubt of lines that have not ended", () => {
  const config = { maxInFlight: 4, prices: PRICES };

  it("is counted with its requests when the run is paused, and when it is continued", async () => {
    const world = new World({ config, answer: () => LOST });
    world.input(3);
    const run = async (waitMs: number) => {
      const engine = await world.engine();
      const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, waitMs }).finished);
      await world.settle(engine.close());
      return summary;
    };
    for (const waitMs of [60_000, 20_000]) {
      const { status, usage, cost } = await run(waitMs);
      expect(status).toBe("paused");
      expect(usage).toMatchObject({ attempts: world.sent.length, ambiguous_attempts: world.sent.length });
      expect(cost.ambiguous_usd).toBeGreaterThan(0);
    }
    world.answer = ok;
    const { usage } = await run(0);
    expect(usage).toMatchObject({
      attempts: world.sent.length,
      ambiguous_attempts: world.sent.length - 3,
    });
  });

  it.each([["known", config, true] as const, ["not known", { maxInFlight: 4 }, false] as const])(
    "is shown by a look at the data folder after a kill, with its requests (price %s)",
    async (_what, options, isPriced) => {
      const world = new World({ config: options, answer: (line) => (line <= 6 ? ok(line) : "hang") });
      world.input(20);
      const engine = await world.engine();
      engine.run(INPUT, { out: OUTPUT, sla: 60 }).finished.catch(() => undefined);
      await world.clock.advance(2_000);
      const hanging = world.sent.length - 6;
      expect(hanging).toBeGreaterThan(1);
      world.kill();
      const store = await world.store.open();
      const task = await store.taskByName(`out:${OUTPUT}`);
      if (task === undefined) throw new Error("no task");
      const status = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
      expect(status).toMatchObject({ ambiguous_requests: hanging, requests_under_way: hanging });
      expect(status.ambiguous_usd > 0).toBe(isPriced);
    },
  );
});

describe("a request without a known end, of a model without a known price", () => {
  const item = (line: number) => ({ model: "alpha:m1", input: `[[${line}]] a`, sla: 60 });

  it.each([
    ["a lost one", LOST],
    ["a 500 that must not be repeated", jsonAnswer(500, {}, { "x-should-retry": "false" })],
  ])("makes the cost of its item estimated: %s", async (_what, result) => {
    const world = new World({ answer: (line) => (line === 1 ? result : ok(line)) });
    world.input(9);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { ...OPTIONS, sla: 60 }).finished);
    const list = engine.submit([item(1)]);
    void engine.submit(Array.from({ length: 9 }, (_, index) => item(index + 2)));
    const { objects } = await world.settle(list.finished);
    await world.settle(engine.close());
    const costs = { list_usd: 0, billed_usd: 0, ambiguous_usd: 0, is_estimated: true };
    expect(objects[0]).toMatchObject({ status: "failed", cost: costs });
    expect(world.output().find(({ key }) => key === "k1")).toMatchObject({ error: {}, cost: costs });
  });

  it("keeps the cost of its item estimated after a kill, and that of its run while it is open", async () => {
    for (const isList of [true, false]) {
      const world = new World({ answer: () => "hang" });
      world.input(1);
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const list = isList ? await world.settle(engine.submit([item(1)])) : undefined;
      if (!isList) engine.run(INPUT, { ...OPTIONS, sla: 60 }).finished.catch(() => undefined);
      await world.clock.advance(2_000);
      expect(world.sent).toHaveLength(1);
      process.kill();
      world.kill();
      world.answer = () => status(400, "bad"); // is not billed: only the one before is in doubt
      const again = await world.engine();
      if (list === undefined) {
        const { cost, usage } = await world.settle(again.run(INPUT, OPTIONS).finished);
        expect(usage).toMatchObject({ attempts: 2, ambiguous_attempts: 1 });
        expect(cost).toMatchObject({ ambiguous_usd: 0, is_estimated: true });
      } else {
        await world.clock.advance(5_000);
        const [object] = (await world.settle(again.task(list.task_id))).objects;
        expect(object).toMatchObject({ error: { ambiguous_attempts: 1 }, cost: { is_estimated: true } });
      }
      await world.settle(again.close());
    }
  });

  it("makes the cost of a paused run estimated", async () => {
    const world = new World({ answer: () => LOST });
    world.input(3);
    const engine = await world.engine();
    const { status: state, cost } = await world.settle(engine.run(INPUT, { ...OPTIONS, waitMs: 0 }).finished);
    expect(state).toBe("paused");
    expect(cost).toMatchObject({ ambiguous_usd: 0, is_estimated: true });
    await world.settle(engine.close());
  });
});
