/**
 * Outages of every kind and length, with a single item, a trickle and a crowd: every item is answered, and none ends for a
 * reason that is not its own.
 */
import { describe, expect, it } from "vitest";
import type { Hold } from "../../src/engine/items/holds.ts";
import { killedAfter } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const DAY_MINUTES = 1_440;
const FROM_MS = 5_000;

const KINDS: Readonly<Record<string, () => Reply>> = {
  refused: () => ({ ok: false, failure: "not_sent", message: "connection refused" }),
  reset: () => ({ ok: false, failure: "lost", message: "connection reset" }),
  "502": () => status(502),
  "503": () => status(503),
  "302": () => status(302),
  "429": () => status(429, "rate_limit_exceeded"),
  "401": () => status(401, "invalid_api_key"),
  hang: () => "hang",
};

/** A world whose provider is out from 5 s on for a while; `endMs` tells when it is back. */
function worldOut(kind: string, lengthMs: number): World {
  const world: World = new World({
    latencyMs: 200,
    config: { providers: { alpha: { baseUrl: "http://alpha.test/v1", timeoutMs: 20_000 } } },
    answer: (line) => {
      const nowMs = world.clock.nowMs();
      const isOut = nowMs >= FROM_MS && nowMs < FROM_MS + lengthMs;
      return isOut ? (KINDS[kind] as () => Reply)() : ok(line);
    },
  });
  return world;
}

/** Lines that come one every so often. */
async function* trickle(world: World, count: number, everyMs: number): AsyncGenerator<Uint8Array> {
  for (let line = 1; line <= count; line += 1) {
    yield Buffer.from(itemLine(line));
    await world.clock.sleep(everyMs);
  }
}

function attemptsAfter(world: World, ms: number): number {
  const counts = new Map<number, number>();
  for (const { line, atMs } of world.sent) if (atMs >= ms) counts.set(line, (counts.get(line) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

const LENGTHS_MS = [45_000, 300_000, 1_800_000];
/** A caller that waits for longer than the longest. */
const OPTIONS = { out: OUTPUT, sla: DAY_MINUTES, waitMs: 3_600_000 };

describe.each(Object.keys(KINDS))("an outage (%s)", (kind) => {
  const crowds = [
    [45_000, 200],
    [300_000, 40],
    [1_800_000, 100],
  ] as const;

  it.each(crowds)("of %i ms ends no item of a crowd of %i", async (lengthMs, count) => {
    const world = worldOut(kind, lengthMs);
    const source = (async function* () {
      yield Buffer.from(itemLine(1)); // the key is accepted before
      await world.clock.sleep(FROM_MS);
      for (let line = 2; line <= count; line += 1) yield Buffer.from(itemLine(line));
    })();
    const run = (await world.engine()).run(source, OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      counts: { completed: count },
    });
    expect(attemptsAfter(world, FROM_MS + lengthMs)).toBeLessThanOrEqual(3);
  });

  const trickles = [
    [45_000, 10_000],
    [300_000, 10_000],
    [1_800_000, 30_000],
  ] as const;

  it.each(trickles)("of %i ms ends no item of a trickle of one every %i ms", async (lengthMs, everyMs) => {
    const world = worldOut(kind, lengthMs);
    const count = Math.ceil(lengthMs / everyMs) + 10;
    const run = (await world.engine()).run(trickle(world, count, everyMs), OPTIONS);
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      counts: { completed: count },
    });
    expect(attemptsAfter(world, FROM_MS + lengthMs)).toBeLessThanOrEqual(3);
  });

  it.each(LENGTHS_MS)("of %i ms does not end a single item", async (lengthMs) => {
    const world = worldOut(kind, lengthMs);
    world.input(1);
    await world.clock.advance(FROM_MS);
    const options = kind === "401" ? { onHeld: () => undefined } : {}; // a key that was never accepted would stop it
    const run = (await world.engine()).run(INPUT, { ...OPTIONS, ...options });
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", counts: { completed: 1 } });
    expect(attemptsAfter(world, FROM_MS + lengthMs)).toBeLessThanOrEqual(3);
  });
});

