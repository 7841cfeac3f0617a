/**
 * Opening that fails, at any step: no file stays open, and the data folder is as it was.
 */
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type { DiskOperation, MemoryDisk } from "../../src/testing/memory_disk.ts";
import { dataFiles, endOf } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, openFiles, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const ARRAY = "/in.json";

const array = (...lines: readonly number[]): string => `[${lines.map((line) => itemLine(line)).join(",")}]`;

function stream(text: string): Uint8Array[] {
  return [Buffer.from(text)];
}

describe("an opening that is refused leaves nothing open and nothing behind", () => {
  it.each([
    ["has two lines of one key", array(1, 2, 1), "duplicate_key"],
    ["is not an array", JSON.stringify(JSON.parse(itemLine(1)), null, 2), "invalid_array"],
    ["ends too early", array(1, 2).slice(0, -5), "invalid_array"],
    ["is compressed", gzipSync(array(1, 2)), "unsupported_encoding"],
  ])("when a .json file %s", async (_, content, code) => {
    const world = new World();
    world.disk.put(ARRAY, content);
    const open = openFiles(world.disk);
    expect(await endOf(world, ARRAY)).toMatchObject({ code });
    expect(open).toEqual([]);
    expect(dataFiles(world)).toEqual([]);
  });

  it.each([ARRAY, INPUT, undefined])("when its output holds something else: %s", async (path) => {
    const world = new World();
    world.disk.put(ARRAY, array(1, 2));
    world.input(2);
    world.disk.put(OUTPUT, "somebody's work\n");
    const open = openFiles(world.disk);
    const source = path ?? stream(itemLine(1));
    expect(await endOf(world, source)).toMatchObject({ code: "output_unwritable" });
    expect(open).toEqual([]);
    expect(dataFiles(world)).toEqual([]);
  });

  it.each([ARRAY, INPUT, undefined])("when the task cannot be stored: %s", async (path) => {
    const world = new World();
    world.disk.put(ARRAY, array(1, 2));
    world.input(2);
    world.store.failNext("store_failed");
    const open = openFiles(world.disk);
    expect(await endOf(world, path ?? stream(itemLine(1)))).toMatchObject({ code: "store_failed" });
    expect(open).toEqual([]);
    expect(dataFiles(world)).toEqual([]);
  });

  it.each([ARRAY, undefined])("when its output is at work in another run: %s", async (path) => {
    const world = new World({ answer: () => "hang" });
    world.disk.put(ARRAY, array(1, 2));
    world.input(2);
    const engine = await world.engine();
    const first = engine.run(INPUT, OPTIONS);
    await world.settle(first.opened);
    const open = openFiles(world.disk);
    const second = engine.run(path ?? stream(itemLine(1)), { ...OPTIONS, id: "another" });
    await expect(world.settle(second.finished)).rejects.toMatchObject({ code: "conflict" });
    expect(open).toEqual([]);
    expect(dataFiles(world)).toEqual([]);
    first.stop();
    await world.settle(first.finished);
  });

  it("when a run that began with a file is called with a stream", async () => {
    const world = new World();
    world.input(2);
    await endOf(world, INPUT, { id: "x", out: "/x.out" });
    const open = openFiles(world.disk);
    const before = dataFiles(world);
    expect(await endOf(world, stream(itemLine(1)), { id: "x", out: "/x.out" })).toMatchObject({
      code: "input_changed",
    });
    expect(open).toEqual([]);
    expect(dataFiles(world)).toEqual(before);
  });

  it("when an array is not the one that the run began with, or its output is not what it was", async () => {
    for (const change of ["input", "output"] as const) {
      const world = new World({ config: { maxInFlight: 1 } });
      world.disk.put(ARRAY, array(1, 2, 3));
      const engine = await world.engine();
      const run = engine.run(ARRAY, OPTIONS);
      await world.clock.advance(25);
      run.stop();
      await world.settle(run.finished);
      await world.settle(engine.close());
      if (change === "input") world.disk.put(ARRAY, array(1, 2, 4));
      else world.disk.put(OUTPUT, "");
      const open = openFiles(world.disk);
      expect(await endOf(world, ARRAY), change).toMatchObject({ code: `${change}_changed` });
      expect(open, change).toEqual([]);
      expect(dataFiles(world), change).toEqual([]);
    }
  });

  it("when it is a quote", async () => {
    const world = new World();
    world.disk.put(ARRAY, array(1, 2));
    const open = openFiles(world.disk);
    const engine = await world.engine();
    await world.settle(engine.quote(ARRAY));
    await world.settle(engine.quote(stream(itemLine(1))));
    world.disk.put(ARRAY, "[1,");
    await expect(world.settle(engine.quote(ARRAY))).rejects.toMatchObject({ code: "invalid_array" });
    expect(open).toEqual([]);
    expect(dataFiles(world)).toEqual([]);
  });

  const OPERATIONS: readonly DiskOperation[] = ["open", "read", "write", "sync", "truncate", "rename"];
  it.each(OPERATIONS.flatMap((operation) => [1, 2, 3].map((nth) => [operation, nth] as const)))(
    "when the disk fails at %s, time %i",
    async (operation, nth) => {
      for (const source of [ARRAY, INPUT, undefined]) {
        const world = new World();
        world.disk.put(ARRAY, array(1, 2));
        world.input(2);
        failNth(world.disk, operation, nth);
        const open = openFiles(world.disk);
        const end = await endOf(world, source ?? stream(itemLine(1)));
        expect(open, String(source)).toEqual([]);
        if (!(end instanceof PerigeeError)) continue; // it was not done so often
        if (world.sent.length > 0) continue; // it was open by then
        expect(dataFiles(world).filter((path) => path.includes(".json.") || path.endsWith(".part"))).toEqual(
          [],
        );
      }
    },
  );
});

/** The n-th operation of a kind fails. */
function failNth(disk: MemoryDisk, operation: DiskOperation, nth: number): void {
  let left = nth;
  const meet = (one: DiskOperation): void => {
    if (one !== operation) return;
    left -= 1;
    if (left === 0) disk.failNext(operation, "EIO");
  };
  const [open, rename] = [disk.open.bind(disk), disk.rename.bind(disk)];
  disk.rename = (from, to) => {
    meet("rename");
    return rename(from, to);
  };
  disk.open = async (path, mode) => {
    meet("open");
    const file = await open(path, mode);
    return {
      ...file,
      read: (...args) => {
        meet("read");
        return file.read(...args);
      },
      write: (...args) => {
        meet("write");
        return file.write(...args);
      },
      sync: () => {
        meet("sync");
        return file.sync();
      },
      truncate: (sizeBytes) => {
        meet("truncate");
        return file.truncate(sizeBytes);
      },
    };
  };
}

describe("an opening that is refused", () => {
  it("keeps what an earlier call had of its stream", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    const text = [1, 2, 3].map((line) => itemLine(line)).join("");
    const process = mortal(world.clock);
    const run = (await world.engine(process.clock)).run(stream(text), OPTIONS);
    run.finished.catch(() => undefined);
    await world.clock.advance(15);
    process.kill();
    world.kill();
    const before = dataFiles(world);
    world.store.failNext("store_failed");
    expect(await endOf(world, stream(text))).toMatchObject({ code: "store_failed" });
    expect(dataFiles(world)).toEqual(before);
    const other = stream(text.replace("[[1]]", "[[9]]"));
    expect(await endOf(world, other)).toMatchObject({ code: "input_changed" });
    expect(await endOf(world, stream(text))).toMatchObject({ counts: { completed: 3 } });
  });
});
