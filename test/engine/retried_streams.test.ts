/** Streams whose failed lines are run again after the run was over, when the copy of the stream is made once more. */
import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import { createRandom } from "../../src/testing/index.ts";
import { itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const LINES = [1, 2, 3, 4, 5, 6, 7, 8];
const FILTERED = new Set([3, 8]);
const AGAIN = { out: OUTPUT, retryFailed: ["filtered"] as const };

/** Two lines and a half at a time. */
async function* stream(): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(LINES.map((line) => itemLine(line)).join(""));
  const step = Math.ceil(bytes.byteLength / 3);
  for (let at = 0; at < bytes.byteLength; at += step) yield bytes.subarray(at, at + step);
}

async function failed(): Promise<World> {
  const world = new World();
  world.answer = (line) => (FILTERED.has(line) ? status(400, "content_filter") : ok(line));
  const { engine } = await world.opened(world.clock);
  const summary = await world.settle(engine.run(stream(), { out: OUTPUT }).finished);
  expect(summary.counts).toMatchObject({ completed: 6, failed: 2 });
  await world.settle(engine.close());
  world.answer = (line) => ok(line);
  return world;
}

describe.each([
  ["a kill", false],
  ["a power cut", true],
])("%s at any moment of it", (_what, powerCut) => {
  /** Whether the call was over before its process died. */
  async function killedAt(world: World, operation: number, seed: number): Promise<boolean> {
    const process = mortal(world.clock);
    const { engine }: OpenedEngine = await world.opened(process.clock);
    world.disk.crashAtOperation(operation, { powerCut, random: createRandom(seed) });
    let isOver = false;
    engine.run(stream(), AGAIN).finished.then(
      () => {
        isOver = true;
      },
      () => undefined,
    );
    await world.clock.advance(60_000);
    process.kill();
    world.kill({ powerCut, random: createRandom(seed) });
    return isOver;
  }

  it.each([1, 2, 3])(
    "leaves the same call able to end: %i",
    async (seed) => {
      for (let operation = 1; ; operation += 1) {
        const world = await failed();
        const isOver = await killedAt(world, operation, seed * 1_000 + operation);
        const { engine } = await world.opened(world.clock);
        const summary = await world.settle(engine.run(stream(), AGAIN).finished);
        expect(summary, `operation ${operation}`).toMatchObject({
          status: "completed",
          counts: { completed: 8 },
        });
        expect(
          world
            .output()
            .map(({ key }) => key)
            .sort(),
        ).toEqual(LINES.map((line) => `k${line}`));
        await world.settle(engine.close());
        if (isOver) return;
      }
    },
    120_000,
  );
});
