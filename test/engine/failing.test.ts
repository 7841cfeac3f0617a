/**
 * How runs fail: for a reason that is not the disk's, what is in flight is answered and recorded first.
 */
import { describe, expect, it } from "vitest";
import type { Disk, DiskFile } from "../../src/disk.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { failure } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

/** Lets every read of the input go through `read`, which may fail, wait or give something else. */
function readInputBy(
  disk: Disk,
  read: (file: DiskFile, ...from: Parameters<DiskFile["read"]>) => Promise<number>,
) {
  const open = disk.open.bind(disk);
  disk.open = async (path, mode) => {
    const file = await open(path, mode);
    return path === INPUT && mode === "read" ? { ...file, read: (into, at) => read(file, into, at) } : file;
  };
}

/** An input that comes 4 KiB every 50 ms, so that items are in flight while it is read. */
function readSlowly(world: World): void {
  readInputBy(world.disk, async (file, into, position) => {
    await world.clock.sleep(50);
    return file.read(into.subarray(0, 4_096), position);
  });
}

/** The run again, on an input that is as it was: nothing is asked twice. */
async function expectRest(world: World, count: number): Promise<void> {
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
  expect(summary).toMatchObject({ counts: { completed: count }, usage: { ambiguous_attempts: 0 } });
  expect(world.sent.map(({ line }) => line).sort((a, b) => a - b)).toEqual(
    Array.from({ length: count }, (_, index) => index + 1),
  );
  await world.settle(engine.close());
}

const COUNT = 100;
const TEXT = Array.from({ length: COUNT }, (_, index) => itemLine(index + 1)).join("");

/** A run that fails because its input cannot be read on while items are in flight; `repair` makes it whole again. */
async function failOnInput(world: World): Promise<{ readonly engine: Engine; repair(): void }> {
  world.disk.put(INPUT, TEXT);
  let isBroken = false;
  readSlowly(world);
  readInputBy(world.disk, (file, ...from) =>
    isBroken ? Promise.reject(Object.assign(new Error("EIO"), { code: "EIO" })) : file.read(...from),
  );
  const engine = await world.engine();
  const run = engine.run(INPUT, OPTIONS);
  await world.settle(run.opened);
  await world.clock.advance(100);
  isBroken = true;
  expect(await failure(world, run.finished)).toMatchObject({ code: "input_unreadable" });
  return {
    engine,
    repair: () => {
      isBroken = false;
    },
  };
}

describe("a run that fails while requests are in flight", () => {
  it("fault 17: keeps their answers when its input has changed", async () => {
    const world = new World({ config: { maxInFlight: 4 }, latencyMs: 400 });
    world.disk.put(INPUT, TEXT);
    readSlowly(world);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.settle(run.opened);
    await world.clock.advance(100);
    const file = await world.disk.open(INPUT, "write");
    await file.write(Buffer.from("HELLO"), TEXT.lastIndexOf("hello"));
    expect(await failure(world, run.finished)).toMatchObject({ code: "input_changed" });
    expect(world.sent.length).toBeGreaterThan(3);
    expect(world.output()).toHaveLength(world.sent.length);
    await world.settle(engine.close());
    await file.write(Buffer.from("hello"), TEXT.lastIndexOf("hello"));
    await expectRest(world, COUNT);
  });

  it("keeps their answers when its input cannot be read on", async () => {
    const world = new World({ config: { maxInFlight: 4 }, latencyMs: 400 });
    const { engine, repair } = await failOnInput(world);
    expect(world.sent).toHaveLength(4); // nothing new is sent while they are waited for
    expect(world.output()).toHaveLength(4);
    await world.settle(engine.close());
    repair();
    await expectRest(world, COUNT);
  });

  it("keeps their answers when lines that were dropped from memory are not what they were", async () => {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 400 });
    const long = "word ".repeat(6_000);
    const lines = Array.from({ length: 600 }, (_, index) =>
      index === 0 ? itemLine(1, "beta:m1") : itemLine(index + 1).replace("hello", long),
    );
    world.disk.put(INPUT, lines.join(""));
    let isChanged = false;
    readInputBy(world.disk, async (file, into, position) => {
      const length = await file.read(into, position);
      return isChanged ? length - 1 : length;
    });
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.settle(run.opened);
    while (run.progress().linesRead < 600) await world.clock.advance(10);
    isChanged = true;
    expect(await failure(world, run.finished)).toMatchObject({ code: "input_changed" });
    expect(world.output()).toHaveLength(world.sent.length);
    await world.settle(engine.close());
  });

  it("waits 30 s for them and no longer", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.answer = (line) => (line === 2 ? "hang" : { afterMs: 5_000, result: ok(line) });
    const { engine } = await failOnInput(world);
    expect(world.output().map(({ key }) => key)).toEqual(["k1", "k3", "k4"]);
    expect(world.clock.nowMs()).toBeGreaterThan(30_000);
    expect(world.clock.nowMs()).toBeLessThan(32_000);
    await world.settle(engine.close());
  });

  it("keeps their answers when one call meets a fault of perigee, and gives its place to other runs", async () => {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 400 });
    world.input(2);
    const send = world.wire.send.bind(world.wire);
    world.wire.send = (request, options) => {
      if (Buffer.from(request.body).includes("[[2]]")) throw new TypeError("not a function");
      return send(request, options);
    };
    const engine = await world.engine();
    const end = await failure(world, engine.run(INPUT, OPTIONS).finished);
    expect(end).toMatchObject({ code: "internal_error" });
    expect(world.output().map(({ key }) => key)).toEqual(["k1"]);
    expect(world.clock.nowMs()).toBeLessThan(1_000);
    world.wire.send = send;
    world.input(20, "alpha:m1", "/other.jsonl");
    const startedMs = world.clock.nowMs();
    await world.settle(engine.run("/other.jsonl", { out: "/other.out" }).finished);
    expect(world.clock.nowMs() - startedMs).toBeLessThan(10 * 400 + 100);
    await world.settle(engine.close());
  });

  it("keeps the answers of a stream that fails", async () => {
    const world = new World({ latencyMs: 400 });
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from(itemLine(1) + itemLine(2));
      await world.clock.sleep(100);
      throw new Error("the sender is gone");
    };
    const engine = await world.engine();
    const run = engine.run(source(), OPTIONS);
    expect(await failure(world, run.finished)).toMatchObject({ message: "the sender is gone" });
    expect(world.output().map(({ key }) => key)).toEqual(["k1", "k2"]);
    await world.settle(engine.close());
  });
});
