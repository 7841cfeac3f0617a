import { describe, expect, it } from "vitest";
import { batchRows, recordsOfRun } from "../../src/cli/run/run_batches.ts";
import { type BatchRecord, storedBatch } from "../../src/engine/batches/batch_record.ts";
import { recordedBatch, withBatch } from "../../src/engine/shown/recorded_batches.ts";
import type { ItemTrace } from "../../src/engine/trace.ts";

const RECORD: BatchRecord = {
  ...{
    tag: "pgb1",
    taskId: "task",
    project: "",
    lane: "openai:realtime:m",
    model: "openai:m",
    endpoint: "chat",
  },
  ...{
    keyPrint: "k",
    sha256: "s",
    lines: [
      [1, 2],
      [5, 9],
    ],
    items: 7,
    bytes: 70,
    inputTokens: 7,
    outputTokens: 7,
  },
  ...{ mostUsd: 1, spooledWallMs: 2, state: "running", batchId: "batch_1", finished: 3 },
};
const { batchId: _id, finished: _finished, ...unmade } = RECORD;
const WAITING: BatchRecord = {
  ...unmade,
  ...{ tag: "pgb2", spooledWallMs: 1, state: "spooled", lines: [[3, 3]], items: 1 },
  failed: { is: "full", message: "Enqueued token limit reached" },
};

describe("what status shows of the batches of a run", () => {
  it("names each batch, how many items it has, how far it is and why it waits, the oldest first", () => {
    const foreign = storedBatch({ ...RECORD, tag: "pgb3", taskId: "other" });
    const store = { records: () => [foreign, storedBatch(RECORD), storedBatch(WAITING)] };
    const batches = recordsOfRun(store, "task").map(recordedBatch);
    expect(batches).toEqual([
      {
        ...{ id: null, tag: "pgb2", provider: "openai", model: "openai:m", state: "spooled", items: 1 },
        ...{ finished: null, reason: "Enqueued token limit reached" },
      },
      {
        id: "batch_1",
        tag: "pgb1",
        provider: "openai",
        model: "openai:m",
        state: "running",
        items: 7,
        finished: 3,
      },
    ]);
    expect(batchRows(batches)).toEqual([
      ["batches", "1 item with (pgb2) of openai:m (spooled): Enqueued token limit reached"],
      ["", "7 items with batch_1 of openai:m (running, 3 finished)"],
    ]);
  });

  it("is cut after twenty, with the command that shows all", () => {
    const rows = batchRows(Array.from({ length: 22 }, () => recordedBatch(RECORD)));
    expect(rows).toHaveLength(21);
    expect(rows.at(-1)).toEqual(["", "and 2 more: perigee batches list"]);
  });
});

describe("the trace of an item in a batch", () => {
  const trace = (line: number, status: ItemTrace["status"] = "open"): ItemTrace => ({
    ...{ key: "k", line, status },
    events: [
      { at: "2026-11-01T00:00:00.000Z", event: "accepted", detail: "its run began" },
      { at: null, event: "waiting", detail: "for its turn" },
    ],
  });

  it("says which batch it waits for", () => {
    const { events } = withBatch(trace(6), [WAITING, RECORD]);
    expect(events.map(({ event, detail }) => [event, detail])).toEqual([
      ["accepted", "its run began"],
      ["waiting", "for batch_1 of openai:m (running, 3 finished)"],
    ]);
  });

  it.each([
    ["is in no batch", trace(4)],
    ["has ended", trace(6, "completed")],
  ])("is as it was where the item %s", (_what, given) => {
    expect(withBatch(given, [WAITING, RECORD])).toBe(given);
  });
});
