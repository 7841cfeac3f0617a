/** What is shown while nothing moves: when it is tried again, and that nobody knows when it ends. */
import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { Run } from "../../src/engine/runs/run.ts";
import { type RunStatus, readStatus } from "../../src/engine/runs/run_status.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const KINDS: Readonly<Record<string, () => Reply>> = {
  outage: () => ({ ok: false, failure: "not_sent", message: "connection refused" }),
  authentication: () => status(401, "invalid_api_key"),
  quota: () => status(402, "billing_error"),
  model_unavailable: () => status(404, "model_not_found"),
};

/** A run whose provider has answered for 5 s and does so no more. */
async function turned(answer: () => Reply): Promise<{ readonly world: World; readonly run: Run }> {
  const world: World = new World({
    latencyMs: 500,
    config: {
      maxInFlight: 2,
      providers: { alpha: { baseUrl: "http://alpha.test/v1", timeoutMs: 3_600_000 } },
    },
    answer: (line) => (world.clock.nowMs() < 5_000 ? ok(line) : answer()),
  });
  world.input(200);
  const options = { out: OUTPUT, waitMs: 3_600_000, onHeld: () => undefined }; // it waits for what only the caller can change, too
  return { world, run: (await world.engine()).run(INPUT, options) };
}

/** Looks at a run every second, as a display does. */
async function look(world: World, run: Run, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    await world.clock.advance(1_000);
    run.progress();
  }
}

describe.each(Object.keys(KINDS))("items that are held (%s)", (reason) => {
  it("are tried again when the display says so", async () => {
    const { world, run } = await turned(KINDS[reason] as () => Reply);
    await look(world, run, 100);
    for (let tries = 0; tries < 3; tries += 1) {
      const { held, inFlight } = run.progress();
      const [hold] = held;
      expect(hold).toMatchObject({ reason });
      const inMs = Date.parse(hold?.next_try ?? "") - world.clock.wallMs();
      expect(inMs).toBeGreaterThanOrEqual(0);
      const sent = world.sent.length;
      await world.clock.advance(inMs - 2);
      expect(world.sent.length, `too early, with ${inFlight} in flight`).toBe(sent);
      await world.clock.advance(500);
      expect(world.sent.length, "too late").toBe(sent + 1);
      await world.clock.advance(250 + 500 * tries); // while the probe is out, and after it
    }
  });

  it("have no time of arrival, until they are answered", async () => {
    const { world, run } = await turned(KINDS[reason] as () => Reply);
    await look(world, run, 4);
    expect(run.progress().etaMs).toBeGreaterThan(0);
    await look(world, run, 20);
    expect(run.progress()).not.toHaveProperty("etaMs");
    world.answer = ok;
    await look(world, run, 70);
    expect(run.progress().etaMs ?? 0).toBeLessThan(60_000);
    expect(run.progress().settled).toBeGreaterThan(20);
  });
});

describe("items that only the caller can continue", () => {
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
  const alpha = { baseUrl: "http://alpha.test/v1" };
  const providers = { alpha, beta: { baseUrl: "http://beta.test/v1", needsKey: true } };
  const limits = { alpha: { requestsPerMinute: 60 } };

  it.each([
    ["key_missing", { providers, limits }, {}],
    ["provider_missing", { providers: { alpha }, limits }, {}],
    ["price_unknown", { limits, prices: { "alpha:m1": price } }, { maxCostUsd: 1 }],
  ])(
    "leave the end of their run unknown from the start, while others are answered (%s)",
    async (reason, config, capped) => {
      const world = new World({ config });
      world.input(60, (line) => (line % 2 === 0 ? "alpha:m1" : "beta:m1"));
      const run = (await world.engine()).run(INPUT, { out: OUTPUT, ...capped });
      for (let second = 0; second < 12; second += 1) {
        await look(world, run, 1);
        expect(run.progress().held).toMatchObject([{ reason, items: 30 }]);
        expect(run.progress()).not.toHaveProperty("etaMs");
      }
      expect(run.progress().settled).toBeGreaterThan(5);
    },
  );
});

describe("items of a lane that has to wait for 15 minutes", () => {
  const WAIT = status(429, "rate_limit_exceeded", { "retry-after": "900" });

  it.each([1, 30, 64, 65, 100])(
    "are held until then, although requests that were on their way are answered (line %i is refused first)",
    async (first) => {
      let isRefusing = false;
      const world: World = new World({
        commitMs: 5, // so that some leave just after the first refusal
        answer: (line) => {
          isRefusing ||= line === first;
          if (isRefusing && (line === first || line % 3 === 0)) return WAIT;
          return { afterMs: 40 + ((line * 7) % 20), result: ok(line) };
        },
      });
      world.input(300);
      const run = (await world.engine()).run(INPUT, { out: OUTPUT });
      await world.clock.advance(1_000);
      for (let second = 0; second < 100; second += 1) {
        const { held, retry, settled } = run.progress();
        expect(held).toMatchObject([{ reason: "rate_limited", items: 300 - settled }]);
        const untilMs = Date.parse(held[0]?.next_try ?? "") - world.clock.wallMs() + world.clock.nowMs();
        expect(untilMs).toBeGreaterThanOrEqual(900_000);
        expect(untilMs).toBeLessThan(902_000);
        expect((retry?.nextTryInMs ?? 0) + world.clock.nowMs()).toBeGreaterThanOrEqual(900_000);
        await world.clock.advance(1_000);
      }
      expect(run.progress()).not.toHaveProperty("etaMs");
    },
  );

  it("are tried again with it, also those whose own wait is over", async () => {
    const world = new World({ answer: (line) => (line === 1 ? status(503, "overloaded") : WAIT) });
    world.input(3);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    await world.clock.advance(100_000);
    expect(run.progress().retry?.nextTryInMs).toBeGreaterThan(799_000);
  });
});

