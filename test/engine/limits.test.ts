import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { mostInAMinute } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const PRICES = { prices: { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } } };

describe("limits", () => {
  // asked for in BerriAI/litellm#3793: a batch that knows its rate limits
  it("uses at least 97 % of a request limit when there is work, and never more than all of it in any minute", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 600 } } }, latencyMs: 500 });
    world.input(3_000);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    const atMs = world.sent.map((one) => one.atMs);
    expect(mostInAMinute(atMs)).toBeLessThanOrEqual(600);
    const spanMinutes = ((atMs.at(-1) as number) - (atMs[0] as number)) / 60_000;
    expect(3_000 / spanMinutes).toBeGreaterThan(0.97 * 600);
  });

  // asked for in BerriAI/litellm#3793: batches that keep tokens per minute
  it.each([
    ["tokensPerMinute", 15],
    ["inputTokensPerMinute", 10],
  ] as const)(
    "keeps %s in every minute, over a restart too, and uses at least 0.97 of it",
    async (name, tokensPerItem) => {
      const limit = 4_000;
      const world = new World({ config: { limits: { alpha: { [name]: limit } } }, latencyMs: 200 });
      world.input(2_000);
      const engine = await world.engine();
      const run = engine.run(INPUT, OPTIONS);
      await world.clock.advance(90_000);
      run.stop();
      await world.settle(run.finished);
      await world.settle(engine.close());
      const before = world.sent.length;
      const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
      expect(summary.counts.completed).toBe(2_000);
      expect(world.sent).toHaveLength(2_000);
      expect(before).toBeLessThan(1_000);
      const atMs = world.sent.map((one) => one.atMs);
      expect(mostInAMinute(atMs) * tokensPerItem).toBeLessThanOrEqual(limit);
      const spanMinutes = ((atMs.at(-1) as number) - (atMs[0] as number)) / 60_000;
      expect((2_000 * tokensPerItem) / spanMinutes).toBeGreaterThan(0.97 * limit);
    },
  );

  it("holds a provider's places for all its models together, and serves each of them", async () => {
    const world = new World({ config: { limits: { alpha: { concurrency: 1 } } } });
    world.input(30, (line) => `alpha:m${line % 3}`);
    const engine = await world.engine();
    expect(await world.settle(engine.run(INPUT, OPTIONS).finished)).toMatchObject({
      counts: { completed: 30 },
    });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(300);
    const firstTen = new Set(world.sent.slice(0, 10).map(({ model }) => model));
    expect(firstTen.size).toBe(3);
  });

  it("holds over a restart: what the last minute sent still counts", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    world.input(100);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(45_500);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(mostInAMinute(world.sent.map((one) => one.atMs))).toBeLessThanOrEqual(60);
  });

  it("holds over a restart for requests that waited for room on the disk after they were recorded", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 30 } }, diskWaitMs: 60_000 },
      latencyMs: 100,
    });
    world.input(60);
    const first = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(2_050); // a request is in flight: its line is held
    world.disk.setFull(0);
    await expect(world.settle(first.finished)).rejects.toMatchObject({ code: "disk_full" });
    world.kill();
    (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(30_000);
    expect(world.sent).toHaveLength(2);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await world.clock.advance(1_300);
    expect(world.sent.length).toBeGreaterThan(2);
    world.kill();
    await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(mostInAMinute(world.sent.map((one) => one.atMs))).toBeLessThanOrEqual(30);
  });

  it("shares limits between runs, and serves the one with the nearer deadline first", async () => {
    const world = new World({ config: { limits: { alpha: { concurrency: 2 } } }, latencyMs: 100 });
    world.input(50, "alpha:m1", "/late.jsonl");
    world.disk.put("/soon.jsonl", Array.from({ length: 10 }, (_, index) => itemLine(index + 101)).join(""));
    const engine = await world.engine();
    const late = engine.run("/late.jsonl", { out: "/late.out", sla: 600 });
    await world.clock.advance(250);
    const soon = engine.run("/soon.jsonl", { out: "/soon.out", sla: 1 });
    await world.settle(soon.finished);
    const before = world.sent.length;
    expect(before).toBeLessThan(24);
    await world.settle(late.finished);
    expect(world.sent).toHaveLength(60);
  });

  it("fault 81: work without a deadline goes on beside a flood of short ones", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 120 } } } });
    world.input(30, "alpha:m1", "/plain.jsonl");
    const engine = await world.engine();
    const plain = engine.run("/plain.jsonl", { out: "/plain.out" });
    for (let flood = 1; flood <= 5; flood += 1) {
      const lines = Array.from({ length: 20 }, (_, index) => itemLine(flood * 1_000 + index));
      world.disk.put(`/flood${flood}.jsonl`, lines.join(""));
      engine.run(`/flood${flood}.jsonl`, { out: `/flood${flood}.out`, sla: 5 });
      await world.clock.advance(2_000);
    }
    expect(await world.settle(plain.finished)).toMatchObject({ counts: { completed: 30 } });
    expect(world.clock.nowMs()).toBeLessThan(75_000);
  });

  it("fault 77: a wall clock that jumps an hour either way makes neither a burst nor a stop", async () => {
    for (const jumpMs of [3_600_000, -3_600_000]) {
      const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
      world.input(90);
      const run = (await world.engine()).run(INPUT, { ...OPTIONS, sla: 10 });
      await world.clock.advance(20_000);
      world.clock.jumpWall(jumpMs);
      expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 90 } });
      expect(mostInAMinute(world.sent.map((one) => one.atMs))).toBeLessThanOrEqual(60);
      expect(world.clock.nowMs()).toBeLessThan(100_000);
    }
  });
});

