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

  it("lists the files of one folder", async () => {
    const disk = new MemoryDisk();
    disk.put("/data/files/a", "1");
    disk.put("/data/files/deeper/b", "2");
    disk.put("/data/c", "3");
    await disk.makePrivateFolder("/data/files");
    expect(await disk.list("/data/files")).toEqual(["a"]);
    expect(await disk.list("/elsewhere")).toEqual([]);
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

  describe("loses names in a power cut unless their folder was synced", () => {
    /** What is there after a power cut in the n-th operation of `work`, or after it; over many seeds. */
    async function names(work: (disk: MemoryDisk) => Promise<unknown>, operation: number): Promise<string[]> {
      const ends = new Set<string>();
      for (let seed = 0; seed < 40; seed += 1) {
        const disk = new MemoryDisk();
        disk.put("/a/old", "old");
        const random = createRandom(seed);
        disk.crashAtOperation(operation, { powerCut: true, random });
        await work(disk).catch(() => undefined);
        disk.crash({ powerCut: true, random });
        ends.add(disk.paths.toSorted().join(" "));
      }
      return [...ends].sort();
    }
    const OVER = 99;

    it("a file that was made exists once it is open, and before that it may exist", async () => {
      const make = (disk: MemoryDisk): Promise<unknown> => disk.open("/a/new", "write");
      expect(await names(make, 1)).toEqual(["/a/old"]);
      expect(await names(make, 2)).toEqual(["/a/new /a/old", "/a/old"]);
      expect(await names(make, OVER)).toEqual(["/a/new /a/old"]);
    });

    it("a file that was renamed has one of its two names", async () => {
      const rename = (disk: MemoryDisk): Promise<unknown> => disk.rename("/a/old", "/a/new");
      expect(await names(rename, 1)).toEqual(["/a/old"]);
      expect(await names(rename, 2)).toEqual(["/a/new", "/a/old"]);
      expect(await names(rename, OVER)).toEqual(["/a/new"]);
    });

    it("a file that was removed may come back, unless its folder was synced for another", async () => {
      const remove = (disk: MemoryDisk): Promise<unknown> => disk.remove("/a/old");
      expect(await names(remove, OVER)).toEqual(["", "/a/old"]);
      const make = async (disk: MemoryDisk, path: string): Promise<void> => {
        await disk.remove("/a/old");
        await disk.open(path, "write");
      };
      expect(await names((disk) => make(disk, "/b/new"), OVER)).toEqual(["/a/old /b/new", "/b/new"]);
      expect(await names((disk) => make(disk, "/a/new"), OVER)).toEqual(["/a/new"]);
    });

    it("what a killed process has made is synced by the one that opens it for writing, not for reading", async () => {
      for (const [mode, isSafe] of [
        ["write", true],
        ["read", false],
      ] as const) {
        const ends = new Set<number>();
        for (let seed = 0; seed < 40; seed += 1) {
          const disk = new MemoryDisk();
          disk.crashAtOperation(2, { powerCut: false });
          await disk.open("/a/new", "write").catch(() => undefined);
          const file = await disk.open("/a/new", mode);
          await file.sync();
          disk.crash({ powerCut: true, random: createRandom(seed) });
          ends.add(disk.paths.length);
        }
        expect([...ends].sort(), mode).toEqual(isSafe ? [1] : [0, 1]);
      }
    });
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

  it("takes virtual time for writes when it is set", async () => {
    const clock = new FakeClock();
    const disk = new MemoryDisk({ clock, latencyMs: 5 });
    await clock.runUntilSettled(written(disk, "a", "b")); // two writes, and the sync of the folder
    expect(clock.nowMs()).toBe(15);
  });
});
