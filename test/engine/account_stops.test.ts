/**
 * Account stops: per lane, and per run what they mean.
 */
import { describe, expect, it } from "vitest";
import { openaiAnswer } from "../../src/testing/index.ts";
import { INPUT, itemLine, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

/** How long an account without money is waited for. */
const GIVEN_UP_MS = 120_000;
/** A probe later at most. */
const SOON_AFTER_MS = GIVEN_UP_MS + 61_000;

describe("a run whose key is refused after it had worked", () => {
  it("waits for the key, and ends as paused for authentication", async () => {
    const world = new World({
      config: { maxInFlight: 1 },
      answer: (line) => (line <= 5 ? ok(line) : status(401, "invalid_api_key")),
    });
    world.input(20);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({
      status: "paused",
      reason: "authentication",
      counts: { completed: 5, submitted: 15 },
    });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(GIVEN_UP_MS);
  });
});

describe("an answer to a request that was sent before its account was stopped", () => {
  it.each([
    ["quota_exceeded", status(402, "insufficient_balance")],
    ["authentication_failed", status(401, "invalid_api_key")],
  ])("says nothing about the account: what is held ends with %s, after its wait", async (code, refusal) => {
    const world = new World({
      answer: (line) => {
        if (line === 1) return ok(line);
        return line === 2 ? { afterMs: 20_000, result: ok(line) } : refusal;
      },
    });
    world.input(10);
    const engine = await world.engine();
    const run = engine.run(INPUT, { ...OPTIONS, waitMs: 5_000, finish: true });
    const summary = await world.settle(run.finished);
    expect(summary).toMatchObject({ counts: { completed: 2, failed: 8 }, errors: { [code]: 8 } });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(25_000);
    expect(world.clock.nowMs()).toBeLessThan(26_000);
  });
});

describe("a run with `finish` whose stream goes on while everything so far is held", () => {
  it("reads the stream to its end before it ends what is held, so that no line is lost", async () => {
    const world = new World({ answer: () => status(402, "insufficient_balance") });
    const { clock } = world;
    const source = (async function* () {
      for (let line = 1; line <= 4; line += 1) {
        yield Buffer.from(itemLine(line));
        await clock.sleep(20_000);
      }
    })();
    const run = (await world.engine()).run(source, { ...OPTIONS, waitMs: 0, finish: true });
    expect(await world.settle(run.finished)).toMatchObject({ items: 4, errors: { quota_exceeded: 4 } });
    expect(world.output().map(({ key }) => key)).toEqual(["k1", "k2", "k3", "k4"]);
  });
});

describe("a run that a probe brought back", () => {
  it("is not stopped by the time it has lost, however long it is busy since", async () => {
    const world = new World({
      config: { maxInFlight: 2 },
      answer: (line) =>
        world.clock.nowMs() < 100_000
          ? status(402, "insufficient_balance")
          : { afterMs: 20_000 + line * 10, result: ok(line) },
    });
    world.input(120);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 120 } });
    expect(world.clock.nowMs()).toBeGreaterThan(GIVEN_UP_MS);
  });
});

describe("an item that breaks its provider, in a lane that its account has stopped", () => {
  it("leaves the probes to others: all are answered once there is money again", async () => {
    const world = new World({
      answer: (line) => {
        if (line === 1) return status(503, "unavailable");
        return world.clock.nowMs() < 90_000
          ? { afterMs: 3_000, result: status(402, "insufficient_balance") }
          : ok(line);
      },
    });
    world.input(6);
    const run = (await world.engine()).run(INPUT, { ...OPTIONS, waitMs: 600_000 });
    await world.clock.advance(200_000);
    expect(run.progress().completed).toBe(5);
  });
});

