/** Streams whose failed lines are run again after the run was over, when the copy of the stream is made once more. */
import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import { createRandom } from "../../src/testing/index.ts";
import { itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const LINES = [1, 2, 3, 4, 5, 6, 7, 8];
const FILTERED = new Set([3, 8]);
/** Its error is kept. */
const REFUSED = 5;
const AGAIN = { out: OUTPUT, retryFailed: ["filtered"] as const };

/** Two lines and a half at a time. */
async function* stream(): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(LINES.map((line) => itemLine(line)).join(""));
  const step = Math.ceil(bytes.byteLength / 3);
  for (let at = 0; at < bytes.byteLength; at += step) yield bytes.subarray(at, at + step);
}

async function failed(): Promise<World> {
  const world = new World();
  const answered = (line: number) => (line === REFUSED ? status(400) : ok(line));
  world.answer = (line) => (FILTERED.has(line) ? status(400, "content_filter") : answered(line));
  const { engine } = await world.opened(world.clock);
  const summary = await world.settle(engine.run(stream(), { out: OUTPUT }).finished);
  expect(summary.counts).toMatchObject({ completed: 5, failed: 3 });
  await world.settle(engine.close());
  world.answer = answered;
  return world;
}

/** Calls in a process that dies at the operation of its disk; whether the call was over before. */
async function killedAt(
  world: World,
  operation: number,
  { powerCut, seed }: { readonly powerCut: boolean; readonly seed: number },
): Promise<boolean> {
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

/** The same call ends with one answer for each key, and asks again only for what had failed. */
async function expectEnds(world: World, when: string): Promise<void> {
  const { engine } = await world.opened(world.clock);
  const summary = await world.settle(engine.run(stream(), AGAIN).finished);
  expect(summary, when).toMatchObject({ status: "completed", counts: { completed: 7, failed: 1 } });
  const keys = world.output().map(({ key }) => key);
  expect(keys.sort(), when).toEqual(LINES.map((line) => `k${line}`));
  const again = world.sent.slice(LINES.length).filter(({ line }) => !FILTERED.has(line));
  expect(again, when).toEqual([]);
  await world.settle(engine.close());
}

describe("a run over a stream whose failed lines are run again", () => {
  it.each([
    ["a kill", false, 1],
    ["a power cut", true, 1],
    ["a power cut", true, 2],
    ["a power cut", true, 3],
  ])(
    "is finished by the same call after %s at any moment (power cut: %s, seed %i)",
    async (_what, powerCut, seed) => {
      for (let operation = 1; ; operation += 1) {
        const world = await failed();
        const isOver = await killedAt(world, operation, { powerCut, seed: seed * 1_000 + operation });
        await expectEnds(world, `operation ${operation}`);
        if (isOver) return;
      }
    },
    120_000,
  );
});
