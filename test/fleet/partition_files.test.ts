/** The files of a partition that a worker owns, on objects in a folder. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { openPartitionFiles } from "../../src/fleet/partition_files.ts";
import type { FilesStore } from "../../src/store/threaded_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { PartitionRows } from "../store/objects/partition_world.ts";

const DAY_MS = 86_400_000;

it("are swept of objects that nothing names, soon after a partition is opened and every day, and not of those of other partitions", async () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-swept-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const clock = new FakeClock();
  const orphan = (name: string): string => {
    const path = join(folder, name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, "x");
    const seconds = (clock.wallMs() - 2 * DAY_MS) / 1_000;
    utimesSync(path, seconds, seconds);
    return path;
  };
  const [own, other] = [orphan("p1/5/0-1.e1"), orphan("p2/5/0-1.e1")];
  const store = { files: new PartitionRows().take() } as Pick<FilesStore, "files"> as FilesStore; // it uses no more
  const objects = pathToFileURL(folder).href;
  const files = await openPartitionFiles({ store, part: 1, objects, env: {}, clock });
  const swept = async (path: string): Promise<void> => {
    while (existsSync(path)) await new Promise((resolve) => setImmediate(resolve));
  };
  await clock.advance(600_000);
  await swept(own);
  const next = orphan("p1/6/0-1.e1");
  await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(DAY_MS);
  await swept(next);
  expect(existsSync(other)).toBe(true);
  await files.close();
});