describe("a run of which one account is stopped", () => {
  it("waits for it from when all else has ended, not from when it was stopped", async () => {
    const world = new World({
      config: { limits: { beta: { requestsPerMinute: 60 } } },
      answer: (line) => (line <= 5 ? status(402, "insufficient_balance") : ok(line)),
    });
    world.input(305, (line) => (line <= 5 ? "alpha:m1" : "beta:m1"));
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({
      status: "paused",
      reason: "quota",
      counts: { completed: 300, submitted: 5 },
    });
    const lastMs = Math.max(...world.sent.filter(({ line }) => line > 5).map(({ atMs }) => atMs));
    expect(lastMs).toBeGreaterThan(GIVEN_UP_MS);
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(lastMs + GIVEN_UP_MS);
    expect(world.clock.nowMs()).toBeLessThan(lastMs + SOON_AFTER_MS);
  });
});

describe("runs of one engine", () => {
  it("a run whose lanes are all stopped ends as paused, although another run is doing well", async () => {
    const world = new World({
      config: { limits: { beta: { requestsPerMinute: 30 } } },
      answer: (line) => (line <= 10 ? status(402, "insufficient_balance") : ok(line)),
    });
    world.input(10, "alpha:m1", "/stopped.jsonl");
    world.disk.put(
      "/well.jsonl",
      Array.from({ length: 600 }, (_, index) => itemLine(index + 11, "beta:m1")).join(""),
    );
    const engine = await world.engine();
    const well = engine.run("/well.jsonl", { out: "/well.out" });
    const stopped = engine.run("/stopped.jsonl", { out: "/stopped.out" });
    await world.clock.advance(30_000);
    expect(stopped.progress()).toMatchObject({ state: "paused", pausedBy: "alpha quota" });
    expect(well.progress().state).toBe("running");
    expect(await world.settle(stopped.finished)).toMatchObject({
      status: "paused",
      reason: "quota",
      counts: { submitted: 10 },
    });
    expect(world.clock.nowMs()).toBeLessThan(SOON_AFTER_MS);
    expect(await world.settle(well.finished)).toMatchObject({ counts: { completed: 600 } });
  });

  it("a run that waits to try again is not paused, although the lanes of another one are stopped", async () => {
    const world = new World({
      answer: (line, attempt, model) => {
        if (model === "refused") return status(402, "insufficient_balance");
        if (line === 101 && attempt === 1) return status(503, "overloaded", { "retry-after": "20" });
        return { afterMs: 5_000, result: ok(line) };
      },
    });
    world.input(10, "alpha:refused", "/stopped.jsonl");
    world.disk.put(INPUT, itemLine(101, "beta:m1") + itemLine(102, "beta:m1"));
    const engine = await world.engine();
    const stopped = engine.run("/stopped.jsonl", { out: "/stopped.out" });
    const well = engine.run(INPUT, OPTIONS);
    await world.clock.advance(10_000);
    expect(stopped.progress().state).toBe("paused");
    expect(well.progress()).toMatchObject({ state: "running", completed: 1, inFlight: 0 });
    expect(await world.settle(well.finished)).toMatchObject({
      status: "completed",
      counts: { completed: 2 },
    });
  });

  it("a run that waits to try again on one lane is not stopped by the key of another lane", async () => {
    const world = new World({
      answer: (line, attempt, model) => {
        if (model === "refused") return status(401, "invalid_api_key");
        return line === 1 && attempt === 1 ? status(503, "overloaded", { "retry-after": "20" }) : ok(line);
      },
    });
    world.input(20, (line) => (line <= 2 ? "beta:m1" : "alpha:refused"));
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ reason: "authentication", counts: { completed: 2, submitted: 18 } });
  });

  it.each([
    ["before", 0],
    ["after", 5_000],
  ])(
    "a run learns of a stop that another run's requests met, when it came %s the stop",
    async (_, afterMs) => {
      const world = new World({ config: { maxInFlight: 1 }, answer: () => status(402) });
      world.input(30, "alpha:m1", "/first.jsonl");
      world.input(30, "alpha:m1", "/second.jsonl");
      const engine = await world.engine();
      const first = engine.run("/first.jsonl", { out: "/first.out" });
      await world.clock.advance(afterMs);
      const second = engine.run("/second.jsonl", { out: "/second.out" });
      await world.clock.advance(1_000);
      expect(second.progress()).toMatchObject({ state: "paused", pausedBy: "alpha quota" });
      expect(await world.settle(second.finished)).toMatchObject({ status: "paused", reason: "quota" });
      expect(world.clock.nowMs()).toBeLessThan(afterMs + SOON_AFTER_MS);
      expect(await world.settle(first.finished)).toMatchObject({ status: "paused", reason: "quota" });
    },
  );

  it("an item that was answered without text once is not ended by the outage that follows", async () => {
    const world: World = new World({
      answer: (line, attempt) => {
        if (attempt === 1) return status(500, "api_error");
        if (attempt === 2) return openaiAnswer("", { inputTokens: 10, outputTokens: 0 });
        return world.clock.nowMs() < 600_000 ? status(502) : ok(line);
      },
    });
    world.input(1);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 1 } });
  });

  it("a key that is refused for all ends no item that had failed for another reason before", async () => {
    let refusedFromMs = Number.POSITIVE_INFINITY;
    const world: World = new World({
      config: { maxInFlight: 1, waitMs: 900_000 },
      answer: (line, attempt) => {
        if (line === 1 && attempt === 1) return status(500, "api_error");
        const nowMs = world.clock.nowMs();
        if (line === 1 && attempt === 2) refusedFromMs = nowMs; // others were answered since its first failure
        const isRefused = nowMs >= refusedFromMs && nowMs < refusedFromMs + 300_000;
        return isRefused ? status(401, "invalid_api_key") : ok(line);
      },
      latencyMs: 100,
    });
    world.input(40);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 40 } });
  });

  it("a refusal that takes long ends no item, although others were accepted before it arrived", async () => {
    const world = new World({
      answer: (line, attempt) => {
        if (line > 2 || attempt > 2) return ok(line);
        if (attempt === 1) return status(401, "invalid_api_key");
        return line === 1 ? { afterMs: 3_000, result: status(401, "invalid_api_key") } : ok(line);
      },
    });
    world.input(2);
    const engine = await world.engine();
    world.disk.put("/before.jsonl", itemLine(3));
    await world.settle(engine.run("/before.jsonl", { out: "/before.out" }).finished); // the key has worked
    const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 2, failed: 0 } });
  });

  it("a run learns when a probe of another run ended the stop", async () => {
    const world = new World({
      config: { maxInFlight: 1, waitMs: 900_000 },
      answer: (line) =>
        world.clock.nowMs() < 200_000
          ? status(402)
          : { afterMs: line <= 100 ? 60_000 : 10, result: ok(line) },
    });
    world.input(20, "alpha:m1", "/first.jsonl");
    world.disk.put("/second.jsonl", itemLine(101));
    const engine = await world.engine();
    const first = engine.run("/first.jsonl", { out: "/first.out" });
    const second = engine.run("/second.jsonl", { out: "/second.out" });
    await world.clock.advance(150_000);
    expect(second.progress().state).toBe("paused");
    await world.clock.advance(160_000);
    expect(second.progress().state).toBe("running");
    expect(await world.settle(second.finished)).toMatchObject({ counts: { completed: 1 } });
    expect(await world.settle(first.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(world.clock.nowMs()).toBeGreaterThan(SOON_AFTER_MS);
  });

  it("a probe that takes long does not begin the wait again", async () => {
    const world = new World({ answer: () => ({ afterMs: 30_000, result: status(402) }) });
    world.input(1);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "paused", reason: "quota" });
    expect(world.clock.nowMs()).toBeLessThan(SOON_AFTER_MS + 30_000);
  });
});

