/**
 * The cap of an engine over submitted lists: no step of a list's life, and no kill in it, makes the provider bill more.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { mortal, ok, status, World } from "./world.ts";

/** 10 input and 5 output tokens in an answer. */
const ANSWER_USD = 0.035;
const CONFIG = {
  prices: { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } },
  cap: { name: "month", usd: 0.4 },
};

const bounded = (line: number) => ({ model: "alpha:m1", input: `[[${line}]]`, maxOutputTokens: 5 });

/** A world whose provider keeps the book. */
function worldWithBook(answer: (line: number) => ReturnType<typeof ok> | "hang" = ok) {
  const book = { answers: 0 };
  const world = new World({
    config: CONFIG,
    answer: (line) => {
      const reply = answer(line);
      if (reply !== "hang" && reply.ok && reply.status === 200) book.answers += 1;
      return reply;
    },
  });
  return { world, book };
}

/** The records that caps have of tasks. */
async function capRecords(world: World): Promise<string[]> {
  const store = await world.store.open();
  const ids: string[] = [];
  for (const collection of ["cap_member", "task_cap"])
    for (const { id } of await store.records("", { collection, limit: 100 })) ids.push(`${collection} ${id}`);
  await store.close();
  return ids;
}

const steps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant("submit" as const),
        items: fc.integer({ min: 1, max: 3 }),
        isAtOnce: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("kill" as const), afterMs: fc.constantFrom(0, 0, 100, 400) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("retry" as const), list: fc.nat(5) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("forget" as const), list: fc.nat(5) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("wait" as const) }) },
  ),
  { minLength: 4, maxLength: 14 },
);

describe("lists under the cap of their engine", () => {
  it("never take more than it, whatever is submitted, run again, forgotten and killed", async () => {
    let most = 0;
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 2, max: 5 }), async (all, failEvery) => {
        const { world, book } = worldWithBook((line) => (line % failEvery === 0 ? status(400) : ok(line)));
        let [line, process] = [0, mortal(world.clock)];
        const ids: string[] = [];
        const open = async (): Promise<Engine> => (await world.opened(process.clock, process)).engine;
        let engine = await open();
        for (const step of all) {
          if (step.do === "submit") {
            const sla = step.isAtOnce ? {} : { sla: 600 };
            const items = Array.from({ length: step.items }, (_, index) => ({
              ...bounded(line + index + 1),
              ...sla,
            }));
            line += step.items;
            ids.push((await world.settle(engine.submit(items))).task_id);
          } else if (step.do === "wait") await world.clock.advance(5_000);
          else if (step.do === "kill") {
            await world.clock.advance(step.afterMs);
            process.kill();
            world.kill();
            process = mortal(world.clock);
            engine = await world.settle(open());
          } else {
            const id = ids[step.list] ?? "none";
            const call = step.do === "retry" ? engine.retryTask(id) : engine.forget(id);
            await world.settle(Promise.resolve(call).catch(() => undefined)); // at work, or not there
          }
          expect(book.answers * ANSWER_USD).toBeLessThanOrEqual(CONFIG.cap.usd + 1e-9);
        }
        await world.settle(
          engine.submit([1, 2, 3, 4, 5, 6, 7].map((each) => ({ ...bounded(100 + each), sla: 600 }))),
        );
        await world.clock.advance(30_000);
        expect(book.answers * ANSWER_USD).toBeLessThanOrEqual(CONFIG.cap.usd + 1e-9);
        most = Math.max(most, book.answers);
        await world.settle(engine.close());
      }),
      { numRuns: 25 },
    );
    expect(most).toBeGreaterThanOrEqual(9); // 11 would fit, were not more held for each
  });

  it("are rows of the work log under it, count once each over restarts, and leave no record of them when they are forgotten", async () => {
    const { world, book } = worldWithBook();
    let engine = await world.engine();
    for (let list = 1; list <= 8; list += 1) {
      const { task_id, counts } = await world.settle(engine.submit([bounded(list)]));
      expect(counts).toMatchObject({ completed: 1 });
      if (list % 2 === 0) await world.settle(engine.forget(task_id));
      if (list % 3 > 0) continue;
      await world.settle(engine.close());
      engine = await world.engine();
    }
    const { task_id } = await world.settle(
      engine.submit([9, 10, 11, 12, 13].map((each) => ({ ...bounded(each), sla: 600 }))),
    );
    await world.clock.advance(60_000);
    const { counts } = await world.settle(engine.task(task_id));
    expect(book.answers).toBe(8 + counts.completed);
    expect(counts.completed).toBe(2); // 0.35 of 0.4, and a request may cost 0.068
    expect(engine.holds()).toMatchObject([{ reason: "cap_reached", cap: "month" }]);
    await world.settle(engine.close());
    const left = (await capRecords(world)).filter((id) => !id.includes("posted"));
    expect(left).toEqual([]);
  });

  it("count under the cap that their engine had, not under one that it gets later", async () => {
    const { world, book } = worldWithBook();
    const first = await world.engine();
    for (let list = 1; list <= 9; list += 1) await world.settle(first.submit([bounded(list)]));
    world.kill(); // before the sum is written
    world.reconfigure({ cap: { name: "other", usd: 0.4 } });
    const second = await world.settle(world.engine());
    for (let list = 11; list <= 19; list += 1) await world.settle(second.submit([bounded(list)]));
    expect(book.answers).toBe(18);
    await world.settle(second.close());
    world.reconfigure({ cap: CONFIG.cap });
    const third = await world.settle(world.engine());
    const held = third.submit([21, 22, 23].map((each) => ({ ...bounded(each), sla: 600 })));
    await world.clock.advance(60_000);
    expect((await world.settle(held)).counts).toMatchObject({ submitted: 3 });
    expect(book.answers).toBe(19);
    await world.settle(third.close());
  });
});

describe("a run under a cap that is forgotten", () => {
  it("stays counted in one record for all such runs, when its rows are deleted", async () => {
    const { world, book } = worldWithBook();
    let engine = await world.engine();
    for (const run of [1, 2, 3]) {
      const { task_id } = await world.settle(engine.run([bounded(run), bounded(10 + run)]).finished);
      await world.settle(engine.forget(task_id));
    }
    await world.settle(engine.close());
    await world.clock.advance(120_000);
    engine = await world.engine(); // sweeps
    await world.settle(engine.close());
    expect(await capRecords(world)).toEqual(["cap_member month forgotten"]);
    engine = await world.engine();
    const rest = engine.run([20, 21, 22, 23, 24, 25, 26, 27].map(bounded), {
      out: "/out.jsonl",
      onHeld: () => undefined,
    });
    await world.clock.advance(60_000);
    expect(rest.progress().held).toMatchObject([{ reason: "cap_reached" }]);
    expect(book.answers).toBe(10); // 0.35 of 0.4
    await world.settle(engine.close());
  });
});
