/**
 * Inputs that are cut, emptied, rewritten or touched while they are read: no line has an error for it once the file is back.
 */
import { describe, expect, it } from "vitest";
import type { DiskFile } from "../../src/disk.ts";
import { failure, finish } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, World } from "./world.ts";

const COUNT = 300;
const OPTIONS = { out: OUTPUT };
const TEXT = Array.from({ length: COUNT }, (_, index) => itemLine(index + 1)).join("");
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A run whose input arrives 4 KiB every 50 ms; `at` changes the file when 2,000 bytes more than a block were read. */
async function changedBy(
  text: string,
  change: (file: DiskFile, world: World) => Promise<void>,
  options: object = {},
) {
  const world = new World({ config: { maxInFlight: 2 } });
  world.disk.put(INPUT, text);
  const open = world.disk.open.bind(world.disk);
  world.disk.open = async (path, mode) => {
    const file = await open(path, mode);
    const read = async (into: Uint8Array, position: number): Promise<number> => {
      await world.clock.sleep(50);
      return file.read(into.subarray(0, 4_096), position);
    };
    return path === INPUT && mode === "read" ? { ...file, read } : file;
  };
  const engine = await world.engine();
  const run = engine.run(INPUT, { ...OPTIONS, ...options });
  await world.settle(run.opened);
  await world.clock.advance(120); // two reads were made, the third is under way
  await change(await open(INPUT, "write"), world);
  return { world, engine, run };
}

const CHANGES: Readonly<Record<string, (file: DiskFile, world: World) => Promise<void>>> = {
  "is cut in a line": (file) => file.truncate(9_001),
  "is emptied": (file) => file.truncate(0),
  "is overwritten within a line": (file) => file.write(bytesOf('{"torn'), 9_001),
  "is rewritten, and empty for a while": async (file, world) => {
    await file.truncate(9_001);
    await world.clock.advance(200);
    await file.write(bytesOf(TEXT), 0);
  },
};

describe("an input that while it is read", () => {
  it.each(Object.keys(CHANGES))("%s has no line in error once it is put back", async (name) => {
    const { world, engine, run } = await changedBy(TEXT, CHANGES[name] as (file: DiskFile) => Promise<void>);
    expect(await failure(world, run.finished)).toMatchObject({ code: "input_changed" });
    expect(world.output().filter(({ error }) => error !== undefined)).toEqual([]);
    await world.settle(engine.close());
    world.disk.put(INPUT, TEXT);
    expect(await finish(world, OPTIONS)).toMatchObject({ status: "completed", counts: { completed: COUNT } });
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(COUNT);
  });

  it("is cut when its time is over has no line in error, and none that is left out", async () => {
    const { world, engine, run } = await changedBy(TEXT, async () => undefined, { sla: 1 });
    world.answer = () => "hang";
    const file = await world.disk.open(INPUT, "write");
    await world.clock.advance(59_000);
    await file.truncate(9_001);
    expect(await failure(world, run.finished)).toMatchObject({ code: "input_changed" });
    expect(world.output().filter(({ error }) => error?.code === "invalid_json")).toEqual([]);
    await world.settle(engine.close());
    world.disk.put(INPUT, TEXT);
    const { counts } = await finish(world, { ...OPTIONS, sla: 1 });
    expect(counts.completed + counts.expired).toBe(COUNT);
  });

  it("is touched, or replaced by another file, is read to its end, with the errors of its own lines", async () => {
    const broken = TEXT.replace(itemLine(90), "broken\n");
    for (const replaced of [false, true]) {
      const { run, world } = await changedBy(broken, async (file, { disk }) => {
        if (replaced) await disk.remove(INPUT);
        else await file.write(bytesOf("{"), 0);
      });
      const summary = await world.settle(run.finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: COUNT - 1, failed: 1 } });
      expect(world.output().find(({ error }) => error !== undefined)?.error).toMatchObject({
        code: "invalid_json",
        line: 90,
      });
    }
  });
});