describe("a submitted list", () => {
  const list = (sla?: number) =>
    [1, 2, 3, 4, 5].map((line) => ({
      model: "alpha:m1",
      input: `[[${line}]] hello`,
      ...(sla === undefined ? {} : { sla }),
    }));

  it.each([
    ["refuses its key", 401],
    ["has no quota", 402],
  ])("whose account %s goes on by itself when that is over, probed once a minute", async (_, code) => {
    const world = new World();
    world.answer = (line) => (world.clock.nowMs() < 7_200_000 ? status(code) : ok(line));
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit(list(600)));
    await world.clock.advance(7_300_000);
    const probes = world.sent.map(({ atMs }) => atMs).filter((atMs) => atMs > 2_000 && atMs < 7_200_000);
    expect(probes.length).toBeGreaterThanOrEqual(100);
    for (let probe = 1; probe < probes.length; probe += 1)
      expect((probes[probe] as number) - (probes[probe - 1] as number)).toBeGreaterThanOrEqual(60_000);
    const answered = world.sent.filter(({ atMs }) => atMs >= 7_200_000).map(({ line }) => line);
    expect(answered.sort()).toEqual([1, 2, 3, 4, 5]);
    expect(await world.settle(engine.task(task_id))).toMatchObject({ counts: { completed: 5 } });
  });

  it("goes on by itself in the next engine, too", async () => {
    const world = new World();
    world.answer = (line) => (world.clock.nowMs() < 7_200_000 ? status(401) : ok(line));
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit(list(600)));
    await world.clock.advance(3_600_000);
    await world.settle(engine.close());
    const again = await world.engine();
    await world.clock.advance(3_700_000);
    expect(world.sent.filter(({ atMs }) => atMs >= 7_200_000)).toHaveLength(5);
    expect(await world.settle(again.task(task_id))).toMatchObject({ counts: { completed: 5 } });
  });

  it("whose key stays refused expires at its deadline", async () => {
    const world = new World({ answer: () => status(401) });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit(list(30)));
    await world.clock.advance(29 * 60_000);
    expect(await world.settle(engine.task(task_id))).toMatchObject({ counts: { submitted: 5 } });
    await world.clock.advance(61_000);
    expect(await world.settle(engine.task(task_id))).toMatchObject({ counts: { expired: 5 } });
  });

  it.each([
    ["at once when the key never worked", 401, 0],
    ["after 2 minutes without quota", 402, GIVEN_UP_MS],
  ])("without sla is not waited for any longer %s, and goes on", async (_, code, afterMs) => {
    const world = new World();
    world.answer = (line) => (world.clock.nowMs() < 7_200_000 ? status(code) : ok(line));
    const engine = await world.engine();
    const task = await world.settle(engine.submit(list()));
    expect(task).toMatchObject({ status: "submitted", counts: { submitted: 5 } });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(afterMs);
    expect(world.clock.nowMs()).toBeLessThan(afterMs + 61_000);
    await world.clock.advance(7_300_000);
    expect(world.sent.filter(({ atMs }) => atMs >= 7_200_000)).toHaveLength(5);
    expect(await world.settle(engine.task(task.task_id))).toMatchObject({ counts: { completed: 5 } });
  });
});

