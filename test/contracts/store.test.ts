/** The store's contract, put to every store there is. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { durableStoreContract, storeContract } from "../../src/testing/store_contract.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-store-"));
let folders = 0;
afterAll(() => rmSync(root, { recursive: true, force: true }));

function freshFolder(): { readonly dataDir: string; readonly reserveBytes: number } {
  folders += 1;
  return { dataDir: join(root, String(folders)), reserveBytes: 0 };
}

let outputs = 0;
const onSystemDisk = {
  disk: systemDisk,
  path: () => {
    outputs += 1;
    return join(root, `out-${outputs}`);
  },
};
const onMemoryDisk = () => ({ ...onSystemDisk, disk: new MemoryDisk() });

describe("the memory store", () => {
  for (const { name, run } of storeContract(async () => createMemoryStore(), onMemoryDisk())) it(name, run);
});

describe("the sqlite store", () => {
  for (const { name, run } of storeContract(() => openSqliteStore(freshFolder()), onSystemDisk))
    it(name, run);
  const storage = async () => {
    const folder = freshFolder();
    return { open: () => openSqliteStore(folder) };
  };
  for (const { name, run } of durableStoreContract(storage)) it(name, run);
});

describe("the sqlite store, with outputs that its thread cannot reach", () => {
  for (const { name, run } of storeContract(() => openSqliteStore(freshFolder()), onMemoryDisk()))
    if (name.includes("output")) it(name, run);
});

describe("the crashable store", () => {
  for (const { name, run } of storeContract(() => createCrashableStore().open(), onMemoryDisk()))
    it(name, run);
  for (const { name, run } of durableStoreContract(async () => createCrashableStore())) it(name, run);
});

describe("the crashable store, with commits that take time", () => {
  const clock = new FakeClock();
  const open = () => createCrashableStore({ clock, commitMs: 100 }).open();
  for (const { name, run } of storeContract(open, onMemoryDisk()))
    it(name, () => clock.runUntilSettled(run()));
});
