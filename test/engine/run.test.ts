import { describe, expect, it } from "vitest";
import { finish } from "./runs.ts";
import { type Answering, INPUT, itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

async function refusal(world: World, options: object = OPTIONS) {
  const engine = await world.engine();
  const error = await world.settle(
    engine.run(INPUT, options).finished.then(
      () => undefined,
      (reason: unknown) => reason,
    ),
  );
  await world.settle(engine.close());
  return error as { code: string; message: string; details: Record<string, unknown> } | undefined;
}

describe("a run", () => {
  it("answers every line once, and its summary counts them", async () => {
    const world = new World();
    world.input(30);
    const summary = await finish(world);
    expect(
      world
        .output()
        .map(({ key }) => key)
        .sort(),
    ).toEqual(Array.from({ length: 30 }, (_, index) => `k${index + 1}`).sort());
    expect(summary).toMatchObject({
      status: "completed",
      items: 30,
      counts: { submitted: 0, completed: 30, failed: 0, expired: 0, cancelled: 0 },
      usage: { input_tokens: 300, output_tokens: 150, attempts: 30, ambiguous_attempts: 0 },
      requests_sent: 30,
      output: OUTPUT,
    });
  });

  it("sends nothing when it is called again after its end, and says the same", async () => {
    const world = new World();
    world.input(5);
    const first = await finish(world);
    const again = await finish(world);
    expect(world.sent).toHaveLength(5);
    expect(again).toEqual({ ...first, requests_sent: 0, elapsed_ms: again.elapsed_ms });
  });

  it("sends only what is missing when it is called again after a stop", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(35);
    run.stop();
    const stopped = await world.settle(run.finished);
    expect(stopped).toMatchObject({ status: "stopped", reason: "interrupted" });
    const answered = world.sent.length;
    expect(stopped.counts).toMatchObject({ completed: answered, submitted: 20 - answered });
    const second = await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(second).toMatchObject({ status: "completed", requests_sent: 20 - answered });
    expect(new Set(world.sent.map(({ line }) => line)).size).toBe(20);
    expect(world.sent).toHaveLength(20);
  });

  it("yields its output lines as they become durable, those of an earlier call first", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(10);
    const engine = await world.engine();
    const first = engine.run(INPUT, OPTIONS);
    await world.clock.advance(15);
    first.stop();
    await world.settle(first.finished);
    const keys: (string | null)[] = [];
    const read = (async () => {
      for await (const line of engine.run(INPUT, OPTIONS)) keys.push(line.key);
    })();
    await world.settle(read);
    expect(keys).toEqual(world.output().map(({ key }) => key));
    expect(keys).toHaveLength(10);
  });

  // asked for in googleapis/python-genai#1909: answers under their own keys, in the order of the input
  it("yields its output lines in order at the end with ordered", async () => {
    const world = new World({ answer: (line) => ({ afterMs: 100 - line * 5, result: ok(line) }) });
    world.input(10);
    const engine = await world.engine();
    const keys: (string | null)[] = [];
    const read = (async () => {
      for await (const line of engine.run(INPUT, { ...OPTIONS, ordered: true })) keys.push(line.key);
    })();
    await world.settle(read);
    expect(keys).toEqual(Array.from({ length: 10 }, (_, index) => `k${index + 1}`));
    expect(world.output().map(({ key }) => key)).toEqual(keys);
  });

  it("stops when its reader breaks out of the loop, and continues later", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    world.input(10);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    const read = (async () => {
      for await (const _ of run) break;
      return run.finished;
    })();
    expect(await world.settle(read)).toMatchObject({ status: "stopped", reason: "the reader left" });
    expect(world.sent.length).toBeLessThan(4);
    expect(await world.settle(engine.run(INPUT, OPTIONS).finished)).toMatchObject({ status: "completed" });
    expect(world.sent).toHaveLength(10);
  });

  it("refuses to be at work twice at once, and to share its output", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    world.input(5);
    const engine = await world.engine();
    const begun = engine.run(INPUT, OPTIONS);
    await world.clock.advance(15);
    begun.stop();
    await world.settle(begun.finished);
    const [first, second] = [engine.run(INPUT, OPTIONS), engine.run(INPUT, OPTIONS)];
    const third = engine.run(INPUT, { ...OPTIONS, id: "another" });
    const ends = await world.settle(Promise.allSettled([first, second, third].map((run) => run.finished)));
    expect(ends.map((end) => end.status)).toEqual(["fulfilled", "rejected", "rejected"]);
    expect(ends[1]).toMatchObject({ reason: { code: "conflict" } });
    expect(ends[2]).toMatchObject({ reason: { code: "conflict" } });
    expect(world.sent).toHaveLength(5);
    expect(world.output()).toHaveLength(5);
    expect(await world.settle(engine.run(INPUT, OPTIONS).finished)).toMatchObject({ requests_sent: 0 });
  });

  it("ends what was not sent as cancelled, and keeps what was answered", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(10);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(25);
    run.cancel();
    const summary = await world.settle(run.finished);
    const { completed, cancelled } = summary.counts;
    expect(completed).toBe(world.sent.length);
    expect(completed + cancelled).toBe(10);
    expect(world.output()).toHaveLength(10);
  });

  it("goes on in other runs when one was stopped whose request hangs for longer than it is waited for", async () => {
    const world = new World({
      answer: (line) => (line === 1 ? { afterMs: 120_000, result: ok(1) } : ok(line)),
    });
    world.input(1, "alpha:m1", "/a.jsonl");
    world.disk.put(
      "/b.jsonl",
      Array.from({ length: 5 }, (_, index) => itemLine(index + 2, "beta:m1")).join(""),
    );
    const engine = await world.engine();
    const hanging = engine.run("/a.jsonl", { out: "/a.out" });
    await world.clock.advance(100);
    hanging.stop();
    expect(await world.settle(hanging.finished)).toMatchObject({ status: "stopped" });
    expect(world.clock.nowMs()).toBeLessThan(31_000);
    await world.clock.advance(120_000); // its answer comes meanwhile
    expect(await world.settle(engine.run("/b.jsonl", { out: "/b.out" }).finished)).toMatchObject({
      status: "completed",
      counts: { completed: 5 },
    });
    expect(await world.settle(engine.run("/a.jsonl", { out: "/a.out" }).finished)).toMatchObject({
      status: "completed",
    });
  });

  it("leaves no timer behind when its engine is closed while a retry waits for long", async () => {
    const world = new World({ answer: () => status(429, "slow", { "retry-after": "600" }) });
    world.input(1);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(1_000);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    expect(world.clock.nowMs()).toBeLessThan(32_000);
    expect(world.clock.pendingTimers).toBe(0);
  });

  it("can be named, and continues under its name", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const first = await world.settle(engine.run(INPUT, { id: "nightly" }).finished);
    const again = await world.settle(engine.run(INPUT, { id: "nightly" }).finished);
    expect(again).toMatchObject({ task_id: first.task_id, output: first.output, requests_sent: 0 });
  });
});

