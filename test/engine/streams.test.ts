import { getEventListeners } from "node:events";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { endOf } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const SPOOL = /\.input\.jsonl$/;

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A source that yields what the test passes, when the test says so, and waits for ever otherwise. */
function tap() {
  const waiting: Uint8Array[] = [];
  let isEnded = false;
  let wake: () => void = () => undefined;
  const source = async function* (): AsyncGenerator<Uint8Array> {
    for (;;) {
      const next = waiting.shift();
      if (next !== undefined) yield next;
      else if (isEnded) return;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  return {
    source: source(),
    give: (text: string): void => {
      waiting.push(bytes(text));
      wake();
    },
    end: (): void => {
      isEnded = true;
      wake();
    },
  };
}

describe("a slow stream", () => {
  it("is answered line by line, as it arrives", async () => {
    const world = new World();
    const slow = tap();
    const run = (await world.engine()).run(slow.source, OPTIONS);
    for (let line = 1; line <= 5; line += 1) {
      slow.give(itemLine(line));
      await world.clock.advance(100);
      expect(world.output().map(({ key }) => key)).toHaveLength(line);
    }
    slow.end();
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", items: 5 });
  });

  it("may wait for the answer to its last line, also after thousands and while a lane is busy", async () => {
    const world = new World();
    const slow = tap();
    const run = (await world.engine()).run(slow.source, OPTIONS);
    slow.give(Array.from({ length: 2_100 }, (_, index) => itemLine(index + 1)).join(""));
    await world.clock.advance(60_000);
    world.answer = () => "hang";
    slow.give(itemLine(3_000));
    await world.clock.advance(100);
    slow.give(itemLine(3_001));
    await world.clock.advance(100);
    expect(world.sent.map(({ line }) => line).slice(-2)).toEqual([3_000, 3_001]);
    run.stop();
    await world.settle(run.finished);
  });

  it("is left at once when the run is stopped or the engine closed", async () => {
    const world = new World();
    const slow = tap();
    const engine = await world.engine();
    const run = engine.run(slow.source, OPTIONS);
    slow.give(itemLine(1));
    await world.clock.advance(100);
    await world.settle(engine.close());
    expect(await run.finished).toMatchObject({ status: "stopped", counts: { completed: 1 } });
  });

  it("ends with the whole lines that have come when the run is cancelled", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 1_000 });
    const slow = tap();
    const engine = await world.engine();
    const run = engine.run(slow.source, OPTIONS);
    slow.give(itemLine(1) + itemLine(2) + itemLine(3).slice(0, 20));
    await world.clock.advance(100);
    run.cancel();
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      items: 2,
      counts: { completed: 1, cancelled: 1 },
    });
    await world.settle(engine.close());
    expect(await endOf(world, [bytes([1, 2, 3, 4].map((line) => itemLine(line)).join(""))])).toMatchObject({
      status: "completed",
      items: 2,
      requests_sent: 0,
    });
  });

  it("ends with the whole lines that have come when its deadline passes", async () => {
    const world = new World({ answer: () => "hang" });
    const slow = tap();
    const run = (await world.engine()).run(slow.source, { ...OPTIONS, sla: 1 });
    slow.give(itemLine(1));
    await world.clock.advance(58_000);
    slow.give(itemLine(2));
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", items: 2 });
    expect(world.clock.nowMs()).toBeLessThan(3_600_000);
  });
});

describe("a stream that is passed again after its run has finished", () => {
  const lines = [1, 2, 3].map((line) => itemLine(line)).join("");

  it("ends as before when it is the same", async () => {
    const world = new World();
    await endOf(world, [bytes(lines)]);
    expect(await endOf(world, [bytes(lines.slice(0, 100)), bytes(lines.slice(100))])).toMatchObject({
      status: "completed",
      items: 3,
      requests_sent: 0,
    });
    expect(world.sent).toHaveLength(3);
  });

  it.each([
    ["longer", lines + itemLine(4)],
    ["shorter", itemLine(1)],
    ["different", lines.replace("[[2]]", "[[5]]")],
    ["empty", ""],
  ])("is refused when it is %s, and stays as it was", async (_, other) => {
    const world = new World();
    await endOf(world, [bytes(lines)]);
    expect(await endOf(world, [bytes(other)])).toMatchObject({ code: "input_changed" });
    expect(world.sent).toHaveLength(3);
    expect(await endOf(world, [bytes(lines)])).toMatchObject({ status: "completed", requests_sent: 0 });
  });

  it("can be left while it is compared", async () => {
    const world = new World();
    await endOf(world, [bytes(lines)]);
    const slow = tap();
    const run = (await world.engine()).run(slow.source, OPTIONS);
    slow.give(itemLine(1));
    await world.clock.settle();
    run.stop();
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped", requests_sent: 0 });
  });

  it("is refused where the run began with a file", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    await world.settle(engine.close());
    expect(await endOf(world, [bytes(lines)])).toMatchObject({ code: "input_changed" });
  });
});

