/** The work log's contract, put to every store there is. */
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
import { durableWorkLogContract, workLogContract } from "../../src/testing/work_log_contract.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-log-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let paths = 0;
const path = () => {
  paths += 1;
  return join(root, String(paths));
};
const fresh = () => ({ dataDir: path(), reserveBytes: 0 });
const onMemory = () => ({ clock: new FakeClock(), outputs: { disk: new MemoryDisk(), path } });
const onSystem = () => ({ clock: new FakeClock(), outputs: { disk: systemDisk, path } });

describe("the work log in memory", () => {
  for (const { name, run } of workLogContract(async () => createMemoryStore(), onMemory())) it(name, run);
});

describe("the work log in sqlite", () => {
  for (const { name, run } of workLogContract(() => openSqliteStore(fresh()), onSystem())) it(name, run);
  const storage = async () => {
    const folder = fresh();
    return { open: () => openSqliteStore(folder) };
  };
  for (const { name, run } of durableWorkLogContract(storage, onSystem())) it(name, run);
});

describe("the work log in a crashable store", () => {
  for (const { name, run } of workLogContract(() => createCrashableStore().open(), onMemory())) it(name, run);
  for (const { name, run } of durableWorkLogContract(async () => createCrashableStore(), onMemory()))
    it(name, run);
});

describe("the work log in a crashable store whose commits take time", () => {
  const { clock, outputs } = onMemory();
  const open = () => createCrashableStore({ clock, commitMs: 100 }).open();
  for (const { name, run } of workLogContract(open, { clock, outputs }))
    it(name, () => clock.runUntilSettled(run()));
});