describe("what a run refuses before it sends anything", () => {
  // asked for in sgl-project/sglang#1415: a duplicate key is reported, and nothing hangs
  it("fault 7: two lines of one key, naming both", async () => {
    const world = new World();
    world.disk.put(INPUT, itemLine(1) + itemLine(2) + itemLine(3, "alpha:m1", "k1"));
    expect(await refusal(world)).toMatchObject({ code: "duplicate_key", details: { lines: [1, 3] } });
    expect(world.sent).toHaveLength(0);
  });

  it("and leaves no file open", async () => {
    const world = new World();
    world.disk.put(INPUT, itemLine(1) + itemLine(1));
    expect(await refusal(world)).toMatchObject({ code: "duplicate_key" });
    expect(world.disk.openFiles).toBe(0);
    world.input(3);
    world.disk.put(OUTPUT, "somebody's work\n");
    expect(await refusal(world)).toMatchObject({ code: "output_unwritable" });
    expect(world.disk.openFiles).toBe(0);
  });

  it("an output that holds bytes which it did not write", async () => {
    const world = new World();
    world.input(3);
    world.disk.put(OUTPUT, "somebody's work\n");
    expect(await refusal(world)).toMatchObject({ code: "output_unwritable" });
    expect(world.disk.text(OUTPUT)).toBe("somebody's work\n");
    expect(world.sent).toHaveLength(0);
  });

  it("an input that is not there", async () => {
    expect(await refusal(new World())).toMatchObject({ code: "input_unreadable" });
  });

  it("fault 19: an sla that is not a whole number of minutes from 1 to 43,200", async () => {
    const engine = await new World().engine();
    for (const sla of [0, -1, 1.5, 1e9, Number.NaN])
      expect(() => engine.run(INPUT, { sla }), String(sla)).toThrow(/sla/);
  });
});