describe("the sla", () => {
  it("fault 78: what was not sent is expired within a second after it, unbilled; what was sent is kept", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    world.input(200);
    const run = (await world.engine()).run(INPUT, { ...OPTIONS, sla: 1 });
    const summary = await world.settle(run.finished);
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(60_000);
    expect(world.clock.nowMs()).toBeLessThan(61_000);
    const { completed, expired } = summary.counts;
    expect(completed).toBe(world.sent.length);
    expect(completed + expired).toBe(200);
    expect(summary.usage.attempts).toBe(completed);
    expect(world.output()).toHaveLength(200);
    expect(world.output().filter(({ error }) => error?.code === "expired")).toHaveLength(expired);
  });

  it("leaves a single request that hangs all the time there is, and books it as ambiguous", async () => {
    const world = new World({ answer: () => "hang" });
    world.input(1);
    const run = (await world.engine()).run(INPUT, { ...OPTIONS, sla: 2 });
    expect(await world.settle(run.finished)).toMatchObject({
      counts: { completed: 0, expired: 1 },
      usage: { attempts: 1, ambiguous_attempts: 1 },
    });
    expect(world.clock.nowMs()).toBe(120_001); // a wall time of whole milliseconds is over within the next one
    expect(world.output()).toMatchObject([{ error: { code: "expired" } }]);
  });

  it.each([7_200_000, -7_200_000])(
    "is neither shorter nor longer when the wall clock jumps %i ms before a restart",
    async (jumpMs) => {
      const world = new World({ answer: () => "hang" });
      world.input(3);
      const first = (await world.engine()).run(INPUT, { ...OPTIONS, sla: 5 });
      await world.clock.advance(60_000);
      first.stop();
      await world.settle(first.finished);
      world.clock.jumpWall(jumpMs);
      world.kill();
      const again = (await world.engine()).run(INPUT, { ...OPTIONS, sla: 5 });
      expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 0, submitted: 0 } });
      expect(world.clock.nowMs()).toBeGreaterThanOrEqual(300_000);
      expect(world.clock.nowMs()).toBeLessThan(301_000);
    },
  );

  it("that passed while nothing ran is seen at the next start", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    world.input(50);
    const engine = await world.engine();
    const run = engine.run(INPUT, { ...OPTIONS, sla: 1 });
    await world.clock.advance(10_000);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    await world.clock.advance(3_600_000);
    const before = world.sent.length;
    const summary = await world.settle((await world.engine()).run(INPUT, { ...OPTIONS, sla: 1 }).finished);
    expect(summary.counts).toMatchObject({ completed: before, expired: 50 - before });
    expect(world.sent).toHaveLength(before);
    expect(world.clock.nowMs()).toBeLessThan(3_611_000 + 1_000);
  });
});