describe("the only item of a run whose provider is down", () => {
  it("is tried again when the display says so, from its first failure on", async () => {
    const world: World = new World({ answer: () => status(503) });
    world.input(1);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 600_000 });
    run.finished.catch(() => undefined);
    await world.clock.advance(100);
    for (let tries = 0; tries < 12; tries += 1) {
      const [hold] = run.progress().held;
      const inMs = Date.parse(hold?.next_try ?? "") - world.clock.wallMs();
      const sent = world.sent.length;
      await world.clock.advance(Math.max(0, inMs - 2));
      expect(world.sent.length, "too early").toBe(sent);
      await world.clock.advance(15);
      expect(world.sent.length, "too late").toBe(sent + 1);
    }
  });
});

describe("items that are tried again while others are answered", () => {
  it("are counted as such, in the run and from outside it, and are not held", async () => {
    const world: World = new World({
      config: { maxInFlight: 2 },
      latencyMs: 1_000,
      answer: (line, attempt) =>
        line === 3 && attempt === 1 ? status(503, "busy", { "retry-after": "60" }) : ok(line),
    });
    world.input(20);
    const process = mortal(world.clock);
    const run = (await world.engine(process.clock)).run(INPUT, { out: OUTPUT });
    await world.clock.advance(2_500);
    expect(run.progress().retrying).toBe(1);
    await world.clock.advance(20_000); // all others are answered
    expect(run.progress()).toMatchObject({ retrying: 1, held: [], settled: 19, inFlight: 0 });
    const { code, message, nextTryInMs = 0 } = run.progress().retry ?? {};
    expect(code).toBe("overloaded");
    expect(message).toContain("503");
    expect(world.clock.nowMs() + nextTryInMs).toBeGreaterThan(61_000); // it failed in the second second
    expect(world.clock.nowMs() + nextTryInMs).toBeLessThan(64_000);
    process.kill();
    world.kill();
    const store = await world.store.open();
    const task = await store.taskByName(`out:${OUTPUT}`);
    if (task === undefined) throw new Error("the run is not recorded");
    const found = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
    expect(found).toMatchObject({ retrying: 1, counts: { open: 1, held: 0 } });
    expect(found.retrying_errors).toEqual([{ code: "overloaded", provider_status: 503, items: 1 }]);
    await store.close();
    const again = (await world.engine()).run(INPUT, { out: OUTPUT });
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(again.progress().retrying).toBe(0);
  });
});

describe("requests that hang", () => {
  it("have no time of arrival", async () => {
    const { world, run } = await turned(() => "hang");
    await look(world, run, 4);
    expect(run.progress().etaMs).toBeGreaterThan(0);
    await look(world, run, 60);
    expect(run.progress()).not.toHaveProperty("etaMs");
  });

  it("are shown by the time without an answer, where nothing else says that something is wrong", async () => {
    const world = new World({
      latencyMs: 500,
      config: { maxInFlight: 1 },
      answer: (line) => (line <= 10 ? ok(line) : "hang"),
    });
    world.input(20);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    await look(world, run, 60);
    expect(run.progress()).toMatchObject({ settled: 10, inFlight: 1, retrying: 0, held: [] });
    expect(run.progress()).not.toHaveProperty("noAnswerMs");
    await look(world, run, 10);
    expect(run.progress().noAnswerMs).toBeGreaterThan(60_000);
  });

  it("do not include answers that take long", async () => {
    const world = new World({ latencyMs: 40_000, config: { maxInFlight: 1 } });
    world.input(20);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    await look(world, run, 120);
    for (let second = 0; second < 120; second += 1) {
      await look(world, run, 1);
      expect(run.progress().etaMs).toBeGreaterThan(0);
      expect(run.progress()).not.toHaveProperty("noAnswerMs");
    }
  });
});

/** What `perigee status` reads of a run, from another process. */
async function statusIn(world: World, taskId: string): Promise<RunStatus> {
  const store = await world.store.open();
  const task = await store.task(taskId);
  if (task === undefined) throw new Error("the run is not recorded");
  const found = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
  await store.close();
  return found;
}