describe("a run whose files changed", () => {
  async function stopped(): Promise<World> {
    const world = new World({ config: { maxInFlight: 1 } });
    world.input(6);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(25);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    return world;
  }

  it("fault 17: refuses an input that is another file now", async () => {
    const world = await stopped();
    const before = world.disk.text(OUTPUT);
    world.input(7);
    expect(await refusal(world)).toMatchObject({ code: "input_changed" });
    expect(world.disk.text(OUTPUT)).toBe(before);
  });

  it("continues with an input that was touched and holds the same", async () => {
    const world = await stopped();
    await world.clock.advance(5_000);
    world.input(6);
    expect(await finish(world)).toMatchObject({ status: "completed", counts: { completed: 6 } });
    expect(world.sent).toHaveLength(6);
  });

  it("fault 17: fails with input_changed when its input changes while it is read, and loses nothing", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    const count = 200;
    const text = Array.from({ length: count }, (_, index) => itemLine(index + 1)).join("");
    world.disk.put(INPUT, text);
    const open = world.disk.open.bind(world.disk);
    world.disk.open = async (path, mode) => {
      const file = await open(path, mode);
      const read = async (into: Uint8Array, position: number): Promise<number> => {
        await world.clock.sleep(50);
        return file.read(into.subarray(0, 4_096), position);
      };
      return path === INPUT && mode === "read" ? { ...file, read } : file;
    };
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.settle(run.opened);
    await world.clock.advance(200);
    const file = await world.disk.open(INPUT, "write");
    await file.write(new TextEncoder().encode("HELLO"), text.lastIndexOf("hello"));
    const error = await world.settle(run.finished.catch((reason: unknown) => reason));
    expect(error).toMatchObject({ code: "input_changed" });
    await world.settle(engine.close());
    const answered = world.output().length;
    expect(answered).toBeGreaterThan(10);
    expect(world.sent.length - answered).toBeLessThanOrEqual(2);
    const sent = world.sent.length;
    world.disk.put(INPUT, text);
    expect(await finish(world)).toMatchObject({ status: "completed", counts: { completed: count } });
    expect(world.sent.length - sent).toBe(count - answered);
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(count);
  });

  it("refuses an output that is shorter than what was recorded", async () => {
    const world = await stopped();
    const file = await world.disk.open(OUTPUT, "write");
    await file.truncate(0);
    expect(await refusal(world)).toMatchObject({ code: "output_changed" });
    expect(world.sent.length).toBeLessThan(6);
  });

  it("refuses a finished output that somebody changed", async () => {
    const world = new World();
    world.input(3);
    await finish(world);
    const file = await world.disk.open(OUTPUT, "write");
    await file.truncate(5);
    expect(await refusal(world)).toMatchObject({ code: "output_changed" });
  });
});

describe("inputs of other kinds", () => {
  it("fault 18: an empty file is complete at once, with no lines", async () => {
    const world = new World();
    world.disk.put(INPUT, "");
    expect(await finish(world)).toMatchObject({ status: "completed", items: 0 });
    expect(world.output()).toEqual([]);
  });

  it("an iterable of items continues under its name; the later of two equal keys gets the error", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    const lines = [itemLine(1), itemLine(2), itemLine(3, "alpha:m1", "k1"), itemLine(4)];
    const source = async function* () {
      for (const line of lines) yield new TextEncoder().encode(line);
    };
    const engine = await world.engine();
    const run = engine.run(source(), { ...OPTIONS, id: "stream" });
    await world.clock.advance(15);
    run.stop();
    await world.settle(run.finished);
    const before = world.sent.length;
    expect(before).toBeLessThan(3);
    const summary = await world.settle(engine.run(source(), { ...OPTIONS, id: "stream" }).finished);
    expect(summary).toMatchObject({ status: "completed", items: 4, errors: { duplicate_key: 1 } });
    expect(world.sent.map(({ line }) => line).sort()).toEqual([1, 2, 4]);
    expect(world.output().find(({ error }) => error !== undefined)).toMatchObject({
      key: "k1",
      error: { code: "duplicate_key", line: 3 },
    });
  });

  it("an iterable that yields something else when it is continued is refused", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    const engine = await world.engine();
    const bytes = (text: string) => [new TextEncoder().encode(text)];
    const run = engine.run(bytes(itemLine(1) + itemLine(2) + itemLine(3)), { ...OPTIONS, id: "stream" });
    await world.clock.advance(15);
    run.stop();
    await world.settle(run.finished);
    const again = engine.run(bytes(itemLine(5) + itemLine(6) + itemLine(7)), { ...OPTIONS, id: "stream" });
    const error = await world.settle(again.finished.catch((reason: unknown) => reason));
    expect(error).toMatchObject({ code: "input_changed" });
  });

  it("a .json file with one array is read like lines, element n being line n", async () => {
    const world = new World();
    const elements = [1, 2, 3].map((line) => JSON.parse(itemLine(line)) as unknown);
    world.disk.put("/in.json", JSON.stringify([...elements, "no item"]));
    const engine = await world.engine();
    const summary = await world.settle(engine.run("/in.json", OPTIONS).finished);
    expect(summary).toMatchObject({ items: 4, counts: { completed: 3, failed: 1 } });
    expect(world.output().find(({ key }) => key === null)).toMatchObject({ line: 4 });
  });
});