describe("an outage that begins while slow answers are on their way", () => {
  const kinds: Readonly<Record<string, () => Reply>> = {
    "500": () => status(500),
    "404": () => status(404, "model_not_found"),
    reset: () => ({ ok: false, failure: "lost", message: "connection reset" }),
  };
  const cases = Object.keys(kinds).flatMap((kind) => [5, 30, 64].map((places) => [kind, places] as const));

  it.each(cases)("(%s, %i in flight) ends no item", async (kind, places) => {
    const endMs = 600_000;
    let requests = 0;
    const world: World = new World({
      config: { maxInFlight: places },
      answer: (line) => {
        requests += 1;
        const isOut = requests > 80 && world.clock.nowMs() < endMs;
        if (isOut) return (kinds[kind] as () => Reply)();
        return { afterMs: 1_000 + ((line * 7_919) % 11_000), result: ok(line) };
      },
    });
    world.input(200);
    const options = { ...OPTIONS, onHeld: () => undefined }; // a model that is missing is not waited for otherwise
    const run = (await world.engine()).run(INPUT, options);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 200 } });
  });
});

describe("a run of which nothing but an outage is left", () => {
  const down = (): World => new World({ answer: () => status(503) });

  it("shows why, and ends as paused after the wait with nothing written; the same call goes on", async () => {
    const world = down();
    world.input(3);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 60_000 });
    await world.clock.advance(30_000);
    expect(run.progress().held).toMatchObject([
      { reason: "outage", items: 3, provider: "alpha", address: "http://alpha.test" },
    ]);
    const summary = await world.settle(run.finished);
    expect(summary).toMatchObject({ status: "paused", reason: "outage", counts: { submitted: 3 } });
    expect(summary.held).toMatchObject([
      { reason: "outage", items: 3, message: "alpha answered 503 (error): the provider is not available" },
    ]);
    expect(world.clock.nowMs()).toBeLessThan(120_000);
    expect(world.output()).toEqual([]);
    world.answer = (line) => ok(line);
    world.kill();
    const again = (await world.engine()).run(INPUT, { out: OUTPUT });
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 3 } });
  });

  it("has a note of what holds it for other processes, which is at most a second behind", async () => {
    const world = down();
    world.input(3);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 600_000 });
    run.finished.catch(() => undefined);
    await world.clock.advance(5_000);
    const path = world.disk.paths.find((one) => one.endsWith(".held.json")) ?? "";
    const noted = (): Hold[] => (JSON.parse(world.disk.text(path) ?? "{}") as { holds: Hold[] }).holds;
    const nextTryMs = (held: readonly Hold[]): number => Date.parse(held[0]?.next_try ?? "");
    let [compared, beforeMs] = [0, 0];
    for (let second = 5; second < 500; second += 1) {
      await world.clock.advance(1_000);
      const { held } = run.progress();
      const nextMs = nextTryMs(held);
      const isStill = Math.abs(nextMs - beforeMs) <= 1 && nextMs > world.clock.wallMs();
      beforeMs = nextMs;
      if (!isStill) continue;
      compared += 1;
      expect(noted()).toMatchObject([{ reason: "outage", items: 3, message: held[0]?.message ?? "" }]);
      expect(Math.abs(nextTryMs(noted()) - nextMs)).toBeLessThanOrEqual(1); // of rounding
    }
    expect(compared).toBeGreaterThan(100);
  });

  it("ends as paused at once where nothing is waited for, also after a kill between long delays", async () => {
    const world = new World({
      answer: () => ({ ok: false, failure: "not_sent", message: "connection refused" }),
    });
    world.input(2);
    await killedAfter(world, 40_000);
    const beganMs = world.clock.nowMs();
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 0 });
    expect(await world.settle(run.finished)).toMatchObject({ status: "paused", reason: "outage" });
    expect(world.clock.nowMs() - beganMs).toBeLessThan(1_000);
  });

  it("ends it with the true reason where the caller wants to finish", async () => {
    const world = down();
    world.input(3);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 60_000, finish: true });
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      errors: { overloaded: 3 },
    });
    expect(world.output().map(({ error }) => error?.code)).toEqual([
      "overloaded",
      "overloaded",
      "overloaded",
    ]);
  });

  it.each([
    ["overloaded", status(503), { provider: "alpha", provider_status: 503 }],
    ["model_not_found", status(404, "model_not_found"), { provider: "alpha", provider_status: 404 }],
    ["connection_failed", KINDS["refused"]?.() as Reply, { provider: "alpha" }],
  ])("names the provider and its status in the errors that it ends in: %s", async (code, reply, who) => {
    const world = new World({ answer: () => reply });
    world.input(3);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 60_000, finish: true });
    expect(await world.settle(run.finished)).toMatchObject({ errors: { [code]: 3 } });
    for (const { error, ...line } of world.output()) {
      expect(line).toMatchObject({ model: "alpha:m1", usage: {}, cost: {} });
      const { provider, provider_status } = error ?? {};
      expect({ provider, provider_status }).toEqual({ provider_status: undefined, ...who });
    }
  });

  it("ends each item with the reason of its own lane, also where lanes of one provider fail differently", async () => {
    const replies: Readonly<Record<string, Reply>> = {
      m1: status(429, "rate_limit_exceeded"),
      m2: { ok: false, failure: "lost", message: "connection reset" },
    };
    const world = new World({ answer: (_line, _attempt, model) => replies[model] as Reply });
    world.input(6, (line) => (line % 2 === 0 ? "alpha:m2" : "alpha:m1"));
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 60_000, finish: true });
    await world.settle(run.finished);
    const codes = new Map(world.output().map(({ key, error }) => [key, error?.code]));
    const [limited, lost] = ["rate_limited", "connection_lost"];
    expect([..."123456"].map((line) => codes.get(`k${line}`))).toEqual([
      limited,
      lost,
      limited,
      lost,
      limited,
      lost,
    ]);
  });

  it("expires its items at their deadline all the same", async () => {
    const world = down();
    world.input(3);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 1 });
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", counts: { expired: 3 } });
    expect(world.clock.nowMs()).toBeLessThan(62_000);
  });

  it("says in the line of each item that expires what held it", async () => {
    const world = down();
    world.input(300);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, sla: 1 });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { expired: 300 } });
    const messages = world.output().map(({ error }) => error?.message ?? "");
    expect(messages.filter((message) => !message.includes("503"))).toEqual([]);
    expect(messages).toContain(
      "the sla passed while alpha was held (outage: alpha answered 503 (error): the provider is not available)",
    );
  });
});