describe("the copy of a stream", () => {
  it("has every line that was sent after a power cut, and goes on where it was torn", async () => {
    for (let seed = 0; seed < 8; seed += 1) {
      const world = new World({ config: { maxInFlight: 2 } });
      const all = Array.from({ length: 200 }, (_, index) => itemLine(index + 1));
      const pieces = all.map((line) => bytes(line));
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const run = engine.run(pieces, OPTIONS);
      run.finished.catch(() => undefined);
      await world.clock.advance(15 + seed * 17);
      process.kill();
      let draw = seed;
      const random = (): number => {
        draw = (draw * 7 + 3) % 20;
        return draw / 20;
      };
      world.kill({ powerCut: true, random });
      expect(await endOf(world, pieces), `seed ${seed}`).toMatchObject({
        status: "completed",
        counts: { completed: 200 },
      });
    }
  });

  it("may hold damage after the last line that was recorded, but not before", async () => {
    for (const [line, end] of [
      [1, { code: "input_changed" }],
      [5, { status: "completed" }],
    ] as const) {
      const world = new World({ config: { maxInFlight: 1 } });
      const text = [1, 2, 3, 4, 5, 6].map((one) => itemLine(one)).join("");
      const engine = await world.engine();
      const run = engine.run([bytes(text)], OPTIONS);
      await world.clock.advance(15);
      run.stop();
      await world.settle(run.finished);
      await world.settle(engine.close());
      const spool = world.disk.paths.find((path) => SPOOL.test(path)) as string;
      const file = await world.disk.open(spool, "write");
      await file.write(new Uint8Array(8), text.indexOf(`[[${line}]]`));
      expect(await endOf(world, [bytes(text)])).toMatchObject(end);
    }
  });

  it("fault 37: survives a power cut after the next start, also where it could not be synced", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    const pieces = Array.from({ length: 20 }, (_, index) => bytes(itemLine(index + 1)));
    const failing = await world.engine();
    const slow = tap();
    const run = failing.run(slow.source, OPTIONS);
    slow.give(itemLine(1) + itemLine(2));
    await world.clock.advance(25);
    slow.give(itemLine(3) + itemLine(4));
    world.disk.failSync();
    const end = await world.settle(run.finished.catch((reason: unknown) => reason));
    expect(end).toMatchObject({ code: "store_failed" });
    await world.settle(failing.close());
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(pieces, OPTIONS).finished;
    await world.clock.advance(35);
    expect(world.sent.length).toBeGreaterThan(4);
    process.kill();
    world.kill({ powerCut: true });
    expect(await endOf(world, pieces)).toMatchObject({ counts: { completed: 20 } });
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(20);
  });

  it("fault 4: is not made of a stream that is compressed or not UTF-8", async () => {
    for (const source of [gzipSync(itemLine(1)), Buffer.from(itemLine(1), "utf16le")]) {
      const world = new World();
      expect(await endOf(world, [source])).toMatchObject({ code: "unsupported_encoding" });
      const spool = world.disk.paths.find((path) => SPOOL.test(path)) as string;
      expect(world.disk.bytes(spool)).toHaveLength(0);
    }
  });
});

describe("leaving a run", () => {
  it("fault 4: a file that is compressed or UTF-16 is refused before anything is sent", async () => {
    for (const content of [gzipSync(itemLine(1)), Buffer.from(itemLine(1), "utf16le")]) {
      const world = new World();
      world.disk.put(INPUT, content);
      const engine = await world.engine();
      const end = await world.settle(engine.run(INPUT, OPTIONS).finished.catch((reason: unknown) => reason));
      expect(end).toMatchObject({ code: "unsupported_encoding" });
      expect(world.sent).toHaveLength(0);
    }
  });

  it("can be called before it is open", async () => {
    const world = new World();
    world.input(5);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    run.cancel();
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 0, cancelled: 5 } });
    expect(world.sent).toHaveLength(0);
  });

  it("by a signal leaves no listener on it", async () => {
    const world = new World();
    world.input(2);
    const { signal } = new AbortController();
    const engine = await world.engine();
    const run = engine.run(INPUT, { ...OPTIONS, signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    await world.settle(run.finished);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("a finished run is not called again in another order", async () => {
    const world = new World();
    world.input(2);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    const again = engine
      .run(INPUT, { ...OPTIONS, ordered: true })
      .finished.catch((reason: unknown) => reason);
    expect(await world.settle(again)).toMatchObject({ code: "conflict" });
  });
});
