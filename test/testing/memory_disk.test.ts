import { describe, expect, it } from "vitest";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { createRandom } from "../../src/testing/random.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

async function written(disk: MemoryDisk, ...texts: string[]) {
  const file = await disk.open("out", "write");
  for (const text of texts) await file.write(bytes(text), await file.sizeBytes());
  return file;
}

describe("MemoryDisk", () => {
  it("reads, writes, truncates and tells files apart like a disk", async () => {
    const disk = new MemoryDisk({ clock: new FakeClock({ wallMs: 77 }) });
    await expect(disk.open("in", "read")).rejects.toMatchObject({ code: "ENOENT" });
    const file = await written(disk, "hello ", "world");
    await file.write(bytes("J"), 0);
    const into = new Uint8Array(20);
    expect(await file.read(into, 6)).toBe(5);
    expect(new TextDecoder().decode(into.subarray(0, 5))).toBe("world");
    await file.truncate(5);
    await file.write(bytes("!"), 7);
    expect(disk.text("out")).toBe("Jello\0\0!");
    const stat = await disk.stat("out");
    expect(stat).toMatchObject({ sizeBytes: 8, modifiedMs: 77, isSeekable: true });
    await disk.rename("out", "done");
    expect((await disk.stat("done"))?.identity).toBe(stat?.identity);
    expect(await disk.stat("out")).toBeUndefined();
    disk.put("done", "other");
    expect((await disk.stat("done"))?.identity).not.toBe(stat?.identity);
    await disk.remove("done");
    await disk.remove("done");
    expect(disk.paths).toEqual([]);
    await file.close();
    await expect(file.write(bytes("x"), 0)).rejects.toMatchObject({ code: "EBADF" });
  });

  it("keeps what was written when the process dies, and its files are dead", async () => {
    const disk = new MemoryDisk();
    const file = await written(disk, "kept");
    disk.crash({ powerCut: false });
    await expect(file.write(bytes("more"), 4)).rejects.toThrow("has died");
    await expect(file.sync()).rejects.toThrow("has died");
    expect(disk.text("out")).toBe("kept");
    const again = await disk.open("out", "write");
    await again.write(bytes("!"), 4);
    expect(disk.text("out")).toBe("kept!");
  });

  it("keeps at a power cut what was synced, and of later writes all, nothing or a first part", async () => {
    const ends = new Set<string>();
    for (let seed = 0; seed < 60; seed += 1) {
      const disk = new MemoryDisk();
      const file = await written(disk, "safe");
      await file.sync();
      await file.write(bytes("-lost?"), 4);
      disk.crash({ powerCut: true, random: createRandom(seed) });
      ends.add(disk.text("out") ?? "nothing");
    }
    expect(ends).toContain("safe");
    expect(ends).toContain("safe-lost?");
    expect(ends.size).toBeGreaterThan(3);
    for (const end of ends) expect("safe-lost?".startsWith(end) && end.startsWith("safe")).toBe(true);
  });

  it("tears the write that it crashes in", async () => {
    const disk = new MemoryDisk();
    const file = await written(disk, "whole ");
    disk.crashAtOperation(2, { powerCut: false, random: () => 0.5 });
    await file.sync();
    await expect(file.write(bytes("torn line"), 6)).rejects.toThrow("died in the middle");
    expect(disk.text("out")).toBe("whole torn");
    await expect(file.sync()).rejects.toThrow("has died");
  });

  it("fills up: a write that does not fit leaves its first part and ENOSPC", async () => {
    const disk = new MemoryDisk();
    const file = await written(disk, "12345");
    disk.setFull(3);
    await expect(file.write(bytes("67890"), 5)).rejects.toMatchObject({ code: "ENOSPC" });
    expect(disk.text("out")).toBe("12345678");
    await file.write(bytes("x"), 0);
    disk.setFull(Number.POSITIVE_INFINITY);
    await file.write(bytes("67890"), 5);
    expect(disk.text("out")).toBe("x234567890");
  });

  it("makes nothing durable by a sync that failed, nor by the next one", async () => {
    const disk = new MemoryDisk();
    const file = await written(disk, "doubtful");
    disk.failSync();
    await expect(file.sync()).rejects.toMatchObject({ code: "EIO" });
    await file.sync();
    expect(disk.text("out")).toBe("doubtful");
    disk.crash({ powerCut: true, random: () => 0.9 });
    expect(disk.text("out")).toBe("");
  });

  it("takes virtual time for writes when told so", async () => {
    const clock = new FakeClock();
    const disk = new MemoryDisk({ clock, latencyMs: 5 });
    await clock.runUntilSettled(written(disk, "a", "b"));
    expect(clock.nowMs()).toBe(10);
  });
});
