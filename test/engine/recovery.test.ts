import { describe, expect, it } from "vitest";
import type { Step } from "../../src/engine/journal/journal.ts";
import { readStatus } from "../../src/engine/runs/run_status.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

/** A run of six items of which three are answered and durable and three are in flight; then its process is killed. */
async function killed(
  options: { readonly powerCut?: boolean; readonly random?: () => number } = {},
): Promise<World> {
  const world = new World({ config: { maxInFlight: 3 }, latencyMs: 50 });
  world.input(6);
  const process = mortal(world.clock);
  void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
  await world.clock.advance(70);
  process.kill();
  world.kill({ powerCut: options.powerCut === true, ...(options.random === undefined ? {} : options) });
  return world;
}

async function append(world: World, text: string): Promise<void> {
  const file = await world.disk.open(OUTPUT, "write");
  await file.write(new TextEncoder().encode(text), await file.sizeBytes());
}

function expectWhole(world: World, count = 6): void {
  expect(world.disk.text(OUTPUT)?.endsWith("\n")).toBe(true);
  const keys = world.output().map(({ key }) => key);
  expect(keys.sort()).toEqual(Array.from({ length: count }, (_, index) => `k${index + 1}`));
}

const answerLine = (line: number): string =>
  `{"key":"k${line}","output":{"type":"text","text":"answer ${line}"}}\n`;

