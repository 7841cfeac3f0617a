/** A system that writes fewer bytes than it is given, as POSIX lets it: what is on the disk afterwards. */
import { openSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { ArchiveWriter, unpackArchive } from "../../src/store/folder/archive.ts";
import { readMark, writeMark } from "../../src/store/folder/folder_identity.ts";
import { GroupCommit } from "../../src/store/group_commit.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { SqliteTables } from "../../src/store/sqlite_tables.ts";

/** Bytes that one call writes at most. */
const { MOST } = vi.hoisted(() => ({ MOST: 1_000 }));

vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  const writeSync = (
    file: number,
    data: Uint8Array | string,
    offset = 0,
    length?: number,
    position?: number,
  ) => {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    return real.writeSync(file, bytes, offset, Math.min(length ?? bytes.byteLength - offset, MOST), position);
  };
  return { ...real, writeSync };
});

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const openShort: typeof real.open = async (...given) => {
    const handle = await real.open(...given);
    const write = handle.write.bind(handle);
    const short = (data: Uint8Array, offset = 0, length = data.byteLength - offset, position?: number) =>
      write(data, offset, Math.min(length, MOST), position);
    return Object.assign(handle, { write: short });
  };
  return { ...real, open: openShort };
});

const root = await mkdtemp(join(tmpdir(), "perigee-short-"));
afterAll(() => rm(root, { recursive: true, force: true }));
/** Longer than some writes, and different at each place. */
const bytes = Buffer.from(
  Array.from({ length: 5 * MOST + 1 }, (_, index) => (index * 31 + (index >> 8)) & 0xff),
);

describe("where the system writes less than requested", () => {
  it("the disk writes the rest after it", async () => {
    const file = await systemDisk.open(join(root, "disk"), "write");
    await file.write(bytes, 0);
    await file.write(bytes, bytes.length);
    await file.close();
    expect(readFileSync(join(root, "disk")).equals(Buffer.concat([bytes, bytes]))).toBe(true);
  });

  it("the store writes the rest of an output after it", async () => {
    const tables = new SqliteTables((await loadSqlite())(join(root, "group.sqlite")));
    const commits = new GroupCommit(tables, { take: () => true, release: () => false });
    const descriptor = openSync(join(root, "output"), "w+");
    const outputs = {
      taskIds: ["a"],
      descriptors: [descriptor],
      positions: [3],
      sizes: [bytes.length],
      bytes,
    };
    const packed = { taskIds: ["a"], wallMs: [1], sizes: [1], bytes: Buffer.from("x"), outputs };
    expect(await commits.handle([{ kind: "append", id: 1, packed }])).toMatchObject([{ id: 1, ok: true }]);
    expect(readFileSync(join(root, "output")).equals(Buffer.concat([Buffer.alloc(3), bytes]))).toBe(true);
  });

  it("a backup and what is restored of it have every byte", async () => {
    await writeFile(join(root, "source"), bytes);
    const archive = await open(join(root, "archive"), "w");
    const writer = new ArchiveWriter(archive);
    await writer.add("files/one", join(root, "source"));
    await writer.finish();
    await archive.close();
    await unpackArchive(join(root, "archive"), join(root, "restored"));
    expect(readFileSync(join(root, "restored", "files", "one")).equals(bytes)).toBe(true);
  });

  it("the identity of a folder is whole", async () => {
    const mark = { id: "i".repeat(2 * MOST), starts: 1, tasks: 2 };
    await mkdir(join(root, "folder"));
    writeMark(join(root, "folder"), mark);
    expect(readMark(join(root, "folder"))).toEqual(mark);
  });
});
