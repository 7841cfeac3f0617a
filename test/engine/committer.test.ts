/** The committer, between a store and the files that it writes. */
import { describe, expect, it } from "vitest";
import { Committer } from "../../src/engine/journal/committer.ts";
import { DiskSpace } from "../../src/engine/journal/disk_space.ts";
import { readStep } from "../../src/engine/journal/journal.ts";
import { OutputFile } from "../../src/engine/journal/output.ts";
import { PacedCalls } from "../../src/engine/journal/paced_calls.ts";
import { LineMemory } from "../../src/engine/journal/staged_lines.ts";
import { RELEASES_HELD, TaskLog } from "../../src/engine/journal/task_log.ts";
import type { PerigeeError } from "../../src/errors.ts";
import type { JournalEntry, Store } from "../../src/store/store.ts";
import { FakeClock, MemoryDisk } from "../../src/testing/index.ts";

const RECORD = {
  line: 1,
  status: "completed",
  code: undefined,
  attempts: 1,
  ambiguousAttempts: 0,
  isEstimated: false,
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  listUsd: 0,
  usd: 0,
  billedUsd: 0,
  ambiguousUsd: 0,
  priceNumber: 0,
} as const;

/** A committer whose store answers appends by hand, on a disk whose reserve never comes back. */
async function setUp(roomWaitMs: number) {
  const clock = new FakeClock();
  const appends: { readonly entries: readonly JournalEntry[]; readonly answer: () => void }[] = [];
  const store: Pick<Store, "append"> = {
    append: (entries) => new Promise((resolve) => appends.push({ entries, answer: resolve })),
  };
  let failure: PerigeeError | undefined;
  const committer = new Committer({
    store: store as Store, // the committer only appends
    clock,
    space: { isSpaceLow: () => true, restoreReserve: async () => false },
    lanes: () => [],
    room: new DiskSpace({ clock, waitMs: roomWaitMs, dataDir: "/data", onRoom: () => undefined }),
    onFailure: (error) => {
      failure = error;
    },
  });
  const output = await OutputFile.open(new MemoryDisk({ clock }), "/out.jsonl");
  return { clock, appends, committer, log: committer.open("t", output), failure: () => failure };
}

describe("the recorder", () => {
  it("is not quiet while the store writes an output, also when the wait for room has failed meanwhile", async () => {
    const { clock, appends, committer, log, failure } = await setUp(3_000);
    log.outcome(RECORD, "a\n");
    await clock.advance(1);
    appends[0]?.answer();
    await clock.advance(1); // the store says that its space is low: the wait for room begins
    log.outcome({ ...RECORD, line: 2 }, "b\n");
    await clock.advance(10_000);
    expect(failure()).toMatchObject({ code: "disk_full" });
    expect(appends).toHaveLength(2);
    let isQuiet = false;
    const quiet = committer.leave(log).then(() => {
      isQuiet = true;
    });
    await clock.advance(1_000);
    expect(isQuiet).toBe(false);
    appends[1]?.answer();
    await quiet;
  });
});

describe("a committer that is closed", () => {
  it("waits for room no more, and does not fail for it", async () => {
    const { clock, appends, committer, log, failure } = await setUp(3_000);
    log.outcome(RECORD, "a\n");
    await clock.advance(1);
    appends[0]?.answer();
    await clock.advance(1);
    expect(clock.pendingTimers).toBe(1);
    committer.close();
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);
    await clock.advance(10_000);
    expect(failure()).toBeUndefined();
  });
});

describe("a log whose lines wait for room", () => {
  it("brings them to the output in a step of their own, so that lines that come meanwhile need not wait", async () => {
    const clock = new FakeClock();
    const output = await OutputFile.open(new MemoryDisk({ clock }), "/out.jsonl");
    const log = new TaskLog("t", output, () => undefined, {
      calls: new PacedCalls(clock),
      memory: new LineMemory(),
    });
    log.restoreHeld(Buffer.from("a\n"));
    log.tryRelease();
    log.outcome(RECORD, "b\n");
    const release = log.seal([]);
    expect(readStep(release.entry.records)).toMatchObject({ voids: RELEASES_HELD, outEnd: 2, outcomes: [] });
    release.release(clock.moment());
    expect(log.isHolding).toBe(false);
    const next = log.seal([]);
    expect(next.entry.output).toMatchObject({ position: 2, bytes: Buffer.from("b\n") });
  });
});
