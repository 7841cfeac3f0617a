/**
 * Runs that leave their batches with a provider, by the built command: detach, kill, interrupt, cancel, another key.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import type { FakeOpenAiOptions } from "../batch_servers/openai.ts";
import { DetachedRun, keysUpTo } from "./detached_run.ts";

const ITEMS = 200;
let world: DetachedRun;

async function opened(options: Partial<FakeOpenAiOptions> = {}): Promise<DetachedRun> {
  world = new DetachedRun(options);
  await world.open(ITEMS);
  return world;
}

async function until(isTrue: () => boolean): Promise<void> {
  const endMs = Date.now() + 20_000;
  while (!isTrue()) {
    if (Date.now() > endMs) throw new Error("it did not happen within 20 s");
    await sleep(20);
  }
}

/** Each item is answered once, and the provider's book has what the run says. */
function expectOnce(stdout: string): void {
  expect(world.answered()).toEqual(keysUpTo(ITEMS));
  const { cost } = JSON.parse(stdout);
  const bookUsd = world.fake.ledger.sums().nanoUsd / 1e9;
  expect(world.fake.ledger.sums().answers).toBe(ITEMS);
  expect(cost.billed_usd).toBeLessThanOrEqual(bookUsd + 1e-9);
  expect(bookUsd).toBeLessThanOrEqual(cost.billed_usd + cost.ambiguous_usd + 1e-9);
}

afterEach(() => world.close());

describe("perigee run --detach", () => {
  it("ends with 0 and without an output, names its batches, and the same command collects them", async () => {
    await opened({ times: { p50: 2_000, p90: 3_000, p99: 4_000 } });
    const left = await world.run(["--detach"]).ended;
    expect(left.code).toBe(0);
    expect(world.hasOutput()).toBe(false);
    const { status, batches } = JSON.parse(left.stdout);
    expect(status).toBe("detached");
    expect(batches.map(({ id }: { id: string }) => id).sort()).toEqual(
      [...world.fake.ledger.batches.keys()].sort(),
    );
    expect(left.stderr).toContain("to collect: perigee run in.jsonl");
    const listed = await world.start(["batches", "list", "--out", "out.jsonl", "--json"]).ended;
    const found = JSON.parse(listed.stdout).batches;
    expect(found.map(({ id }: { id: string }) => id).sort()).toEqual(
      batches.map(({ id }: { id: string }) => id).sort(),
    );
    expect(found[0]).toMatchObject({ provider: "openai", state: "running", model: "openai:gpt-5-mini" });
    const collected = await world.run().ended;
    expect(collected.code).toBe(0);
    expectOnce(collected.stdout);
  }, 60_000);

  it("collects each item once after kills at random moments", async () => {
    await opened({ times: { p50: 1_000, p90: 2_000, p99: 3_000 } });
    for (const afterMs of [350, 700, 900, 500, 1_200]) {
      const { child, ended } = world.run(["--detach"]);
      await Promise.race([sleep(afterMs), ended]);
      child.kill("SIGKILL");
      await ended;
    }
    const collected = await world.run().ended;
    expect(collected.code).toBe(0);
    expectOnce(collected.stdout);
    expect(world.fake.ledger.batches.size).toBeGreaterThan(0);
  }, 60_000);
});