describe("recovery", () => {
  it("fault 26: cuts a torn line before it appends", async () => {
    const world = await killed();
    await append(world, '{"key":"k4","output":{"ty');
    expect(await finish(world)).toMatchObject({ counts: { completed: 6 } });
    expectWhole(world);
  });

  // asked for in vllm-project/aibrix#2535: what was answered before a job was cut short is kept
  it("fault 25: adopts a whole line of an item that was in flight, and does not ask for it again", async () => {
    const world = await killed();
    const before = world.sent.length;
    await append(world, `${answerLine(5)}{"key":"k4`);
    expect(await finish(world)).toMatchObject({ counts: { completed: 6 } });
    expectWhole(world);
    const again = world.sent.slice(before).map(({ line }) => line);
    expect(again.sort()).toEqual([4, 6]);
  });

  it("estimates what an adopted answer took, beside what earlier attempts of its item took", async () => {
    const prices = { "alpha:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } };
    const world = new World({ config: { maxInFlight: 1, prices } });
    world.input(1);
    const empty = openaiAnswer("", { inputTokens: 100, outputTokens: 50 }); // billed, and asked again
    world.answer = (_, attempt) => (attempt === 1 ? empty : "hang");
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(20_000);
    process.kill();
    world.kill();
    await append(world, answerLine(1));
    const steps: Step[] = [];
    const onStep = (_: number, step: Step): void => void steps.push(step);
    const summary = await finish(world, { ...OPTIONS, onStep });
    const adopted = steps.flatMap((step) => step.outcomes).find(({ line }) => line === 1);
    const answerTokens = 2; // "answer 1" at four characters a token
    const reserved = steps.flatMap((step) => step.intents).findLast(({ line }) => line === 1);
    expect(adopted).toMatchObject({
      status: "completed",
      attempts: 2,
      isEstimated: true,
      inputTokens: 100 + (reserved?.inputTokens ?? 0),
      outputTokens: 50 + answerTokens,
      priceNumber: 1,
    });
    expect(adopted?.listUsd).toBeCloseTo(((adopted?.inputTokens ?? 0) + 2 * (50 + answerTokens)) / 1e6, 12);
    expect(summary).toMatchObject({
      usage: { input_tokens: adopted?.inputTokens, output_tokens: 50 + answerTokens, attempts: 2 },
      cost: { is_estimated: true, price_source: "config, 2026-11-01" },
      requests_sent: 0,
    });
    expect(summary.cost.list_usd).toBeCloseTo(adopted?.listUsd ?? 0, 9);
  });

  it("counts both answers of a line: the one that a power cut damaged, and the one that it adopts in its place", async () => {
    const prices = {
      "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000, asOf: "2026-11-01" },
    };
    const answerUsd = 0.035;
    const world = new World({ config: { maxInFlight: 2, prices } });
    world.input(2);
    world.answer = (line, attempt) => (line === 1 && attempt === 1 ? ok(line) : "hang");
    for (const left of [answerLine(1).slice(0, 40), answerLine(1)]) {
      const process = mortal(world.clock);
      void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
      await world.clock.advance(1_000);
      process.kill();
      world.kill();
      world.disk.put(OUTPUT, left);
    }
    expect(world.sent.filter(({ line }) => line === 1)).toHaveLength(2);
    world.answer = ok;
    const steps: Step[] = [];
    const onStep = (_: number, step: Step): void => void steps.push(step);
    const { counts, cost, requests_sent } = await finish(world, { ...OPTIONS, onStep });
    expect(counts.completed).toBe(2);
    expect(requests_sent).toBe(1);
    expect(cost.billed_usd).toBeCloseTo(2 * answerUsd, 9); // the damaged one, and the last of the other line
    const mostUsd = steps.flatMap(({ intents }) => intents)[0]?.mostUsd ?? 0;
    expect(cost.ambiguous_usd).toBeCloseTo(3 * mostUsd, 9); // the adopted one, and two of the other line
  });

  it("does not adopt what cannot be its own: a line for an item that was not in flight, or no output line", async () => {
    for (const foreign of [answerLine(2), answerLine(77), '{"key":"k4"}\n', "nonsense\n", "\u0000\u0000\n"]) {
      const world = await killed();
      await append(world, foreign);
      expect(await finish(world), foreign).toMatchObject({ counts: { completed: 6 } });
      expectWhole(world);
    }
  });

  it("asks again for the lines whose last range a power cut damaged, however it was torn", async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const random = createRandom(seed);
      const world = new World({ config: { maxInFlight: 3 } });
      world.input(12);
      const process = mortal(world.clock);
      void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
      world.disk.crashAtOperation(20 + seed, { powerCut: true, random });
      await world.clock.advance(200);
      process.kill();
      world.kill({ powerCut: true, random });
      expect(await finish(world), `seed ${seed}`).toMatchObject({ counts: { completed: 12 } });
      expectWholeOf(world, 12);
    }
  });

  it("does not end a line for its restarts when a power cut damages its answer in the end", async () => {
    let voided = 0;
    for (let operations = 1; operations <= 30; operations += 1) {
      const world = new World({ latencyMs: 50 });
      world.input(1);
      const call = async (ms: number, powerCut: boolean): Promise<void> => {
        const process = mortal(world.clock);
        void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
        if (powerCut) world.disk.crashAtOperation(operations, { powerCut });
        await world.clock.advance(ms);
        process.kill();
        world.kill({ powerCut });
      };
      for (let restarts = 0; restarts < 4; restarts += 1) await call(20, false);
      await call(200, true);
      const onStep = (_: number, { voids }: Step): void => {
        if (voids > 0) voided += 1;
      };
      const summary = await finish(world, { ...OPTIONS, onStep });
      expect(summary, `${operations}`).toMatchObject({ counts: { completed: 1 } });
    }
    expect(voided).toBeGreaterThan(0);
  });

  it("is reported the same by every step, from the first on, when it is followed", async () => {
    const world = await killed();
    const steps: [number, Step][] = [];
    const onStep = (sequence: number, step: Step): void => void steps.push([sequence, step]);
    await finish(world, { ...OPTIONS, onStep });
    const settled = steps.flatMap(([, step]) => step.outcomes.map(({ line }) => line));
    expect(settled.sort()).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

function expectWholeOf(world: World, count: number): void {
  const keys = world.output().map(({ key }) => key);
  expect(keys).toHaveLength(count);
  expect(new Set(keys).size).toBe(count);
}

describe("an item that was in flight at every one of eight kills", () => {
  it("is answered all the same: a process that died is not its fault", async () => {
    const world = new World({ latencyMs: 50 });
    world.input(1);
    for (let kill = 0; kill < 8; kill += 1) {
      const process = mortal(world.clock);
      void (await world.settle(world.engine(process.clock))).run(INPUT, OPTIONS).finished;
      await world.clock.advance(30);
      process.kill();
      world.kill();
    }
    expect(world.sent).toHaveLength(8);
    const summary = await finish(world);
    expect(summary.counts).toMatchObject({ completed: 1, failed: 0 });
    expect(summary.usage).toMatchObject({ attempts: 9, ambiguous_attempts: 8 });
    expectWhole(world, 1);
  });
});

describe("a full disk", () => {
  it("fault 36: only the output's: lines wait in the journal, nothing new is sent, and all continues by itself", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(40);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(25);
    world.disk.setFull(100);
    await world.clock.advance(30_000);
    const during = world.sent.length;
    expect(during).toBeLessThan(20);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 40 }, requests_sent: 40 });
    expectWholeOf(world, 40);
  });

  it("fault 35: what had a place when the disk filled up is not sent by a run that stops then", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(8);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(5);
    world.disk.setFull(10);
    await world.clock.advance(500); // four answers wait in the journal, and behind them four intents
    run.stop();
    await world.clock.advance(500);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped", counts: { completed: 4 } });
    await world.settle(engine.close());
    expect(world.sent).toHaveLength(4);
    expect(await finish(world)).toMatchObject({ counts: { completed: 8 } });
    expectWholeOf(world, 8);
    expect(world.sent).toHaveLength(8);
  });

  it("fault 35: what was not sent by a run that stopped then is not in doubt", async () => {
    const world = new World({ config: { maxInFlight: 4, delivery: "at_most_once" } });
    world.input(8);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(5);
    world.disk.setFull(10);
    await world.clock.advance(500);
    run.stop();
    await world.clock.advance(500);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped", counts: { completed: 4 } });
    await world.settle(engine.close());
    expect(await finish(world)).toMatchObject({ counts: { completed: 8 } });
    expect(world.sent).toHaveLength(8);
  });

  it("fault 36: of which the user has had a share is as full", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(15);
    world.disk.failNext("write", "EDQUOT", 3);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 20 }, requests_sent: 20 });
    expectWholeOf(world, 20);
  });

  it("fault 36: lines that wait survive a crash, and nobody asks for them again", async () => {
    for (const powerCut of [false, true]) {
      const world = new World({ config: { maxInFlight: 4 } });
      world.input(8);
      const process = mortal(world.clock);
      void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished.catch(() => undefined);
      await world.clock.advance(5);
      world.disk.setFull(10);
      await world.clock.advance(500); // four answers wait in the journal
      process.kill();
      world.kill({ powerCut });
      const before = world.sent.length;
      expect(before).toBe(4);
      world.disk.setFull(Number.POSITIVE_INFINITY);
      expect(await finish(world)).toMatchObject({ counts: { completed: 8 } });
      expectWholeOf(world, 8);
      expect(world.sent).toHaveLength(8);
    }
  });

  it("fault 36: a power cut while they are written at last loses no line", async () => {
    for (let operations = 1; operations <= 12; operations += 1) {
      const world = new World({ config: { maxInFlight: 4 } });
      world.input(8);
      const process = mortal(world.clock);
      void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished.catch(() => undefined);
      await world.clock.advance(5);
      world.disk.setFull(10);
      await world.clock.advance(500);
      world.disk.setFull(Number.POSITIVE_INFINITY);
      world.disk.crashAtOperation(operations, { powerCut: true });
      await world.clock.advance(1_500);
      process.kill();
      world.kill({ powerCut: true });
      expect(await finish(world), `${operations}`).toMatchObject({ counts: { completed: 8 } });
      expectWholeOf(world, 8);
    }
  });

  it("fault 35: the store's: nothing is sent that is not recorded, and all goes on by itself", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(15);
    world.store.failNext("disk_full", 20);
    await world.clock.advance(10_000);
    const during = world.sent.length;
    await world.clock.advance(5_000);
    expect(world.sent).toHaveLength(during);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 20 }, requests_sent: 20 });
    expectWholeOf(world, 20);
  });

  it("fault 35: that stays full holds all items, visibly, and the run goes on by itself after half an hour without space", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(15);
    world.disk.setFull(0);
    await world.clock.advance(29 * 60_000);
    const { held, settled } = run.progress();
    expect(held).toEqual([
      {
        reason: "disk_full",
        since: expect.any(String),
        next_try: new Date(world.clock.wallMs() + 1_000).toISOString(),
        items: 20 - settled,
        message: "no space left on the disk of /out.jsonl",
      },
    ]);
    expect(world.sent.length).toBeLessThanOrEqual(8);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await world.clock.advance(2_000);
    expect(run.progress().held).toEqual([]);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 20 }, requests_sent: 20 });
    expectWholeOf(world, 20);
  });

  it("fault 35: that stays full ends the run with disk_full after diskWaitMs, and the next call continues", async () => {
    const world = new World({ config: { maxInFlight: 4, diskWaitMs: 60_000 } });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(15);
    world.disk.setFull(0);
    await expect(world.settle(run.finished)).rejects.toMatchObject({
      code: "disk_full",
      message: "no space left on the disk of /out.jsonl for 60 s; free some and run the same command again",
    });
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(60_000);
    expect(world.clock.nowMs()).toBeLessThan(62_000);
    await world.settle(engine.close());
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await finish(world)).toMatchObject({ counts: { completed: 20 } });
    expectWholeOf(world, 20);
    expect(world.sent).toHaveLength(20);
  });

  it("shows the items of a run that ended with disk_full as held, to other processes", async () => {
    const world = new World({ config: { maxInFlight: 4, diskWaitMs: 60_000 } });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(15);
    const fullAt = world.clock.wallMs();
    const { settled } = run.progress();
    world.store.failNext("disk_full", 1_000);
    await expect(world.settle(run.finished)).rejects.toMatchObject({ code: "disk_full" });
    await world.settle(engine.close());
    world.kill();
    const store = await world.store.open();
    const task = await store.taskByName(`out:${OUTPUT}`);
    if (task === undefined) throw new Error("no task");
    const { counts, held } = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
    expect(counts).toEqual({ answered: settled, failed: 0, open: 0, held: 20 - settled });
    const message = "no space left on the disk of /data"; // the store was full, not the output
    expect(held).toMatchObject([{ reason: "disk_full", items: 20 - settled, next_try: null, message }]);
    expect(Math.abs(Date.parse(held[0]?.since ?? "") - fullAt)).toBeLessThan(100);
  });
});

