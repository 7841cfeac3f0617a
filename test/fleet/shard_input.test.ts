import { expect, it } from "vitest";
import { sweepInputs } from "../../src/fleet/shards/shard_input.ts";

const DAY_MS = 86_400_000;

it("inputs are swept when they are a day old and their run does not exist", async () => {
  const ages = {
    "runs/gone/0/0": DAY_MS,
    "runs/gone/0/1": DAY_MS,
    "runs/kept/0/0": DAY_MS,
    "runs/new/0/0": DAY_MS - 1,
  };
  const removed: string[] = [];
  const objects = {
    async *list(prefix: string) {
      for (const [name, ageMs] of Object.entries(ages)) if (name.startsWith(prefix)) yield { name, ageMs };
    },
    remove: async (name: string) => void removed.push(name),
  };
  await sweepInputs(objects, async (runs) => new Set(runs.filter((run) => run === "kept")));
  expect(removed).toEqual(["runs/gone/0/0", "runs/gone/0/1"]);
});
