/** What a partition's disk does with damage, outages, full disks and orphans. */
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../../src/errors.ts";
import { openPartitionDisk } from "../../../src/store/objects/partition_disk.ts";
import { sweepObjects } from "../../../src/store/objects/sweep.ts";
import { FakeClock } from "../../../src/testing/fake_clock.ts";
import { MemoryObjects, PartitionRows } from "./partition_world.ts";

const ROOT = "/perigee/1";
const FILE = `${ROOT}/out`;
const MIB = 1 << 20;

async function opened(rows = new PartitionRows(), objects = new MemoryObjects()) {
  const clock = new FakeClock();
  const files = rows.take();
  const disk = await openPartitionDisk({ store: { files }, objects, root: ROOT, clock });
  return { rows, objects, clock, files, disk };
}

function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let index = 0; index < length; index += 1) bytes[index] = (index * 7 + (index >> 10)) & 255;
  return bytes;
}

describe("the disk of a partition", () => {
  it("stores what is small as rows, and 8 MiB of them as an object without the rows", async () => {
    const { rows, objects, disk } = await opened();
    const bytes = patterned(8 * MIB + 1_000);
    const file = await disk.open(FILE, "write");
    for (let at = 0; at < bytes.length; at += 100_000) {
      await file.write(bytes.subarray(at, at + 100_000), at);
      await file.sync();
    }
    expect(objects.puts).toBeLessThanOrEqual(1); // until then all of it were rows
    await file.close();
    await disk.close();
    expect(rows.segments.filter(({ object }) => object !== undefined)).toHaveLength(1);
    expect(rows.segments.length).toBeLessThan(5);
    const next = await opened(rows, objects);
    const again = await next.disk.open(FILE, "read");
    const found = Buffer.alloc(bytes.length);
    expect(await again.read(found, 0)).toBe(bytes.length);
    expect(found.equals(bytes)).toBe(true);
    const part = Buffer.alloc(300_000);
    await again.read(part, 65_000);
    expect(part.equals(bytes.subarray(65_000, 365_000))).toBe(true);
  });

  it("stores a large file as objects while it is written, without a sync", async () => {
    const { rows, objects, disk } = await opened();
    const file = await disk.open(FILE, "write");
    for (let at = 0; at < 40 * MIB; at += 4 * MIB)
      await file.write(new Uint8Array(4 * MIB).fill(at / MIB + 1), at);
    expect(objects.puts).toBeGreaterThanOrEqual(4);
    await file.sync();
    expect(rows.segments.map(({ storedBytes }) => storedBytes)).toEqual(Array(5).fill(8 * MIB));
    const [first] = rows.segments;
    expect(first?.object).toMatch(/^p1\/\d+\/0-\d+\.e1$/);
  });

  it("writes rows while the objects are down, and loses nothing", async () => {
    const { rows, objects, disk } = await opened();
    objects.isDown = true;
    const file = await disk.open(FILE, "write");
    await file.write(new Uint8Array(20 * MIB).fill(5), 0);
    await file.sync();
    await file.close();
    await disk.close();
    expect(rows.segments.every(({ object }) => object === undefined)).toBe(true);
    expect((await (await opened(rows, objects)).disk.stat(FILE))?.sizeBytes).toBe(20 * MIB);
  });

  it.each(["missing", "changed", "short"] as const)("names the file when an object is %s", async (how) => {
    const { rows, objects, disk } = await opened();
    const file = await disk.open(FILE, "write");
    await file.write(patterned(5 * MIB), 0);
    await file.close();
    const [[name, bytes] = ["", new Uint8Array()]] = objects.stored;
    if (how === "missing") objects.stored.delete(name);
    else if (how === "short") objects.stored.set(name, bytes.subarray(0, MIB));
    else bytes[3 * MIB] = (bytes[3 * MIB] ?? 0) ^ 1;
    const next = await (await opened(rows, objects)).disk.open(FILE, "read");
    const reading = next.read(new Uint8Array(100), 3 * MIB);
    await expect(reading).rejects.toMatchObject({
      ...{ code: "store_damaged", details: { path: "out", object: name } },
      message: expect.stringContaining("out cannot be read from byte 0 on"),
    });
    if (how === "changed") expect(await next.read(new Uint8Array(100), 0)).toBe(100); // other blocks are whole
  });

  it("finds a changed byte of a row", async () => {
    const { rows, objects, disk } = await opened();
    const file = await disk.open(FILE, "write");
    await file.write(Buffer.from("some text"), 0);
    await file.close();
    await disk.close();
    const [row] = rows.segments;
    if (row?.bytes !== undefined) row.bytes[2] = 1;
    const next = await (await opened(rows, objects)).disk.open(FILE, "read");
    await expect(next.read(new Uint8Array(9), 0)).rejects.toMatchObject({ code: "store_damaged" });
  });

  it("lets a former owner write nothing, and its open files say so", async () => {
    const { rows, objects, disk } = await opened();
    const file = await disk.open(FILE, "write");
    await file.write(Buffer.from("mine"), 0);
    await file.sync();
    const next = await opened(rows, objects);
    const commits = rows.commits;
    await file.write(Buffer.from("yours"), 0);
    await expect(file.sync()).rejects.toMatchObject({ code: "store_failed" });
    await expect(file.write(Buffer.from("yours"), 0)).rejects.toMatchObject({ code: "store_failed" });
    await expect(disk.remove(FILE)).rejects.toMatchObject({ code: "store_failed" });
    await expect(disk.rename(FILE, `${ROOT}/other`)).rejects.toMatchObject({ code: "store_failed" });
    await expect(disk.open(`${ROOT}/new`, "write")).rejects.toMatchObject({ code: "store_failed" });
    expect(rows.commits).toBe(commits);
    expect((await next.disk.stat(FILE))?.sizeBytes).toBe(4);
  });

  it("waits while the disk of the database is full, and has all that was written then", async () => {
    const { rows, objects, disk, clock } = await opened();
    const file = await disk.open(FILE, "write");
    rows.refusals.push(new PerigeeError("disk_full", "full"), new PerigeeError("disk_full", "full"));
    await file.write(Buffer.from("late"), 0);
    const synced = file.sync();
    await clock.advance(3_000);
    await synced;
    expect((await (await opened(rows, objects)).disk.stat(FILE))?.sizeBytes).toBe(4);
  });

  it("removes the objects of a removed file, and what its next owner finds of one that was open", async () => {
    const { rows, objects, disk } = await opened();
    for (const name of ["one", "two"]) {
      const file = await disk.open(`${ROOT}/${name}`, "write");
      await file.write(patterned(5 * MIB), 0);
      await file.sync();
      if (name === "one") await file.close();
    }
    await disk.remove(`${ROOT}/one`);
    await disk.remove(`${ROOT}/two`); // open still
    await disk.close();
    expect(objects.stored.size).toBe(1);
    expect(rows.files).toHaveLength(1);
    await opened(rows, objects);
    expect(rows.files).toEqual([]);
    expect(rows.segments).toEqual([]);
  });
});

describe("sweepObjects", () => {
  it("removes what no segment names, once it is old enough and has the name of one of these", async () => {
    const { objects, files, disk } = await opened();
    const file = await disk.open(FILE, "write");
    await file.write(patterned(5 * MIB), 0);
    await file.close();
    const [named = ""] = objects.stored.keys();
    for (const name of [
      "p1/5/0-1.e1",
      "p2/9/8-3.e4",
      "p1/7/0-2.e1.ab-cd.tmp",
      "p1/6/0-1.e1",
      "private/notes.txt",
    ])
      await objects.put(name, Buffer.from("x"));
    objects.ages.set("p1/6/0-1.e1", 60_000);
    expect(await sweepObjects({ files, objects })).toBe(3);
    expect([...objects.stored.keys()].toSorted()).toEqual(
      ["p1/6/0-1.e1", "private/notes.txt", named].toSorted(),
    );
  });
});
