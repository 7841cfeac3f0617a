/** Outputs of one commit, on a disk that is slow. */
import { describe, expect, it } from "vitest";
import type { DiskFile } from "../../src/disk.ts";
import { syncOutputs, writeOutputs } from "../../src/store/outputs.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";

const LATENCY_MS = 100;

async function filesOf(count: number) {
  const clock = new FakeClock();
  const disk = new MemoryDisk({ clock, latencyMs: LATENCY_MS });
  const opened: Promise<DiskFile>[] = [];
  for (let index = 0; index < count; index++) opened.push(disk.open(`/out/${index}.jsonl`, "write"));
  await clock.advance(10 * LATENCY_MS);
  return { clock, disk, files: await Promise.all(opened) };
}

const entry = (file: DiskFile, text: string, position = 0) => ({
  taskId: "a",
  output: { file, bytes: new TextEncoder().encode(text), position },
});

describe("the outputs of one commit", () => {
  it("are written and synced at the same time where they are several files", async () => {
    const { clock, files } = await filesOf(5);
    const entries = files.map((file) => entry(file, "answer\n"));
    const startMs = clock.nowMs();
    let tookMs = 0;
    const done = writeOutputs(entries)
      .then(() => syncOutputs(entries))
      .then(() => {
        tookMs = clock.nowMs() - startMs;
      });
    await clock.advance(20 * LATENCY_MS);
    await done;
    expect(tookMs).toBe(2 * LATENCY_MS);
  });

  it("are written one after another in one file, and none after one that failed", async () => {
    const { clock, disk, files } = await filesOf(1);
    const [file] = files as [DiskFile];
    disk.failNext("write", "EIO");
    const parts = [entry(file, "first\n"), entry(file, "second\n", 6), entry(file, "third\n", 13)];
    const failed = expect(writeOutputs(parts)).rejects.toMatchObject({ code: "output_unwritable" });
    await clock.advance(20 * LATENCY_MS);
    await failed;
    expect(await file.sizeBytes()).toBe(0);
  });

  it("reject when all have settled, so that nothing is written later", async () => {
    const { clock, disk, files } = await filesOf(2);
    const [first, second] = files as [DiskFile, DiskFile];
    disk.failNext("write", "EIO");
    let isRejected = false;
    const written = writeOutputs([entry(first, "a\n"), entry(second, "b\n"), entry(second, "c\n", 2)]).catch(
      () => {
        isRejected = true;
      },
    );
    await clock.advance(LATENCY_MS);
    expect(isRejected).toBe(false);
    await clock.advance(LATENCY_MS);
    await written;
    expect(isRejected).toBe(true);
    expect(await second.sizeBytes()).toBe(4);
  });
});