describe("a cost cap", () => {
  // asked for in stanfordnlp/dspy#397 and aiXplain#1100: a cap on cost that holds
  it("is never overshot, and at least 97 % used, for any duration of answers", async () => {
    for (let seed = 1; seed <= 12; seed += 1) {
      const random = createRandom(seed);
      let billedUsd = 0;
      const world = new World({
        config: { ...PRICES, maxInFlight: 1 + Math.floor(random() * 64) },
        answer: (line) => {
          const outputTokens = 1 + Math.floor(random() * 16);
          billedUsd += (10 * 1_000 + outputTokens * 5_000) / 1e6;
          const body = { choices: [{ message: { content: `a${line}` }, finish_reason: "stop" }] };
          const usage = { prompt_tokens: 10, completion_tokens: outputTokens };
          const bytes = new TextEncoder().encode(JSON.stringify({ ...body, usage }));
          return {
            afterMs: 50 + random() * 500,
            result: { ok: true, status: 200, headers: {}, body: bytes },
          };
        },
      });
      world.input(300);
      const engine = await world.engine();
      const summary = await world.settle(engine.run(INPUT, { ...OPTIONS, maxCostUsd: 6 }).finished);
      expect(billedUsd, `seed ${seed}`).toBeLessThanOrEqual(6);
      expect(billedUsd, `seed ${seed}`).toBeGreaterThan(0.97 * 6);
      expect(summary.cost.list_usd).toBeCloseTo(billedUsd, 6);
      expect(summary.counts.completed + summary.counts.submitted).toBe(300);
      expect(summary.errors).toEqual({});
    }
  });

  it("goes on in a lane that waited for money which another lane gave back", async () => {
    const world = new World({
      config: { prices: { "alpha:*": PRICES.prices["alpha:*"], "beta:*": PRICES.prices["alpha:*"] } },
    });
    world.input(8, (line) => (line % 2 === 0 ? "alpha:m1" : "beta:m1"));
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { ...OPTIONS, maxCostUsd: 0.4 }).finished);
    expect(summary.counts.completed).toBeGreaterThan(5);
    expect(summary.cost.list_usd).toBeLessThanOrEqual(0.4);
  });

  it("holds a retry that it leaves no money for, and goes on with a higher cap", async () => {
    const world = new World({
      config: PRICES,
      answer: (line, attempt) => (attempt === 1 ? status(502) : ok(line)),
    });
    world.input(1);
    const engine = await world.engine();
    const run = (maxCostUsd: number) => world.settle(engine.run(INPUT, { ...OPTIONS, maxCostUsd }).finished);
    const summary = await run(0.2);
    expect(summary).toMatchObject({ status: "paused", reason: "cap_reached", counts: { submitted: 1 } });
    expect(summary.held).toMatchObject([{ reason: "cap_reached", items: 1, next_try: null }]);
    expect(world.output()).toEqual([]);
    expect(await run(1)).toMatchObject({
      counts: { completed: 1 },
      usage: { attempts: 2, ambiguous_attempts: 1 },
    });
  });

  it("ends it with the true reason where the caller does not want to wait", async () => {
    const world = new World({ config: PRICES, answer: () => status(502) });
    world.input(1);
    const engine = await world.engine();
    const options = { ...OPTIONS, maxCostUsd: 0.2, finish: true };
    const summary = await world.settle(engine.run(INPUT, options).finished);
    expect(summary).toMatchObject({
      status: "completed",
      errors: { budget_exceeded: 1 },
      usage: { attempts: 1 },
    });
    expect(world.output()[0]).toMatchObject({
      error: { code: "budget_exceeded", attempts: 1, retryable: true },
    });
  });
});