describe.each([
  ["a key that is new to this machine", "alpha", { key: "new" }],
  ["a provider that usually needs a key, at another address and without one", "openai", {}],
  ["a server of an unknown name without a key", "gamma", {}],
  ["a server of a known kind without a key", "vllm", {}],
])("%s", (_, provider, access) => {
  const config = { providers: { [provider]: { baseUrl: `http://${provider}.test/v1`, ...access } } };

  it("is tried with two requests, and refused ones stop the run at once with nothing written", async () => {
    const world = new World({ config, answer: () => status(401, "invalid_api_key") });
    world.input(200, (line) => `${provider}:m${line % 4}`);
    const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "paused", reason: "authentication", counts: { submitted: 200 } });
    expect(summary.held.every(({ was_accepted }) => was_accepted === false)).toBe(true);
    expect(world.sent.length).toBeLessThanOrEqual(2);
    expect(world.output()).toEqual([]);
  });

  it("opens at its first success, and is known to later engines", async () => {
    const world = new World({ config, latencyMs: 500 });
    world.input(300, `${provider}:m1`);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(world.sent.filter(({ atMs }) => atMs < 500)).toHaveLength(2);
    await world.settle(engine.close());
    const sentBefore = world.sent.length;
    world.input(40, `${provider}:m1`, "/second.jsonl");
    const startMs = world.clock.nowMs();
    await world.settle((await world.engine()).run("/second.jsonl", { out: "/second.out" }).finished);
    expect(world.sent.slice(sentBefore).filter(({ atMs }) => atMs < startMs + 500).length).toBeGreaterThan(2);
  });

  it("opens after two seconds in which nothing refused it", async () => {
    const world = new World({ config, latencyMs: 30_000 });
    world.input(20, `${provider}:m1`);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(1_900);
    expect(world.sent).toHaveLength(2);
    await world.clock.advance(200);
    expect(world.sent).toHaveLength(20);
    await world.settle(run.finished);
  });
});

