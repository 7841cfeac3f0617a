/** Answers of batches that do not fit their schema, in the fake world. */
import { describe, expect, it } from "vitest";
import { loadValidators } from "../../../src/json_schema.ts";
import type { Task } from "../../../src/work/task.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import { booksOf, wrongsOf } from "../batches/books.ts";
import { tallyOf } from "../batches/tally.ts";
import { WIRES, wireCase, worldOf } from "../batches/wires.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const ITEMS = 60;

describe.each(WIRES.slice(0, 2))("answers of a batch of $name that do not fit", (wire) => {
  it("are asked for again, and everything that is billed is in the books", async () => {
    const { world, fake } = worldOf(wire, {});
    world.input(ITEMS, wire.model);
    const summary = await world.run({ sla: 1_440, schema: { type: "object" }, schemaTries: 2 });
    const lines = (world.disk.text("/out.jsonl") ?? "")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Line);
    expect(lines).toHaveLength(ITEMS);
    for (const { error } of lines) expect(error).toMatchObject({ code: "schema_unmet", attempts: 2 });
    expect(lines[0]?.error?.answer).not.toBe("");
    expect(summary.counts.failed).toBe(ITEMS);
    expect(booksOf(world, fake).ambiguousNanos).toBe(0);
    const requests = [...fake.ledger.batches.values()].reduce((sum, { items }) => sum + items, 0);
    expect(requests).toBeGreaterThanOrEqual(ITEMS);
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);

    // Quotes know it: 60 further requests of 60 items, and one of the 20 that are assumed.
    const { engine } = await world.opened();
    const quoted = await world.settle(
      engine.quote("/in.jsonl", { schema: { type: "object" }, schemaTries: 2 }),
    );
    await world.settle(engine.close());
    expect(quoted.models[0]?.further_requests).toEqual({ expected: 46, most: ITEMS, basis: "learnt" });
  });
});

describe("posted work in batches whose answers do not fit", () => {
  const SCHEMA = { type: "object" };
  const wire = wireCase("anthropic");
  const item = (line: number) => ({
    model: wire.model,
    input: `prompt ${line}`,
    maxOutputTokens: 64,
    sla: 1_440,
  });
  const QUICK = { times: { p50: 20_000, p90: 60_000, p99: 90_000 } };

  function expectUnmet(tasks: readonly Task[], fake: BatchFake, items: number, answers: number): void {
    const objects = tasks.flatMap((task) => task.objects);
    expect(objects).toHaveLength(items);
    for (const { error } of objects) {
      expect(error).toMatchObject({ code: "schema_unmet", attempts: answers });
      expect(error?.answer).not.toBe("");
    }
    const { billedNanos, ambiguousNanos } = tallyOf(tasks);
    expect({ billedNanos, ambiguousNanos }).toEqual({
      billedNanos: fake.ledger.sums().nanoUsd,
      ambiguousNanos: 0,
    });
  }

  it("of a list are asked for again, and everything that is billed is in its objects", async () => {
    const { world, fake } = worldOf(wire, QUICK);
    const { engine } = await world.opened();
    const items = Array.from({ length: 150 }, (_, line) => item(line));
    const task = await world.settle(engine.submit(items, { schema: SCHEMA, schemaTries: 2 }).finished);
    await world.settle(engine.close());
    expect(fake.ledger.batches.size).toBeGreaterThan(0);
    expectUnmet([task], fake, items.length, 2);
  });

  it("of single items that share a batch are asked for again, too", async () => {
    const { world, fake } = worldOf(wire, QUICK, {
      ...wire.config,
      lanes: { ...wire.config.lanes, minItems: 20 },
    });
    const { engine } = await world.opened();
    const submitted = Array.from({ length: 30 }, (_, line) =>
      engine.submit([item(line)], { schema: SCHEMA }),
    );
    const tasks = await world.settle(Promise.all(submitted.map(({ finished }) => finished)));
    await world.settle(engine.close());
    expect(fake.ledger.batches.size).toBeGreaterThan(0);
    expectUnmet(tasks, fake, submitted.length, 3);
  });
});

interface Line {
  readonly error?: { readonly code: string; readonly attempts: number; readonly answer?: string };
}
