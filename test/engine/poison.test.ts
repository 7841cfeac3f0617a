/** Lines that always break their provider: a caller that does not wait for an outage is answered for all other lines. */
import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const KINDS: Readonly<Record<string, () => Reply>> = {
  "500": () => status(500),
  reset: () => ({ ok: false, failure: "lost", message: "connection reset" }),
};

function worldWith(poison: readonly number[], kind: string, config: ConfigOptions): World {
  const reply = KINDS[kind] as () => Reply;
  return new World({ config, answer: (line) => (poison.includes(line) ? reply() : ok(line)) });
}

/** The last of so many calls, each by a process of its own. */
async function calledAgain(world: World, waitMs: number, callsMax: number): Promise<Summary> {
  for (let calls = 1; ; calls += 1) {
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, waitMs }).finished);
    await world.settle(engine.close());
    if (summary.status === "completed" || calls === callsMax) return summary;
  }
}

describe.each(Object.keys(KINDS))("a line that always breaks its provider (%s)", (kind) => {
  it.each([0, 100, 60_000])(
    "does not keep others from one place in flight, with a wait of %i ms",
    async (waitMs) => {
      const world = worldWith([1], kind, { maxInFlight: 1 });
      world.input(6);
      expect(await calledAgain(world, waitMs, 1)).toMatchObject({ counts: { completed: 5 } });
    },
  );

  it("does not end a call while only its rate limit keeps others from being sent", async () => {
    const limits = { alpha: { requestsPerMinute: 3 } };
    const world = worldWith([1], kind, { maxInFlight: 1, limits });
    world.input(8);
    expect(await calledAgain(world, 0, 2)).toMatchObject({ counts: { completed: 7 } });
  });

  it("is tried after the lines that no call has sent yet, where a call has time for few", async () => {
    const world = worldWith([1, 2, 5], kind, {
      maxInFlight: 1,
      limits: { alpha: { requestsPerMinute: 3 } },
    });
    world.input(8);
    const summary = await calledAgain(world, 0, 12);
    expect(summary.counts.completed).toBe(5);
  });
});