describe("a crash", () => {
  /** Three items, one at a time; the process dies over the second one, `afterMs` after its request was sent. */
  async function diedOverTheSecond(afterMs: number): Promise<World> {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 50 });
    world.input(3);
    const process = mortal(world.clock);
    world.answer = (line, attempt) => {
      if (line === 2 && attempt === 1)
        world.clock.timer(afterMs, () => {
          process.kill();
          world.store.crash();
        });
      return ok(line);
    };
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished.catch(() => undefined);
    await world.clock.advance(60 + afterMs);
    world.kill();
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2]);
    return world;
  }

  it("fault 23: between a durable intent and the first byte leaves the item in doubt, and it is requested again", async () => {
    const world = await diedOverTheSecond(0);
    expect(world.wire.ledger.map(({ result }) => result?.ok === true)).toEqual([true, false]);
    expect(await finish(world)).toMatchObject({
      counts: { completed: 3 },
      usage: { attempts: 4, ambiguous_attempts: 1 },
    });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 2, 3]);
  });

  it("fault 24: between an answer and its durable outcome has it requested again, and the attempt counts as ambiguous", async () => {
    const world = await diedOverTheSecond(50);
    expect(world.wire.ledger.map(({ result }) => result?.ok === true)).toEqual([true, true]);
    expect(await finish(world)).toMatchObject({
      counts: { completed: 3 },
      usage: { attempts: 4, ambiguous_attempts: 1 },
    });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 2, 3]);
    expect(world.output().map(({ key }) => key)).toEqual(["k1", "k2", "k3"]);
  });

  // asked for in ray-project/ray#55008: a job that died goes on where it was
  it("asks again for what was in flight, and for nothing else", async () => {
    const world = new World({ config: { maxInFlight: 3 }, latencyMs: 50 });
    world.input(6);
    const process = mortal(world.clock);
    const engine = await world.engine(process.clock);
    void engine.run(INPUT, OPTIONS).finished;
    await world.clock.advance(70); // three answered, three in flight
    process.kill();
    world.kill();
    const before = world.sent.length;
    const summary = await finish(world);
    expect(before).toBe(6);
    expect(world.sent.length - before).toBe(3);
    expect(summary).toMatchObject({
      counts: { completed: 6 },
      usage: { attempts: 9, ambiguous_attempts: 3 },
    });
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(6);
  });

  it("ends what was in flight as ambiguous when delivery is at most once", async () => {
    const world = new World({ config: { maxInFlight: 2, delivery: "at_most_once" }, latencyMs: 50 });
    world.input(4);
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(20);
    process.kill();
    world.kill();
    const summary = await finish(world);
    expect(summary).toMatchObject({ counts: { completed: 2, failed: 2 }, errors: { ambiguous: 2 } });
    expect(world.sent).toHaveLength(4);
  });

  it("ends it so when it is read, although its lane has to wait for other lines", async () => {
    const answer: Answering = (line, attempt) => (line === 1 && attempt === 1 ? status(503) : "hang");
    const world = new World({ config: { maxInFlight: 2, delivery: "at_most_once" }, answer });
    world.input(2);
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(100);
    process.kill();
    world.kill();
    world.answer = ok;
    world.reconfigure({ limits: { alpha: { requestsPerMinute: 2 } } }); // both are used for a minute
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(1_000);
    expect(world.output()).toMatchObject([
      { key: "k2", error: { code: "ambiguous", ambiguous_attempts: 1 } },
    ]);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1, failed: 1 } });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 1]);
  });

  it("fault 31: ten kills during recovery change nothing, and nothing is sent meanwhile", async () => {
    const world = new World({ config: { maxInFlight: 3 }, latencyMs: 50 });
    world.input(9);
    let process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(70);
    process.kill();
    world.kill();
    const before = world.sent.length;
    for (let kill = 0; kill < 10; kill += 1) {
      const operation = 1 + (kill % 8); // of the nine before the first request
      process = mortal(world.clock);
      const engine = await world.engine(process.clock); // reads what was learnt, and lives without it
      const operationsDone = world.disk.operationsDone + operation;
      world.disk.crashAtOperation(operation, { powerCut: kill % 2 === 0 });
      const run = engine.run(INPUT, OPTIONS);
      run.finished.catch(() => undefined);
      await world.clock.settle();
      process.kill();
      world.kill();
      expect(world.disk.operationsDone, `kill ${kill}`).toBe(operationsDone);
      expect(world.sent, `kill ${kill}`).toHaveLength(before);
    }
    const summary = await finish(world);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 9 } });
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(9);
  });
});
