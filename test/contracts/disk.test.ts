/** The contract of disks, put to the system's, to that of tests, and to that of a partition. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, describe, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { openObjects } from "../../src/store/objects/open_objects.ts";
import { openPartitionDisk } from "../../src/store/objects/partition_disk.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { diskContract } from "../../src/testing/disk_contract.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-disks-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("the disk of the system", () => {
  const make = async () => ({ disk: systemDisk, folder: mkdtempSync(join(root, "case-")) });
  for (const { name, run } of diskContract(make)) it(name, run);
});

describe("the disk in memory", () => {
  for (const { name, run } of diskContract(async () => ({ disk: new MemoryDisk(), folder: "/data" })))
    it(name, run);
});

describeCounterpart("the disk of a partition", POSTGRES, () => {
  let server: PostgresServer;
  const closers: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });
  afterAll(() => server?.remove());

  const make = async () => {
    const store = await openPostgresStore({ url: await server.freshUrl() });
    const { href: url } = pathToFileURL(mkdtempSync(join(root, "objects-")));
    const objects = await openObjects({ url });
    const disk = await openPartitionDisk({ store, objects, root: "/perigee/1" });
    closers.push(
      () => store.close(),
      () => disk.close(),
    );
    return { disk, folder: "/perigee/1/files" };
  };
  for (const { name, run } of diskContract(make)) it(name, run);
});
