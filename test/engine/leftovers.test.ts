/**
 * What a run leaves in the data folder: what it needs to go on, and once it is finished nothing but its answers.
 */
import { describe, expect, it } from "vitest";
import { dataFiles, finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, openFiles, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const ARRAY = "/in.json";
const LINES = [1, 2, 3].map((line) => itemLine(line));
const KEYS = ["k1", "k2", "k3"];

function inputs(world: World): Record<string, () => string | Iterable<Uint8Array>> {
  world.disk.put(ARRAY, `[${LINES.join(",")}]`);
  world.input(3);
  return { file: () => INPUT, array: () => ARRAY, stream: () => [Buffer.from(LINES.join(""))] };
}

describe.each(["file", "array", "stream"])("a finished run of a %s", (kind) => {
  it.each([false, true])(
    "does not change its output, and is recognised without the rest: ordered %s",
    async (ordered) => {
      const world = new World();
      const source = inputs(world)[kind] as () => string | Iterable<Uint8Array>;
      const open = openFiles(world.disk);
      await finish(world, { ...OPTIONS, ordered }, source());
      expect(dataFiles(world)).toEqual([]);
      const before = world.disk.text(OUTPUT);
      expect(await finish(world, { ...OPTIONS, ordered }, source())).toMatchObject({
        status: "completed",
        counts: { completed: 3 },
        requests_sent: 0,
      });
      const engine = await world.engine();
      const keys: (string | null)[] = [];
      const read = (async () => {
        for await (const line of engine.run(source(), { ...OPTIONS, ordered })) keys.push(line.key);
      })();
      await world.settle(read);
      await world.settle(engine.close());
      expect(keys.sort()).toEqual(KEYS);
      expect(world.disk.text(OUTPUT)).toBe(before);
      expect(dataFiles(world)).toEqual([]);
      expect(open).toEqual([]);
      expect(world.sent).toHaveLength(3);
    },
  );

  it("keeps the output that the caller named no place for", async () => {
    const world = new World();
    const source = inputs(world)[kind] as () => string | Iterable<Uint8Array>;
    const { output } = await finish(world, { id: "x", ordered: true }, source());
    expect(dataFiles(world)).toEqual([output]);
    expect(world.output(output).map(({ key }) => key)).toEqual(KEYS);
  });

  it("removes what it could not remove at its end when it is called again", async () => {
    const world = new World();
    const source = inputs(world)[kind] as () => string | Iterable<Uint8Array>;
    const remove = world.disk.remove.bind(world.disk);
    world.disk.remove = () => Promise.reject(Object.assign(new Error("EIO"), { code: "EIO" }));
    const engine = await world.engine();
    const unordered = { status: "completed", counts: { completed: 3 } };
    expect(await world.settle(engine.run(source(), OPTIONS).finished)).toMatchObject(unordered);
    await world.settle(engine.close());
    world.disk.remove = remove;
    await finish(world, OPTIONS, source());
    expect(dataFiles(world)).toEqual([]);
  });

  it("that was killed before it could remove anything removes it when it is called again", async () => {
    const world = new World();
    const source = inputs(world)[kind] as () => string | Iterable<Uint8Array>;
    const process = mortal(world.clock);
    const engine = await world.engine(process.clock);
    const remove = world.disk.remove.bind(world.disk);
    world.disk.remove = () => new Promise(() => undefined);
    void engine.run(source(), OPTIONS).finished;
    await world.clock.advance(1_000);
    process.kill();
    world.kill({ powerCut: true });
    world.disk.remove = remove;
    expect(await finish(world, OPTIONS, source())).toMatchObject({ status: "completed", requests_sent: 0 });
    expect(dataFiles(world)).toEqual([]);
  });
});

it("a run that ended what was held leaves no note of what held it", async () => {
  const world = new World();
  world.disk.put(INPUT, [itemLine(1), itemLine(2, "nobody:m1")].join(""));
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, { ...OPTIONS, finish: true }).finished);
  expect(summary).toMatchObject({ status: "completed", counts: { completed: 1, failed: 1 } });
  await world.clock.advance(5_000);
  expect(dataFiles(world)).toEqual([]);
  await world.settle(engine.close());
});

describe("a finished run whose input was touched and holds the same", () => {
  it.each([INPUT, ARRAY])(
    "is recognised by its content, also when its answers were put in order: %s",
    async (path) => {
      const world = new World();
      inputs(world);
      const options = { ...OPTIONS, ordered: true };
      const first = await finish(world, options, path);
      const before = world.disk.text(OUTPUT);
      await world.clock.advance(5_000);
      inputs(world);
      const open = openFiles(world.disk);
      expect(await finish(world, options, path)).toMatchObject({
        ...first,
        requests_sent: 0,
        elapsed_ms: expect.any(Number),
      });
      expect(world.disk.text(OUTPUT)).toBe(before);
      expect(dataFiles(world)).toEqual([]);
      expect(open).toEqual([]);
      const opened = world.disk.operationsDone;
      await finish(world, options, path);
      expect(world.disk.operationsDone - opened).toBeLessThan(9); // its new state was stored; its output is read
    },
  );
});

describe("a run that was stopped", () => {
  it("keeps what it needs to go on", async () => {
    for (const kind of ["array", "stream"]) {
      const world = new World({ config: { maxInFlight: 1 } });
      const source = inputs(world)[kind] as () => string | Iterable<Uint8Array>;
      const engine = await world.engine();
      const run = engine.run(source(), { ...OPTIONS, ordered: true });
      await world.clock.advance(15);
      run.stop();
      await world.settle(run.finished);
      expect(dataFiles(world).length, kind).toBe(2);
      expect(await world.settle(engine.run(source(), { ...OPTIONS, ordered: true }).finished)).toMatchObject({
        counts: { completed: 3 },
      });
      expect(world.sent, kind).toHaveLength(3);
      expect(dataFiles(world), kind).toEqual([]);
      await world.settle(engine.close());
    }
  });
});
