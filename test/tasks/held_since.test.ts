/** Since when something holds items: the same at every look, and in the processes after a kill. */
import { describe, expect, it } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { diskHold } from "../../src/engine/lanes/run_holds.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const items = Array.from({ length: 200 }, (_, index) => item(index + 1, 600));
const TASKS = {
  "a small task": items,
  "a large task": [...items.slice(1), item(1, 601)],
};
const TROUBLES = {
  "that refuses connections": () => ({ ok: false, failure: "not_sent", message: "refused" }) as const,
  "that asks to wait": () => status(429, "slow", { "retry-after": "600" }),
  "without money": () => status(402, "billing_error"),
};

describe.each(Object.entries(TROUBLES))("a hold by a provider %s", (_trouble, answer) => {
  it.each(Object.entries(TASKS))(
    "of %s keeps its beginning over kills, and ends with an answer",
    async (_name, given) => {
      let isUp = true;
      const world: TaskWorld = new TaskWorld({
        latencyMs: 500,
        config: { maxInFlight: 2 },
        answer: (line) => (isUp ? ok(line) : answer()),
      });
      let tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, given));
      await world.clock.advance(5_000);
      isUp = false;
      await world.clock.advance(30_000);
      const heldSince = async (): Promise<string | undefined> =>
        (await world.settle(tasks.task(PROJECT, id))).held[0]?.since;
      const since = (await heldSince()) ?? "";
      expect(world.clock.wallMs() - Date.parse(since)).toBeGreaterThan(28_000);
      for (const seconds of [10, 3, 10]) {
        world.kill();
        tasks = await world.settle(world.tasks());
        const seen = await world.settle(tasks.task(PROJECT, id));
        expect(seen).not.toHaveProperty("expectedEndWallMs"); // also before anything is sent
        await world.clock.advance(seconds * 1_000);
        const again = Date.parse((await heldSince()) ?? "");
        expect(Math.abs(again - Date.parse(since))).toBeLessThanOrEqual(2);
        expect(await world.settle(tasks.task(PROJECT, id))).not.toHaveProperty("expectedEndWallMs");
      }
      isUp = true;
      await world.clock.advance(900_000);
      expect((await world.settle(tasks.task(PROJECT, id))).status).toBe("completed");
      isUp = false;
      const next = await world.settle(submit(tasks, given));
      await world.clock.advance(5_000);
      const [hold] = (await world.settle(tasks.task(PROJECT, next.id))).held;
      expect(world.clock.wallMs() - Date.parse(hold?.since ?? "")).toBeLessThan(6_000);
    },
  );
});

it("A time of a hold does not move with the fractions of a millisecond of the clocks", () => {
  let nowMs = 1_000.25;
  const clock = { nowMs: () => nowMs, wallMs: () => Math.trunc(1_767_225_600_000.6 + nowMs) } as Clock;
  const times = new Set<string>();
  for (let look = 0; look < 50; look += 1) {
    nowMs += 7.13;
    times.add(diskHold({ openItems: 1 }, "/data", 900.4, clock).since);
  }
  expect(times.size).toBe(1);
});