describe("an item that fails while others succeed", () => {
  it.each([
    [500, "provider_error", 4],
    [503, "overloaded", 9],
  ])("ends after its attempts: %i", async (code, name, attemptsMax) => {
    const world = new World({ answer: (line) => (line === 5 ? status(code) : ok(line)) });
    world.input(200);
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 199, failed: 1 } });
    expect(summary.errors).toEqual({ [name]: 1 });
    expect(world.sent.filter(({ line }) => line === 5).length).toBeLessThanOrEqual(attemptsMax);
    expect(world.clock.nowMs()).toBeLessThan(240_000);
  });

  it("is never ended by rate limits, however many it meets", async () => {
    const world = new World({
      answer: (line, attempt) => (line === 5 && attempt <= 30 ? status(429) : ok(line)),
    });
    world.input(200);
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ counts: { completed: 200 } });
  });
});

describe("what the configuration lacks", () => {
  it("holds the items of a provider that is not configured, and goes on when it is", async () => {
    const world = new World();
    world.input(6, (line) => (line % 2 === 0 ? "gamma:m1" : "alpha:m1"));
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({
      status: "paused",
      reason: "provider_missing",
      counts: { completed: 3, submitted: 3 },
      held: [{ reason: "provider_missing", provider: "gamma", items: 3 }],
    });
    expect(world.output()).toHaveLength(3);
    world.kill();
    world.reconfigure({
      providers: {
        alpha: { baseUrl: "http://alpha.test/v1" },
        gamma: { baseUrl: "http://gamma.test/v1" },
      },
    });
    const again = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(again).toMatchObject({ status: "completed", counts: { completed: 6 } });
    expect(world.sent).toHaveLength(6);
  });

  it("holds the items of a provider whose key is missing, without one request", async () => {
    const world = new World();
    world.input(4, (line) => (line % 2 === 0 ? "anthropic:claude-sonnet-4-5" : "alpha:m1"));
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({
      status: "paused",
      reason: "key_missing",
      counts: { completed: 2, submitted: 2 },
    });
    expect(summary.held).toMatchObject([
      {
        reason: "key_missing",
        provider: "anthropic",
        items: 2,
        message: 'provider "anthropic" needs a key; set ANTHROPIC_API_KEY',
      },
    ]);
    expect(world.sent).toHaveLength(2);
  });
});

it("a redirect is held as an outage that says to check the base URL", async () => {
  const world = new World({ answer: () => status(302) });
  world.input(3);
  const engine = await world.engine();
  const work = engine.run(INPUT, { out: OUTPUT });
  await world.clock.advance(30_000);
  expect(engine.holds()).toMatchObject([
    {
      reason: "outage",
      message: expect.stringMatching(
        /answered 302 .*got a redirect or an empty response; check the base URL/,
      ),
    },
  ]);
  expect(await world.settle(work.finished)).toMatchObject({
    status: "paused",
    reason: "outage",
    counts: { submitted: 3 },
  });
});