describe("a provider of which the configuration says that it needs no key", () => {
  it.each(["openai", "gamma"])("is not tried with two requests first (%s)", async (name) => {
    const providers = { [name]: { baseUrl: `http://${name}.test/v1`, needsKey: false } };
    const world = new World({ config: { providers }, latencyMs: 500 });
    world.input(300, `${name}:m1`);
    await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
    expect(world.sent.filter(({ atMs }) => atMs < 500).length).toBeGreaterThan(2);
  });

  it.each([
    ["openai", { needsKey: false }],
    ["vllm", {}],
  ])(
    "is known to later engines as one that has answered, when it refuses requests (%s)",
    async (name, terms) => {
      const world = new World({
        config: { providers: { [name]: terms } },
        answer: (line) => (line <= 100 ? ok(line) : status(401, "denied")),
      });
      world.input(103, `${name}:m1`);
      for (let calls = 0; calls < 3; calls += 1) {
        const engine = await world.engine();
        const { held } = await world.settle(engine.run(INPUT, { ...OPTIONS, waitMs: 3_000 }).finished);
        expect(held).toMatchObject([{ reason: "authentication", items: 3, was_accepted: true }]);
        await world.settle(engine.close());
      }
    },
  );
});

describe("what an earlier process was refused last", () => {
  const KINDS = {
    model: () => status(404, "model_not_found"),
    account: () => status(402, "insufficient_quota"),
  };

  /** Requests of one call that ends what is held; a process of its own. */
  async function requestsOf(world: World, out: string): Promise<number> {
    const before = world.sent.length;
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out, waitMs: 0, finish: true }).finished);
    await world.settle(engine.close());
    return world.sent.length - before;
  }

  it.each(["model", "account"] as const)(
    "is tried with two requests until it is accepted (%s)",
    async (kind) => {
      const world = new World({ answer: KINDS[kind] });
      world.input(200);
      expect(await requestsOf(world, "/first.out")).toBeGreaterThan(2);
      expect(await requestsOf(world, "/second.out")).toBeLessThanOrEqual(2);
      expect(await requestsOf(world, "/third.out")).toBeLessThanOrEqual(2);
      world.answer = ok;
      expect(await requestsOf(world, "/fourth.out")).toBe(200);
      const startMs = world.clock.nowMs();
      const before = world.sent.length;
      expect(await requestsOf(world, "/fifth.out")).toBe(200);
      expect(world.sent.slice(before).filter(({ atMs }) => atMs < startMs + 10).length).toBeGreaterThan(2);
    },
  );

  it("does not keep another model of the provider waiting", async () => {
    const world = new World({ answer: (line, _, model) => (model === "m1" ? KINDS.model() : ok(line)) });
    world.input(200);
    await requestsOf(world, "/first.out");
    world.input(200, (line) => (line === 1 ? "alpha:m1" : "alpha:m2"));
    const startMs = world.clock.nowMs();
    await requestsOf(world, "/second.out");
    expect(world.clock.nowMs() - startMs).toBeLessThan(1_000);
  });
});
