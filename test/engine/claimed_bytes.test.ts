/** Memory of requests under way is bounded for any size. */
import { expect, it } from "vitest";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

const MIB = 1024 * 1024;

/** Lines of so many bytes, for several models in turn. */
function lines(count: number, sizeBytes: number, models: readonly string[]): string {
  return Array.from({ length: count }, (_, index) => {
    const line = itemLine(index + 1, models[index % models.length]);
    return line.replace("hello", "a ".repeat(sizeBytes / 2));
  }).join("");
}

it("holds at most 32 MiB of lines under way, of all providers together, and answers them all", async () => {
  let inFlight = 0;
  let most = 0;
  const world: World = new World({
    answer: (line) => {
      inFlight += 1;
      most = Math.max(most, inFlight);
      world.clock.timer(30_000, () => {
        inFlight -= 1;
      });
      return { afterMs: 30_000, result: ok(line) };
    },
  });
  world.disk.put(INPUT, lines(40, MIB, ["alpha:m1", "beta:m2", "alpha:m3"]));
  const run = (await world.engine()).run(INPUT, { out: OUTPUT });
  expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 40 }, requests_sent: 40 });
  expect(most).toBe(32);
}, 60_000);

it("lets one item go that is larger than the bound leaves", async () => {
  const world = new World({ latencyMs: 1_000 });
  world.disk.put(INPUT, lines(5, 9 * MIB, ["alpha:m1"]));
  const run = (await world.engine()).run(INPUT, { out: OUTPUT });
  expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 5 } });
}, 60_000);