describe("what a run that has stopped says of holds", () => {
  it("has no next try: nobody tries before the next call", async () => {
    const world = new World({ answer: () => status(503) });
    world.input(3);
    const summary = await world.settle(
      (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 60_000 }).finished,
    );
    expect(summary.held).toMatchObject([{ reason: "outage", items: 3, next_try: null }]);
  });

  it("names what held it when its caller stopped it, in its summary and from outside", async () => {
    const world = new World({
      answer: (line, attempt) => (line === 1 && attempt === 1 ? ok(line) : status(503)),
    });
    world.input(4);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(30_500);
    run.stop();
    const { held, status: how, task_id } = await world.settle(run.finished);
    expect(how).toBe("stopped");
    expect(held).toMatchObject([{ reason: "outage", items: 3, next_try: null, provider_status: 503 }]);
    expect(run.holds).toEqual(held);
    await world.settle(engine.close());
    expect(await statusIn(world, task_id)).toMatchObject({ counts: { open: 0, held: 3 }, held });
  });

  it("has open lines besides, where its stream was not read to its end", async () => {
    const world = new World();
    const source = (async function* () {
      yield Buffer.from(itemLine(1));
      await world.clock.sleep(600_000);
      yield Buffer.from(itemLine(2));
    })();
    const engine = await world.engine();
    const run = engine.run(source, { out: OUTPUT });
    await world.clock.advance(5_000);
    run.stop();
    const { task_id } = await world.settle(run.finished);
    await world.settle(engine.close());
    const found = await statusIn(world, task_id);
    expect(found).toMatchObject({ counts: { answered: 1, open: 0 }, input_unread: true });
    const again = await world.engine();
    const lines = Readable.from([Buffer.from(itemLine(1)), Buffer.from(itemLine(2))]);
    await world.settle(again.run(lines, { out: OUTPUT }).finished);
    await world.settle(again.close());
    expect(await statusIn(world, task_id)).not.toHaveProperty("input_unread");
  });

  it("names nothing that was over when the last request of a stopped run was answered", async () => {
    const world = new World({
      config: { maxInFlight: 3 },
      latencyMs: 2_000,
      answer: (line) => (line === 1 ? { afterMs: 10, result: status(503) } : ok(line)),
    });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(100);
    expect(run.progress().held).toMatchObject([{ reason: "outage" }]);
    run.stop();
    const { held, task_id } = await world.settle(run.finished);
    expect(held).toEqual([]);
    await world.settle(engine.close());
    expect((await statusIn(world, task_id)).held).toEqual([]);
  });

  it("has the time until which the provider asked to wait, and the next call sends first at that time", async () => {
    const world = new World({ answer: () => status(429, "slow", { "retry-after": "600" }) });
    world.input(3);
    const engine = await world.engine();
    const { held, task_id } = await world.settle(engine.run(INPUT, { out: OUTPUT, waitMs: 60_000 }).finished);
    const nextTryMs = Date.parse(held[0]?.next_try ?? "") - world.clock.wallMs() + world.clock.nowMs();
    expect(held).toMatchObject([{ reason: "rate_limited", items: 3 }]);
    expect(nextTryMs).toBeGreaterThan(600_000);
    expect(nextTryMs).toBeLessThan(602_000);
    await world.settle(engine.close());
    const found = await statusIn(world, task_id);
    expect(found.held.map(({ next_try }) => next_try)).toEqual(held.map(({ next_try }) => next_try));
    const sent = world.sent.length;
    world.answer = ok;
    await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(Math.abs((world.sent[sent]?.atMs ?? 0) - nextTryMs)).toBeLessThan(1_000);
  });

  it("distinguishes a lane that the provider asked to wait from another one of it that may send at once", async () => {
    const world = new World({
      answer: (_line, _attempt, model) =>
        model === "m1" ? status(429, "slow", { "retry-after": "600" }) : status(503),
    });
    world.input(2, (line) => `alpha:m${line}`);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 240_000 });
    const { held } = await world.settle(run.finished);
    expect(held).toMatchObject([
      { reason: "rate_limited", next_try: expect.any(String), code: "rate_limited", provider_status: 429 },
      { reason: "outage", next_try: null, code: "overloaded", provider_status: 503 },
    ]);
  });
});

describe("the time of arrival after an outage", () => {
  it("is that of the lines that are left, not of the time in which nothing was answered", async () => {
    const world: World = new World({
      config: { maxInFlight: 128 },
      latencyMs: 200,
      answer: (line) => {
        const nowMs = world.clock.nowMs();
        const isOut = nowMs >= 3_000 && nowMs < 15_000;
        return isOut ? { ok: false, failure: "not_sent", message: "connection refused" } : ok(line);
      },
    });
    world.input(6_000);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    const told: { readonly atMs: number; readonly etaMs: number }[] = [];
    while (run.progress().state !== "done" && world.clock.nowMs() < 120_000) {
      await world.clock.advance(500);
      const { etaMs } = run.progress();
      if (world.clock.nowMs() > 15_000 && etaMs !== undefined)
        told.push({ atMs: world.clock.nowMs(), etaMs });
    }
    const endMs = world.clock.nowMs();
    const off = told.filter(({ atMs, etaMs }) => etaMs > 60_000 + 3 * (endMs - atMs));
    expect(told.length).toBeGreaterThan(10);
    expect(off).toEqual([]);
  });
});
