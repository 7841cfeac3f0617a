/** The disk of a partition on a real PostgreSQL: steps as in the law of the disk, and owners that are replaced while they live. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { openObjects } from "../../../src/store/objects/open_objects.ts";
import { openPartitionDisk } from "../../../src/store/objects/partition_disk.ts";
import { openPartitionReader } from "../../../src/store/objects/partition_reader.ts";
import { connectPg } from "../../../src/store/postgres/pg_session.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres.ts";
import { createRandom } from "../../../src/testing/random.ts";
import { describeCounterpart } from "../../counterpart.ts";
import { POSTGRES, PostgresServer } from "../../postgres_server.ts";

const ROOT = "/perigee/1";
const FILE = `${ROOT}/lots/out`;
/** Small, so that rows, objects and gatherings come soon. */
const SIZES = {
  row: 1_000,
  largeMin: 3_000,
  object: 5_000,
  gathered: 6_000,
  gatheredRows: 12,
  runMin: 1_500,
};

describeCounterpart("PostgreSQL under the disk of a partition", POSTGRES, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server?.remove());

  async function owner(url: string) {
    const store = await openPostgresStore({ url });
    const objects = await openObjects({ url });
    const disk = await openPartitionDisk({ store, objects, root: ROOT, sizes: SIZES });
    const close = async (): Promise<void> => {
      await disk.close();
      await store.close();
      await objects.close();
    };
    return { disk, close };
  }

  /** As if its owner had not been heard of for so long. */
  async function endLease(url: string): Promise<void> {
    const session = await connectPg(url);
    await session.script("UPDATE perigee_partitions SET lease_until = '-infinity'");
    session.end();
  }

  it("holds what was synced over three owners, of whom none can change what the next one has", {
    timeout: 60_000,
  }, async () => {
    const random = createRandom(11);
    const below = (most: number): number => Math.floor(random() * most);
    const url = await server.freshUrl();
    let content = Buffer.alloc(0);
    const former: Awaited<ReturnType<typeof owner>>[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { disk, close } = await owner(url);
      const file = await disk.open(FILE, "write");
      for (let step = 0; step < 40; step += 1) {
        if (random() < 0.1) {
          const size = below(content.length + 500);
          await file.truncate(size);
          content = Buffer.concat([
            content.subarray(0, size),
            Buffer.alloc(Math.max(0, size - content.length)),
          ]);
        } else {
          const at = random() < 0.7 ? content.length : below(content.length + 100);
          const bytes = Buffer.alloc(below(random() < 0.1 ? 12_000 : 900), (turn * 40 + step + 1) & 255);
          await file.write(bytes, at);
          if (bytes.length > 0) {
            const next = Buffer.alloc(Math.max(content.length, at + bytes.length));
            content.copy(next);
            bytes.copy(next, at);
            content = next;
          }
        }
        if (random() < 0.6) await file.sync();
      }
      await file.sync();
      await disk.close(); // gathering ends
      const found = Buffer.alloc(content.length + 10);
      expect(await file.read(found, 0)).toBe(content.length);
      expect(found.subarray(0, content.length).equals(content), `turn ${turn}`).toBe(true);
      former.push({ disk, close });
      await endLease(url);
      if (turn === 0) continue;
      await file.write(Buffer.from("zombie"), 0);
    }
    const last = await owner(url);
    for (const { disk } of former) {
      const file = await disk.open(FILE, "write").catch(() => undefined);
      await file?.write(Buffer.from("zombie"), 0).catch(() => undefined);
      if (file !== undefined) await expect(file.sync()).rejects.toMatchObject({ code: "store_failed" });
      await expect(disk.open(`${ROOT}/new`, "write")).rejects.toMatchObject({ code: "store_failed" });
    }
    const objects = await openObjects({ url });
    const reader = await openPartitionReader({ url, part: 1, objects, root: ROOT });
    for (const disk of [last.disk, reader]) {
      const file = await disk.open(FILE, "read");
      const found = Buffer.alloc(content.length + 10);
      expect(await file.read(found, 0)).toBe(content.length);
      expect(found.subarray(0, content.length).equals(content)).toBe(true);
      expect(await disk.list(`${ROOT}/lots`)).toEqual(["out"]);
      await file.close();
    }
    const followed = await reader.open(FILE, "read");
    const writer = await last.disk.open(FILE, "write");
    await writer.write(Buffer.from("more"), content.length);
    await writer.sync();
    const more = Buffer.alloc(10);
    expect(more.subarray(0, await followed.read(more, content.length)).toString()).toBe("more");
    await writer.close();
    reader.close();
    for (const { close } of [...former, last]) await close();
    await objects.close();
  });
});
