/** Answers of batches that do not fit their schema, in the fake world. */
import { describe, expect, it } from "vitest";
import { loadValidators } from "../../../src/json_schema.ts";
import { booksOf, wrongsOf } from "../batches/books.ts";
import { WIRES, worldOf } from "../batches/wires.ts";

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
  });
});

interface Line {
  readonly error?: { readonly code: string; readonly attempts: number; readonly answer?: string };
}
