/** How long ago steps were recorded that were stamped out of order. */
import { describe, expect, it } from "vitest";
import type { Moment } from "../../src/clock.ts";
import { StepWriter, stamped } from "../../src/engine/journal/journal.ts";
import { recentSteps } from "../../src/engine/journal/recent.ts";
import type { StoredEntry } from "../../src/store/store.ts";

const HEADER = { outCrc32: 0, outStart: 0, outEnd: 0, voids: 0, committedUsd: 0 };

function momentAt(sinceBootMs: number): Moment {
  return { wallMs: sinceBootMs, bootId: "00000000-0000-4000-8000-000000000001", sinceBootMs };
}

function entryAt(sinceBootMs: number): StoredEntry {
  const { output: _, ...entry } = stamped(
    { taskId: "t", records: new StepWriter().finish(HEADER) },
    momentAt(sinceBootMs),
  );
  return { ...entry, sequence: 1 };
}

async function agesAt(nowMs: number, stampedAtMs: readonly number[]): Promise<number[]> {
  const ages: number[] = [];
  async function* latestEntries(): AsyncGenerator<StoredEntry> {
    for (const atMs of stampedAtMs.toReversed()) yield entryAt(atMs);
  }
  for await (const { ageMs } of recentSteps({ latestEntries }, momentAt(nowMs))) ages.unshift(ageMs);
  return ages;
}

describe("recent steps", () => {
  it("are never older than they are, though a step after them was stamped long before it was appended", async () => {
    expect(await agesAt(100_000, [50_000, 60_000, 5_000, 70_000])).toEqual([50_000, 40_000, 95_000, 30_000]);
  });

  it("are never younger than now", async () => {
    expect(await agesAt(100, [50, 200])).toEqual([50, 0]);
  });
});
