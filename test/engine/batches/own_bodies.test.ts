/** Formats whose lines have the provider's own body: their items go with batches, and their lines are those of realtime. */
import { describe, expect, it } from "vitest";
import { WIRES, worldOf } from "./wires.ts";

const ITEMS = 40;
const DAY = 1_440;
const OWN = /"(?:id|request_id|responseId)":"[^"]*"|"created":\d+|"service_tier":"[a-z]*"|,"cost":[0-9.e-]+/g;

/** The lines by their keys, without ids, times, tiers and costs, which differ between two answers. */
function linesOf(text: string): readonly string[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => line.replace(OWN, "")).sort();
}

describe.each(WIRES)("lines with the own body of $name", (wire) => {
  it.each(["raw", "openai"] as const)(
    "in the format %s are from one batch what they are in realtime",
    async (format) => {
      const batched = worldOf(wire);
      batched.world.input(ITEMS, wire.model);
      const summary = await batched.world.run({ sla: DAY, format });
      expect(summary.counts.completed).toBe(ITEMS);
      expect(batched.fake.ledger.batches.size).toBe(1);
      expect(batched.fake.ledger.sums().nanoUsd).toBe(Math.round(summary.cost.billed_usd * 1e9));

      const realtime = worldOf(wire, {}, { lanes: { deny: ["flex", "batch"] } });
      realtime.world.input(ITEMS, wire.model);
      await realtime.world.run({ sla: DAY, format });
      expect(realtime.fake.ledger.batches.size).toBe(0);
      const [own, theirs] = [batched, realtime].map(({ world }) =>
        linesOf(world.disk.text("/out.jsonl") ?? ""),
      );
      expect(own).toEqual(theirs);
    },
  );
});