describe("a failed sync", () => {
  it("fault 37: is final: the run rejects, nothing more is sent, and a later call continues", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(25);
    world.disk.failSync();
    await expect(world.settle(run.finished)).rejects.toMatchObject({ code: "output_unwritable" });
    const sent = world.sent.length;
    await world.clock.advance(5_000);
    expect(world.sent).toHaveLength(sent);
    await expect(world.settle(engine.run(INPUT, OPTIONS).finished)).rejects.toMatchObject({
      code: "output_unwritable",
    });
    expect(world.sent).toHaveLength(sent);
    await world.settle(engine.close());
    expect(await finish(world)).toMatchObject({ counts: { completed: 20 } });
    expectWholeOf(world, 20);
  });

  it("fault 37: what it left unsynced survives a power cut after the next start", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(25);
    world.disk.failSync();
    await world.settle(run.finished.catch(() => undefined));
    await world.settle(engine.close());
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(35);
    process.kill();
    world.kill({ powerCut: true });
    expect(await finish(world)).toMatchObject({ counts: { completed: 20 } });
    expectWholeOf(world, 20);
  });

  it("of the store fails every run at work, and none waits for ever", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(20);
    world.disk.put("/b.jsonl", itemLine(50) + itemLine(51));
    const engine = await world.engine();
    const runs = [engine.run(INPUT, OPTIONS), engine.run("/b.jsonl", { out: "/b.out" })];
    await world.clock.advance(5);
    world.store.failNext("store_failed");
    const ends = await world.settle(Promise.allSettled(runs.map((run) => run.finished)));
    expect(ends.map((end) => end.status)).toEqual(["rejected", "rejected"]);
    await world.settle(engine.close());
    expect(await finish(world)).toMatchObject({ counts: { completed: 20 } });
  });

  it("at the very end of a run is reported, too", async () => {
    const failed: number[] = [];
    for (let writes = 0; writes < 8; writes += 1) {
      const world = new World();
      world.input(3);
      const engine = await world.engine();
      const run = engine.run(INPUT, OPTIONS);
      let commits = 0;
      while (commits < writes && (await world.clock.advanceToNextTimer())) commits = world.store.commits;
      const isOver = run.progress().state === "done";
      world.store.failNext("store_failed");
      const [end] = await world.settle(Promise.allSettled([run.finished])); // stuck would throw
      expect(end.status, `${writes}`).toBe(isOver ? "fulfilled" : "rejected");
      if (end.status === "rejected") {
        expect(end.reason, `${writes}`).toMatchObject({ code: "store_failed" });
        failed.push(writes);
      }
      await world.settle(engine.close());
      world.kill();
      expect(await finish(world)).toMatchObject({ counts: { completed: 3 } });
      expectWholeOf(world, 3);
    }
    expect(failed.length).toBeGreaterThanOrEqual(4); // up to the step that ends the run
  });
});

