/** A refusal that makes its lane wait for long: what the run shows meanwhile, and how long it waits for it. */
import { describe, expect, it } from "vitest";
import type { Summary } from "../../src/engine/items/progress.ts";
import type { Run } from "../../src/engine/runs/run.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const RETRY_AFTER_S = [10, 300, 900, undefined] as const;
const WAIT_MS = [0, 60_000, 1_800_000] as const;
const ITEMS = [1, 40, 400] as const;
/** When those that were sent before the refusal are answered, of 100 ms. */
const OLD_ANSWERS_MS = [1_500, 3_000, 4_500] as const;
const LAST_ANSWER_MS = 4_500;
/** Without a Retry-After the provider refuses for so long. */
const REFUSES_MS = 300_000;

interface Case {
  readonly items: number;
  readonly retryAfterS: number | undefined;
  readonly hasOldAnswers: boolean;
}

/** All that is left is refused after 100 ms, until the wait is over. */
function refusing({ items, retryAfterS, hasOldAnswers }: Case): World {
  const old = hasOldAnswers ? OLD_ANSWERS_MS.length : 0;
  const untilMs = 100 + (retryAfterS === undefined ? REFUSES_MS : retryAfterS * 1_000);
  const world: World = new World({
    latencyMs: 100,
    answer: (line) => {
      if (world.clock.nowMs() >= untilMs) return ok(line);
      const oldMs = line <= old ? OLD_ANSWERS_MS[line - 1] : undefined;
      if (oldMs !== undefined) return { afterMs: oldMs, result: ok(line) };
      return status(
        429,
        "rate_limit_exceeded",
        retryAfterS === undefined ? {} : { "retry-after": `${retryAfterS}` },
      );
    },
  });
  world.input(items + old);
  return world;
}

const ended = async (run: Run): Promise<Summary | undefined> =>
  Promise.race([run.finished, Promise.resolve(undefined)]);

const CASES = [true, false].flatMap((hasOldAnswers) =>
  RETRY_AFTER_S.flatMap((retryAfterS) =>
    WAIT_MS.flatMap((waitMs) => ITEMS.map((items) => ({ hasOldAnswers, retryAfterS, waitMs, items }))),
  ),
);

describe("items after a refusal", () => {
  it.each(CASES)(
    "are shown as held, and waited for as long as asked (old answers $hasOldAnswers, Retry-After $retryAfterS s, --wait $waitMs ms, $items items)",
    async ({ waitMs, ...one }) => {
      const world = refusing(one);
      const answeredMs = one.hasOldAnswers ? LAST_ANSWER_MS : 100;
      const untilMs = 100 + (one.retryAfterS === undefined ? REFUSES_MS : one.retryAfterS * 1_000);
      const run = (await world.engine()).run(INPUT, { out: OUTPUT, waitMs });
      await world.clock.advance(answeredMs + 1_500);
      if (waitMs > 0) {
        expect(await ended(run)).toBeUndefined();
        const [hold] = run.progress().held;
        expect(hold).toMatchObject({ reason: "rate_limited", items: one.items });
        const nextMs = Date.parse(hold?.next_try ?? "") - (world.clock.wallMs() - world.clock.nowMs());
        if (one.retryAfterS !== undefined) expect(Math.abs(nextMs - untilMs)).toBeLessThan(1_000);
        else expect(nextMs - world.clock.nowMs()).toBeLessThan(60_000);
        expect(run.progress().held).toHaveLength(1);
      }
      const summary = await world.settle(run.finished);
      if (answeredMs + waitMs > untilMs) {
        expect(summary).toMatchObject({ status: "completed", counts: { submitted: 0, failed: 0 } });
        expect(world.clock.nowMs()).toBeLessThan(untilMs + 60_000);
        return;
      }
      expect(summary).toMatchObject({
        status: "paused",
        reason: "rate_limited",
        counts: { submitted: one.items, failed: 0 },
      });
      const stoppedMs = world.clock.nowMs();
      if (waitMs > 0) expect(stoppedMs).toBeGreaterThanOrEqual(answeredMs + waitMs);
      expect(stoppedMs).toBeLessThan(answeredMs + waitMs + 2_000);
    },
  );
});

describe("a run that is called again during such a wait", () => {
  const stopped = async (): Promise<World> => {
    const world = refusing({ items: 400, retryAfterS: 900, hasOldAnswers: true });
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(10_000);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    return world;
  };

  it("shows what it waits for, although nothing was sent since, and goes on when the wait is over", async () => {
    const world = await stopped();
    const sent = world.sent.length;
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    await world.clock.advance(1_000);
    const [hold, ...others] = run.progress().held;
    expect(hold).toMatchObject({ reason: "rate_limited", provider: "alpha", items: 400 });
    expect(hold?.message).toBe("the provider asked to wait, by a 429 to an earlier process");
    const wallStartMs = world.clock.wallMs() - world.clock.nowMs();
    expect(Date.parse(hold?.next_try ?? "") - wallStartMs).toBeGreaterThan(898_000);
    expect(others).toEqual([]);
    expect(world.sent).toHaveLength(sent);
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", counts: { failed: 0 } });
    expect(run.progress().held).toEqual([]);
  });

  it("stops after its wait, and ends what is held with the reason under `finish`", async () => {
    const world = await stopped();
    const again = await world.settle(
      (await world.engine()).run(INPUT, { out: OUTPUT, waitMs: 60_000 }).finished,
    );
    expect(again).toMatchObject({ status: "paused", reason: "rate_limited", counts: { submitted: 400 } });
    expect(world.clock.nowMs()).toBeLessThan(80_000);
  });

  it("sends what another provider takes, also when it does not wait", async () => {
    const world = await stopped();
    const sent = world.sent.length;
    const path = "/other.jsonl";
    world.answer = ok;
    world.input(6_000, (line) => (line <= 3_000 ? "alpha:m1" : "beta:m1"), path);
    const options = { out: "/other-out.jsonl", waitMs: 0 };
    const engine = await world.engine();
    const first = await world.settle(engine.run(path, options).finished);
    expect(first).toMatchObject({ reason: "rate_limited", counts: { completed: 3_000, submitted: 3_000 } });
    const summary = await world.settle(engine.run(path, { ...options, finish: true }).finished);
    expect(summary.errors).toEqual({ rate_limited: 3_000 });
    expect(world.sent.length - sent).toBe(3_000);
    const [line] = world.output("/other-out.jsonl").filter(({ error }) => error !== undefined);
    expect(line?.error).toMatchObject({ code: "rate_limited", provider: "alpha", attempts: 0 });
    expect(line).toMatchObject({ model: "alpha:m1" });
  });
});