describe("a long call", () => {
  // asked for in openai/openai-node#2153: calls of a model that thinks for longer than 300 s
  it("is waited for up to ten minutes, and requested once", async () => {
    const world = new World({ answer: (line) => ({ afterMs: 590_000, result: ok(line) }) });
    world.input(3);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({
      counts: { completed: 3 },
      usage: { attempts: 3, ambiguous_attempts: 0 },
    });
    expect(world.sent.length).toBeGreaterThan(2);
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(590_000);
  });
});

describe("a refusal that asks for a long wait while other requests are under way", () => {
  const worldRefusing = (): World =>
    new World({
      answer: (line) => {
        if (world.clock.nowMs() > 300_000 || line < 3) return { afterMs: 500, result: ok(line) };
        return status(429, "rate_limit_exceeded", { "retry-after": "300" });
      },
      config: { maxInFlight: 3 },
    });
  let world: World;

  it("holds what is left, visibly, until the wait is over", async () => {
    world = worldRefusing();
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(10_000);
    expect(run.progress().held).toMatchObject([{ reason: "rate_limited", items: 18 }]);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 20 } });
  });

  it("ends a run that does not wait for so long, and the same call goes on", async () => {
    world = worldRefusing();
    world.input(20);
    const summary = await world.settle(
      (await world.engine()).run(INPUT, { ...OPTIONS, waitMs: 5_000 }).finished,
    );
    expect(summary).toMatchObject({
      status: "paused",
      reason: "rate_limited",
      counts: { completed: 2, submitted: 18 },
    });
    expect(world.clock.nowMs()).toBeLessThan(10_000);
  });
});