describe("an output that cannot be written", () => {
  it("is reported as output_unwritable, before anything is sent", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const { open } = world.disk;
    world.disk.open = (path, mode) => {
      if (path === OUTPUT) world.disk.failNext("open", "EACCES");
      return open.call(world.disk, path, mode);
    };
    const run = engine.run(INPUT, OPTIONS);
    await expect(world.settle(run.finished)).rejects.toMatchObject({ code: "output_unwritable" });
    expect(world.sent).toHaveLength(0);
  });

  it("fault 27: a crash between the last answer and the end of an ordered run leaves one whole output", async () => {
    for (let operations = 1; operations <= 14; operations += 1) {
      const world = new World();
      world.input(4);
      const process = mortal(world.clock);
      const run = (await world.engine(process.clock)).run(INPUT, { ...OPTIONS, ordered: true });
      run.finished.catch(() => undefined);
      await world.clock.advance(9);
      world.disk.crashAtOperation(operations, { powerCut: true });
      await world.clock.advance(50);
      process.kill();
      world.kill({ powerCut: true });
      const summary = await finish(world, { ...OPTIONS, ordered: true });
      expect(summary, `${operations}`).toMatchObject({ counts: { completed: 4 } });
      expect(world.output().map(({ key }) => key)).toEqual(["k1", "k2", "k3", "k4"]);
    }
  });
});
