/**
 * The output of a run over a table on a disk that is full, or fails: it waits for space, and says what to do.
 */
import { beforeEach, expect, it } from "vitest";
import { tableDisk } from "../../src/cli/tables/table_disk.ts";
import { DiskSpace } from "../../src/engine/journal/disk_space.ts";
import { writeTable } from "../../src/tables/table_file.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";

const WAIT_MS = 60_000;
const OUT = "/out/answers.csv";

let clock: FakeClock;
let disk: MemoryDisk;
let full: string[];
let left: AbortController;
beforeEach(() => {
  clock = new FakeClock();
  disk = new MemoryDisk({ clock });
  full = [];
  left = new AbortController();
});

it("is written when there is space again, and said to wait for it once", async () => {
  disk.setFull(10);
  const written = write();
  await clock.advance(WAIT_MS / 2);
  expect([full, disk.text(OUT)]).toEqual([[OUT], undefined]);
  disk.setFull(Number.POSITIVE_INFINITY);
  await clock.advance(1_000);
  await written;
  expect(disk.text(OUT)).toBe("name\nfirst\nsecond\n");
  expect(disk.paths).toEqual([OUT]);
});

it("ends as disk_full when there was none for as long as is waited, and leaves no part of it", async () => {
  disk.setFull(10);
  const written = expect(write()).rejects.toMatchObject({
    code: "disk_full",
    message: `no space left on the disk of ${OUT} for 60 s; free some and run the same command again`,
  });
  await clock.advance(WAIT_MS + 1_000);
  await written;
  expect(disk.paths).toEqual([]);
});

it.each(["open", "write", "sync", "rename"] as const)("says what to do where %s fails", async (operation) => {
  disk.failNext(operation, "EIO");
  await expect(write()).rejects.toMatchObject({
    code: "output_unwritable",
    message: `${OUT} could not be written (EIO); mend its disk or folder and run the same command again: what was answered is kept, and not asked again`,
  });
  expect(disk.text(OUT)).toBe(undefined);
});

it("is not waited for after a signal", async () => {
  disk.setFull(10);
  const reason = new Error("SIGINT");
  const written = expect(write()).rejects.toBe(reason);
  await clock.advance(5_000);
  left.abort(reason);
  await written;
  expect(disk.paths).toEqual([]);
});

function write(): Promise<void> {
  const room = new DiskSpace({ clock, waitMs: WAIT_MS, dataDir: "/data", onRoom: () => undefined });
  const step = { room, signal: left.signal, onFull: (path: string) => void full.push(path) };
  async function* rows() {
    yield [["first"], ["second"]];
  }
  const shape = { format: "csv", columns: [{ name: "name", type: "text" }] } as const;
  return writeTable(tableDisk(disk, step), OUT, shape, rows());
}
