/**
 * Calls of existing code with a far sla, each by itself: they share batches, as lists of one item do.
 */
import { generateText } from "ai";
import { describe, expect, it } from "vitest";
import { createPerigee } from "../../src/ai/index.ts";
import { libraryEngine } from "../../src/engine/library.ts";
import { type WireCase, wireCase, worldOf } from "../engine/batches/wires.ts";

const DAY = 1_440;
const HOUR_MS = 3_600_000;
type World = ReturnType<typeof worldOf>["world"];

/** Makes so many calls at once, and lets six hours pass; their texts, and the tiers that they were billed in. */
async function called(world: World, { model }: WireCase, count: number) {
  const { engine } = await world.opened();
  const perigee = createPerigee(libraryEngine(engine), { sla: DAY });
  const calls = Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const prompt = `prompt ${index + 1}`;
      const { text, providerMetadata } = await generateText({
        model: perigee(model),
        prompt,
        maxOutputTokens: 64,
      });
      return { text, facts: providerMetadata?.["perigee"] };
    }),
  );
  await world.settle(new Promise((resolve) => setImmediate(resolve)));
  await world.clock.advance(6 * HOUR_MS);
  const answers = await world.settle(calls);
  const ids = answers.map(({ facts }) => String(facts?.["taskId"]));
  const tasks = await world.settle(Promise.all(ids.map((id) => engine.task(id))));
  await world.settle(engine.close());
  const tiers = new Set(answers.map(({ facts }) => facts?.["tier"]));
  const billedUsd = answers.reduce((sum, { facts }) => sum + Number(facts?.["costUsd"]), 0);
  const listUsd = tasks.reduce((sum, { objects }) => sum + (objects[0]?.cost?.list_usd ?? 0), 0);
  return { listUsd, texts: answers.map(({ text }) => text), tiers: [...tiers], billedUsd };
}

describe("1,000 calls with a day", () => {
  const wire = wireCase("anthropic");

  it("are answered by one batch at half of the list price, each with its own answer", async () => {
    const { world, fake } = worldOf(wire);
    const { texts, tiers, billedUsd, listUsd } = await called(world, wire, 1_000);
    for (const [index, text] of texts.entries()) expect(text).toMatch(new RegExp(`to prompt ${index + 1}$`));
    expect(tiers).toEqual(["batch"]);
    expect(fake.ledger.batches.size).toBe(1);
    expect(2 * billedUsd).toBeCloseTo(listUsd, 9);
    expect(billedUsd).toBeCloseTo(fake.ledger.sums().nanoUsd / 1e9, 9);
  });
});

describe("150 calls with a day under a cap of the engine", () => {
  const wire = wireCase("anthropic");

  it("share a batch but for the first, which shows that the model keeps its limits, and take no more than the cap", async () => {
    const { world, fake } = worldOf(wire, {}, { cap: { name: "month", usd: 1 } });
    const { texts, billedUsd, listUsd } = await called(world, wire, 150);
    expect(billedUsd / listUsd).toBeCloseTo((149 / 2 + 1) / 150, 2);
    expect(texts).toHaveLength(150);
    expect(fake.ledger.batches.size).toBe(1);
    expect(billedUsd).toBeCloseTo(fake.ledger.sums().nanoUsd / 1e9, 9);
    expect(billedUsd).toBeLessThanOrEqual(1);
  });

  it("are counted once by a process that goes on after a kill, while their batch is with the provider", async () => {
    const cap = { name: "month", usd: 0.024 };
    const { world, fake } = worldOf(wire, {}, { cap });
    const ids: string[] = [];
    await world.killedWhile(
      () => 0.5,
      async ({ engine }) => {
        for (let call = 1; call <= 150; call += 1) {
          const item = { model: wire.model, input: `prompt ${call}`, maxOutputTokens: 64, sla: DAY };
          ids.push((await world.settle(engine.submit([item]))).task_id);
        }
        for (let minute = 0; fake.ledger.batches.size === 0; minute += 1) {
          expect(minute).toBeLessThan(60);
          await world.clock.advance(60_000);
        }
      },
    );
    const { engine } = await world.opened();
    await world.clock.advance(6 * HOUR_MS);
    const tasks = await world.settle(Promise.all(ids.map((id) => engine.task(id))));
    expect(tasks.filter(({ counts }) => counts.completed === 1)).toHaveLength(150);
    expect(fake.ledger.sums().nanoUsd / 1e9).toBeLessThanOrEqual(cap.usd);
    expect(engine.holds()).toEqual([]);
    const last = await world.settle(
      engine.submit([{ model: wire.model, input: "prompt 151", maxOutputTokens: 64 }]),
    );
    expect(last.counts).toMatchObject({ completed: 1 });
    await world.settle(engine.close());
  });
});
