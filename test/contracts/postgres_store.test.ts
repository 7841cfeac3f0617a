/** The contracts of the store and of the work log, put to PostgreSQL: a real server, a schema of its own for each case. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { durableStoreContract, storeContract } from "../../src/testing/store_contract.ts";
import { durableWorkLogContract, workLogContract } from "../../src/testing/work_log_contract.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

describeCounterpart("the store on PostgreSQL", POSTGRES, () => {
  let server: PostgresServer;
  let root: string;
  let outputs = 0;
  const onSystemDisk = {
    disk: systemDisk,
    path: () => {
      outputs += 1;
      return join(root, `out-${outputs}`);
    },
  };

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), "perigee-outputs-"));
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server?.remove();
    rmSync(root, { recursive: true, force: true });
  });

  const open = async () => openPostgresStore({ url: await server.freshUrl() });
  const storage = async () => {
    const url = await server.freshUrl();
    return { open: () => openPostgresStore({ url }) };
  };

  for (const { name, run } of storeContract(open, onSystemDisk)) it(name, run);
  for (const { name, run } of durableStoreContract(storage)) it(name, run);
  for (const { name, run } of storeContract(open, { ...onSystemDisk, disk: new MemoryDisk() }))
    if (name.includes("output")) it(`${name}, with outputs that its thread cannot reach`, run);

  const clock = new FakeClock();
  for (const { name, run } of workLogContract(open, { clock, outputs: onSystemDisk })) it(name, run);
  for (const { name, run } of durableWorkLogContract(storage, { clock })) it(name, run);
});
