/**
 * The contract of `Disk`: what every implementation promises while its process lives. What survives is tested by their own tests.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Disk, DiskFile } from "../disk.ts";
import type { ContractCase } from "./contract_case.ts";

/** `make` returns a disk and a folder that has no files. */
export function diskContract(
  make: () => Promise<{ readonly disk: Disk; readonly folder: string }>,
): ContractCase[] {
  const on: OnDisk = (name, run) => ({
    name,
    run: async () => {
      const { disk, folder } = await make();
      await run(disk, (...names) => join(folder, ...names));
    },
  });
  return [...contentCases(on), ...nameCases(on)];
}

/** Makes a case of a disk and the paths in its folder. */
type OnDisk = (
  name: string,
  run: (disk: Disk, at: (...names: string[]) => string) => Promise<void>,
) => ContractCase;

function contentCases(on: OnDisk): ContractCase[] {
  return [
    on("a file that does not exist cannot be read, has no state, and may be removed", async (disk, at) => {
      await assert.rejects(disk.open(at("none"), "read"), { code: "ENOENT" });
      await assert.rejects(disk.rename(at("none"), at("other")), { code: "ENOENT" });
      assert.equal(await disk.stat(at("none")), undefined);
      await disk.remove(at("none"));
    }),
    on(
      "what was written is read before and after a sync, by others that have the file open",
      async (disk, at) => {
        const writer = await disk.open(at("file"), "write");
        await writer.write(bytesOf("hello world"), 0);
        const reader = await disk.open(at("file"), "read");
        assert.equal(await textOf(reader), "hello world");
        await writer.sync();
        await writer.write(bytesOf("J"), 0);
        assert.equal(await textOf(reader), "Jello world");
        await writer.close();
        await reader.close();
        assert.equal(await contentOf(disk, at("file")), "Jello world");
      },
    ),
    on("a read ends at the end of the file, and is empty behind it", async (disk, at) => {
      const file = await written(disk, at("file"), "0123456789");
      const into = new Uint8Array(6);
      assert.equal(await file.read(into, 7), 3);
      assert.equal(Buffer.from(into.subarray(0, 3)).toString(), "789");
      assert.equal(await file.read(into, 10), 0);
      assert.equal(await file.read(into, 99), 0);
      await file.close();
    }),
    on("a file that is made longer holds zeros there, also where it was cut before", async (disk, at) => {
      const file = await written(disk, at("file"), "abcdef");
      await file.sync();
      await file.truncate(3);
      await file.write(bytesOf("z"), 5);
      await file.truncate(7);
      assert.equal(await file.sizeBytes(), 7);
      assert.equal(await textOf(file), "abc\0\0z\0");
      await file.close();
      assert.equal(await contentOf(disk, at("file")), "abc\0\0z\0");
    }),
    on("a caller may change its bytes once a write has resolved", async (disk, at) => {
      const bytes = bytesOf("same");
      const file = await disk.open(at("file"), "write");
      await file.write(bytes, 0);
      bytes.fill(0);
      assert.equal(await textOf(file), "same");
      await file.close();
    }),
    on("a closed file refuses calls, and one that is open for reading refuses writes", async (disk, at) => {
      const file = await written(disk, at("file"), "x");
      await file.close();
      await assert.rejects(file.write(bytesOf("y"), 0));
      const reader = await disk.open(at("file"), "read");
      await assert.rejects(reader.write(bytesOf("y"), 0));
      await reader.close();
      assert.equal(await contentOf(disk, at("file")), "x");
    }),
  ];
}

function nameCases(on: OnDisk): ContractCase[] {
  return [
    on(
      "a renamed file keeps its content and identity, and replaces the one that had the name",
      async (disk, at) => {
        await (await written(disk, at("from"), "new")).close();
        await (await written(disk, at("to"), "old")).close();
        const [from, to] = [await disk.stat(at("from")), await disk.stat(at("to"))];
        assert.notEqual(from?.identity, to?.identity);
        await disk.rename(at("from"), at("to"));
        assert.equal(await contentOf(disk, at("to")), "new");
        assert.equal((await disk.stat(at("to")))?.identity, from?.identity);
        assert.equal(await disk.stat(at("from")), undefined);
      },
    ),
    on("who has a file open keeps it when it is removed or replaced", async (disk, at) => {
      await (await written(disk, at("file"), "first")).close();
      const [first, identity] = [
        await disk.open(at("file"), "read"),
        (await disk.stat(at("file")))?.identity,
      ];
      await disk.remove(at("file"));
      assert.equal(await disk.stat(at("file")), undefined);
      await (await written(disk, at("file"), "second")).close();
      assert.notEqual((await disk.stat(at("file")))?.identity, identity);
      assert.equal(await textOf(first), "first");
      await (await written(disk, at("third"), "third")).close();
      const second = await disk.open(at("file"), "read");
      await disk.rename(at("third"), at("file"));
      assert.equal(await textOf(second), "second");
      await first.close();
      await second.close();
      assert.equal(await contentOf(disk, at("file")), "third");
    }),
    on("an open file goes on under its new name", async (disk, at) => {
      const file = await written(disk, at("part"), "one");
      await disk.rename(at("part"), at("whole"));
      await file.write(bytesOf("two"), 3);
      await file.close();
      assert.equal(await contentOf(disk, at("whole")), "onetwo");
      assert.equal(await disk.stat(at("part")), undefined);
    }),
    on("a folder lists its files, not those of others", async (disk, at) => {
      for (const names of [["a"], ["b"], ["deeper", "c"], ["deeper", "still", "d"]])
        await (await written(disk, at(...names), "x")).close();
      assert.deepEqual([...(await disk.list(at()))].toSorted(), ["a", "b"]);
      assert.deepEqual(await disk.list(at("deeper")), ["c"]);
      assert.deepEqual(await disk.list(at("elsewhere")), []);
      await disk.remove(at("a"));
      assert.deepEqual(await disk.list(at()), ["b"]);
    }),
    on("a file says its size and when it changed", async (disk, at) => {
      const file = await written(disk, at("file"), "12345");
      const found = await disk.stat(at("file"));
      assert.equal(found?.sizeBytes, 5);
      assert.ok(Number.isInteger(found?.modifiedMs));
      assert.equal(found?.isSeekable, true);
      await file.close();
    }),
  ];
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

async function written(disk: Disk, path: string, text: string): Promise<DiskFile> {
  const file = await disk.open(path, "write");
  await file.write(bytesOf(text), 0);
  return file;
}

async function textOf(file: DiskFile): Promise<string> {
  const bytes = new Uint8Array(1_024);
  return Buffer.from(bytes.subarray(0, await file.read(bytes, 0))).toString();
}

async function contentOf(disk: Disk, path: string): Promise<string> {
  const file = await disk.open(path, "read");
  try {
    return await textOf(file);
  } finally {
    await file.close();
  }
}