describe("account stops", () => {
  it("fault 46: an empty account pauses its provider with one probe a minute, and a probe heals it", async () => {
    const world = new World({
      answer: (line) => (world.clock.nowMs() < 290_000 ? status(429, "insufficient_quota") : ok(line)),
      config: { maxInFlight: 4, waitMs: 900_000 },
    });
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(200_000);
    expect(run.progress()).toMatchObject({ state: "paused", pausedBy: "alpha quota" });
    expect(world.sent.filter(({ atMs }) => atMs > 1_000).length).toBeLessThanOrEqual(4);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(world.clock.nowMs()).toBeLessThan(310_000);
  });

  it("fault 46: a single item is kept through a long stop, too", async () => {
    const world = new World({
      answer: (line) => (world.clock.nowMs() < 600_000 ? status(429, "insufficient_quota") : ok(line)),
      config: { waitMs: 900_000 },
    });
    world.input(1);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1 } });
  });

  it("fault 46: a stop that has healed does not end the run later, however busy it is", async () => {
    const world = new World({
      answer: (line) =>
        world.clock.nowMs() < 90_000
          ? status(429, "insufficient_quota")
          : { afterMs: 60_000 + line * 10, result: ok(line) },
      config: { maxInFlight: 2 },
    });
    world.input(40);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(400_000);
    expect(run.progress()).toMatchObject({ state: "running", inFlight: 2 });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 40 } });
    expect(world.clock.nowMs()).toBeGreaterThan(1_000_000);
  });

  it("fault 46: a run whose account stays empty ends as paused, and keeps its items", async () => {
    const world = new World({ answer: () => status(402, "insufficient_balance") });
    world.input(30);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    const summary = await world.settle(run.finished);
    expect(summary).toMatchObject({ status: "paused", reason: "quota", counts: { submitted: 30 } });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(120_000);
    expect(world.clock.nowMs()).toBeLessThan(181_000);
    expect(summary.held).toMatchObject([{ reason: "quota", provider: "alpha", items: 30 }]);
    world.answer = (line) => ok(line);
    await world.clock.advance(60_000);
    expect(await world.settle((await reopened(world)).run(INPUT, OPTIONS).finished)).toMatchObject({
      counts: { completed: 30 },
    });
  });

  it("fault 46: another provider goes on meanwhile", async () => {
    const world = new World({
      answer: (line, _, model) => (model === "m1" && line % 2 === 0 ? status(402) : ok(line)),
    });
    world.input(20, (line) => (line % 2 === 0 ? "alpha:m1" : "beta:m2"));
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(5_000);
    expect(run.progress().completed).toBe(10);
    run.stop();
    await world.settle(run.finished);
  });

  it("fault 47: a key that was never accepted stops the run at once, with authentication as the reason", async () => {
    const world = new World({ answer: () => status(401, "invalid_api_key"), config: { maxInFlight: 1 } });
    world.input(20);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "paused", reason: "authentication", counts: { submitted: 20 } });
    expect(summary.held).toMatchObject([{ reason: "authentication", items: 20, was_accepted: false }]);
    expect(world.sent).toHaveLength(1);
    expect(world.output()).toEqual([]);
  });

  it.each([401, 403, 404])(
    "fault 47: a %i for only one item, while others are answered, ends that item",
    async (code) => {
      const answer = (line: number) => (line === 3 ? status(code) : ok(line));
      const world = new World({ config: { maxInFlight: 4 }, answer });
      world.input(40);
      const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: 39, failed: 1 } });
      expect(world.sent.filter(({ line }) => line === 3).length).toBeLessThanOrEqual(3);
    },
  );

  it("fault 47: refusals of all that is left pause the provider; then it is probed once a minute", async () => {
    const world = new World({
      config: { maxInFlight: 1 },
      answer: (line) => (line > 9 ? status(401) : ok(line)),
    });
    world.input(10);
    const summary = await world.settle(
      (await world.engine()).run(INPUT, { ...OPTIONS, waitMs: 900_000 }).finished,
    );
    expect(summary).toMatchObject({
      status: "paused",
      reason: "authentication",
      counts: { completed: 9, submitted: 1 },
    });
    const atMs = world.sent.filter(({ line }) => line === 10).map((one) => one.atMs);
    const soon = atMs.filter((ms) => ms < 30_000);
    expect(soon.length).toBeLessThanOrEqual(8);
    for (let probe = soon.length + 1; probe < atMs.length; probe += 1)
      expect((atMs[probe] as number) - (atMs[probe - 1] as number)).toBeGreaterThanOrEqual(60_000);
  });

  it("fault 66: a model that does not exist any more holds only its own items, and is not asked again", async () => {
    const world = new World({
      answer: (line, _, model) => (model === "gone" ? status(404, "model_not_found") : ok(line)),
      config: { maxInFlight: 1 },
    });
    world.input(40, (line) => (line % 2 === 0 ? "alpha:gone" : "alpha:m1"));
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({
      status: "paused",
      reason: "model_unavailable",
      counts: { completed: 20, submitted: 20 },
    });
    expect(summary.held).toMatchObject([
      { reason: "model_unavailable", model: "alpha:gone", items: 20, next_try: null },
    ]);
    expect(world.sent.filter(({ model }) => model === "gone")).toHaveLength(1);
    expect(world.output()).toHaveLength(20);
  });
});

describe("retries", () => {
  it("go through the limits like first attempts", async () => {
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 60 } } },
      answer: (line, attempt) => (attempt < 3 ? status(503) : ok(line)),
    });
    world.input(20);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ counts: { completed: 20 }, usage: { attempts: 60 } });
    expect(mostInAMinute(world.sent.map((one) => one.atMs))).toBeLessThanOrEqual(60);
  });

  it("fault 45: at 70 % rejections all items finish, at no more than 60 % of the limit", async () => {
    const random = createRandom(4);
    const world = new World({
      config: { limits: { alpha: { requestsPerMinute: 600 } } },
      answer: (line) => (random() < 0.7 ? status(429, "rate_limit_exceeded") : ok(line)),
    });
    world.input(200);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    const summary = await world.settle(run.finished);
    const minutes = Math.max(1, world.clock.nowMs() / 60_000);
    expect(world.sent.length / minutes).toBeLessThanOrEqual(0.6 * 600);
    const { completed, failed } = summary.counts;
    expect(completed + failed).toBe(200);
    // Seven tries of which each is refused at 70 % leave about one item in twelve without an answer.
    expect(summary.errors).toEqual(failed === 0 ? {} : { rate_limited: failed });
    expect(completed).toBeGreaterThan(0.9 * 200);
    expect(world.output()).toHaveLength(200);
  });
});

async function reopened(world: World) {
  world.kill();
  return world.engine();
}
