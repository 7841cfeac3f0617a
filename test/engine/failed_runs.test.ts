/** A run that fails by itself: what it leaves to its engine, and to the runs beside it. */
import { describe, expect, it } from "vitest";
import { itemLine, ok, World } from "./world.ts";

const A = "/a.jsonl";
const B = "/b.jsonl";

/** Two runs side by side; line 5 of the first meets a fault of perigee while answers of lines 2 to 4 wait for their commit. */
function twoRuns(): World {
  const world = new World({ commitMs: 7, config: { maxInFlight: 4 } });
  world.answer = (line) => {
    if (line === 5) throw new Error("a fault of perigee");
    return { afterMs: line === 1 ? 10 : 16, result: ok(line) };
  };
  world.input(10, "alpha:m1", A);
  const items = Array.from({ length: 30 }, (_, index) => itemLine(index + 11, "beta:m1"));
  world.disk.put(B, items.join(""));
  return world;
}

describe("a run that fails by itself", () => {
  it("has what is staged recorded before its output is closed, and the other runs go on", async () => {
    const world = twoRuns();
    const engine = await world.engine();
    const failing = engine.run(A, { out: "/a.out" });
    const other = engine.run(B, { out: "/b.out" });
    await expect(world.settle(failing.finished)).rejects.toMatchObject({ code: "internal_error" });
    expect(await world.settle(other.finished)).toMatchObject({ counts: { completed: 30 } });
    await world.settle(engine.close());
    const answered = world.output("/a.out").length;
    expect(answered).toBeGreaterThan(0);
    world.answer = ok;
    const again = await world.engine();
    const summary = await world.settle(again.run(A, { out: "/a.out" }).finished);
    expect(summary).toMatchObject({ counts: { completed: 10 }, requests_sent: 10 - answered });
    await world.settle(again.close());
  });

  it("sends nothing any more, neither what waited for space on the disk nor what arrives later", async () => {
    const world = new World({ config: { maxInFlight: 4 }, latencyMs: 800 });
    const engine = await world.engine();
    async function* items(): AsyncGenerator<Uint8Array> {
      for (let line = 1; line <= 12; line += 1) yield new TextEncoder().encode(itemLine(line));
      await world.clock.sleep(2_000);
      throw new Error("the source broke");
    }
    const run = engine.run(items(), { out: "/a.out" });
    await world.clock.advance(500);
    expect(world.sent).toHaveLength(4);
    world.disk.setFull(0);
    await world.clock.advance(3_000); // their answers wait in the journal, behind them four intents, and the run fails
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await expect(world.settle(run.finished)).rejects.toThrow("the source broke");
    await world.clock.advance(5_000);
    expect(world.sent).toHaveLength(4);
    await world.settle(engine.close());
  });

  it("because its input cannot be read at its deadline says so", async () => {
    const world = new World({ answer: () => "hang", config: { maxInFlight: 2 } });
    world.input(20, "alpha:m1", A);
    const engine = await world.engine();
    const run = engine.run(A, { out: "/a.out", sla: 1 });
    await world.clock.advance(30_000);
    world.disk.failNext("read", "EIO", 100);
    await expect(world.settle(run.finished)).rejects.toMatchObject({
      code: "input_unreadable",
      message: "the input cannot be read any more (EIO)",
    });
    await world.settle(engine.close());
  });
});