describe("a run with batches at a provider", () => {
  it("is left by an interrupt without a cancel, and names them", async () => {
    await opened({ times: { p50: 3_000, p90: 4_000, p99: 5_000 } });
    const { child, ended } = world.run();
    await until(() => world.fake.ledger.batches.size > 0);
    await sleep(500);
    child.kill("SIGINT");
    const { code, stdout, stderr } = await ended;
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({ status: "stopped" });
    expect(JSON.parse(stdout).batches.length).toBeGreaterThan(0);
    expect(stderr).toContain("nothing of that is cancelled");
    expect(world.fake.ledger.calls.get("cancel") ?? 0).toBe(0);
    const collected = await world.run().ended;
    expectOnce(collected.stdout);
  }, 60_000);

  it("is cancelled by --cancel, and what was paid for is kept", async () => {
    await opened({ times: { p50: 1_500, p90: 60_000, p99: 90_000 } });
    expect((await world.run(["--detach"]).ended).code).toBe(0);
    await sleep(3_000);
    const { code, stdout } = await world.run(["--cancel"]).ended;
    expect(code).toBe(3);
    const { status, counts } = JSON.parse(stdout);
    expect(status).toBe("completed");
    expect(counts.completed + counts.cancelled).toBe(ITEMS);
    expect(counts.completed).toBe(world.fake.ledger.sums().billed);
    expect(counts.completed).toBeGreaterThan(0);
    expect(counts.cancelled).toBeGreaterThan(0);
    expect(world.answered()).toHaveLength(counts.completed);
  }, 60_000);

  it("is paused with another key, which asks for nothing, and goes on with the first one", async () => {
    await opened();
    expect((await world.run(["--detach"]).ended).code).toBe(0);
    const callsBefore = new Map(world.fake.ledger.calls);
    const paused = await world.run([], "sk-b").ended;
    expect(paused.code).toBe(3);
    expect(JSON.parse(paused.stdout)).toMatchObject({ status: "paused", reason: "key_changed" });
    expect(new Map(world.fake.ledger.calls)).toEqual(callsBefore);
    const refused = await world.start(
      ["batches", "cancel", "--all", "--out", "out.jsonl", "--config", "config.json", "--json"],
      "sk-b",
    ).ended;
    expect(refused.code).toBe(2);
    expect(JSON.parse(refused.stdout).error.code).toBe("forbidden");
    expect(new Map(world.fake.ledger.calls)).toEqual(callsBefore);
    const collected = await world.run().ended;
    expectOnce(collected.stdout);
  }, 60_000);
});

describe("perigee batches", () => {
  it("cancels all, and their run sends the rest another way", async () => {
    await opened({ times: { p50: 60_000, p90: 60_000, p99: 60_000 } });
    expect((await world.run(["--detach"]).ended).code).toBe(0);
    const where = ["--out", "out.jsonl", "--config", "config.json", "--json"];
    const cancelled = await world.start(["batches", "cancel", "--all", ...where]).ended;
    expect(cancelled.code).toBe(0);
    expect(JSON.parse(cancelled.stdout).batches.length).toBe(world.fake.ledger.batches.size);
    const collected = await world.run(["--deny-lanes", "batch"]).ended;
    expect(collected.code).toBe(0);
    expectOnce(collected.stdout);
  }, 60_000);

  it("adopts a batch whose create was not answered, without a second one", async () => {
    const lostOnce = { isFirst: true };
    await opened({
      times: { p50: 1_500, p90: 2_000, p99: 3_000 },
      listDelayMs: 60_000,
      faults: ({ kind }) => {
        if (kind !== "create" || !lostOnce.isFirst) return undefined;
        lostOnce.isFirst = false;
        return "lost";
      },
    });
    const { child, ended } = world.run(["--detach"]);
    await until(() => world.fake.ledger.batches.size > 0);
    child.kill("SIGKILL");
    await ended;
    const [id = ""] = world.fake.ledger.batches.keys();
    const where = ["--out", "out.jsonl", "--config", "config.json", "--json"];
    const adopted = await world.start(["batches", "adopt", id, ...where]).ended;
    expect(adopted.stdout).toContain(`"id":"${id}"`);
    expect(adopted.code).toBe(0);
    const again = await world.start(["batches", "adopt", id, ...where]).ended;
    expect(JSON.parse(again.stdout).error.code).toBe("conflict");
    const collected = await world.run().ended;
    expectOnce(collected.stdout);
  }, 60_000);

  it("says what is wrong with a folder without runs, an id that is not known, and no id", async () => {
    await opened();
    const empty = await world.start(["batches", "list", "--data", "nowhere", "--json"]).ended;
    expect({ code: empty.code, error: JSON.parse(empty.stdout).error.code }).toEqual({
      code: 2,
      error: "not_found",
    });
    expect((await world.run(["--detach"]).ended).code).toBe(0);
    const unknown = await world.start(["batches", "cancel", "batch_x", "--out", "out.jsonl"]).ended;
    expect(unknown.stderr).toContain("no open batch batch_x");
    expect(unknown.code).toBe(2);
    expect((await world.start(["batches", "cancel", "--out", "out.jsonl"]).ended).code).toBe(2);
    expect((await world.start(["run", "in.jsonl", "--out", "new.jsonl", "--cancel"]).ended).code).toBe(2);
    expect((await world.run(["--cancel", "--detach"]).ended).code).toBe(2);
  }, 60_000);
});
