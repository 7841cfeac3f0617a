/**
 * Runs that an earlier version of perigee began, on this one.
 */
import { describe, expect, it } from "vitest";
import { LineDigests } from "../../src/engine/files/line_digests.ts";
import { decodeBody } from "../../src/engine/files/task_body.ts";
import { endOf, finish } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, World } from "./world.ts";

const UPDATE = { out: OUTPUT, update: true };

const lines = (...numbers: readonly number[]): string =>
  numbers.map((each) => itemLine(each, "alpha:m1", `k${each % 100}`)).join("");

/** A finished run as the first version left it: no digests of its lines. */
async function leftBefore(input: string): Promise<World> {
  const world = new World();
  world.disk.put(INPUT, input);
  const { task_id } = await finish(world);
  const store = await world.store.open();
  const task = await store.task(task_id);
  await LineDigests.remove(store, task_id, decodeBody(task?.body ?? "").inputChecksum ?? "");
  await store.close();
  return world;
}

describe("an update of a run without digests of its lines", () => {
  it("requests only what was added after the lines of then", async () => {
    const world = await leftBefore(lines(1, 2, 3));
    world.disk.put(INPUT, lines(1, 2, 3, 4));
    expect(await finish(world, UPDATE)).toMatchObject({
      requests_sent: 1,
      items: 4,
      counts: { completed: 4 },
    });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3, 4]);
    world.disk.put(INPUT, lines(104, 1, 2, 3));
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 1, items: 4 });
  });

  it.each([
    { name: "ended by what was added", rest: `\n${lines(3)}`, sent: [3] },
    { name: "continued by it", rest: ` \n${lines(3)}`, sent: [2, 3] },
  ])("compares a last line without a line end: $name", async ({ rest, sent }) => {
    const world = await leftBefore(lines(1, 2).trimEnd());
    world.disk.put(INPUT, lines(1, 2).trimEnd() + rest);
    expect(await finish(world, UPDATE)).toMatchObject({ items: 3, counts: { completed: 3 } });
    expect(world.sent.slice(2).map(({ line }) => line)).toEqual(sent);
  });

  it.each([
    { name: "a changed line", input: lines(1, 102, 3) },
    { name: "a line before the others", input: lines(4, 1, 2, 3) },
    { name: "fewer lines", input: lines(1, 2) },
  ])("sends nothing where what was added is not known: $name", async ({ input }) => {
    const world = await leftBefore(lines(1, 2, 3));
    const before = world.disk.text(OUTPUT);
    world.disk.put(INPUT, input);
    expect(await endOf(world, INPUT, UPDATE)).toMatchObject({
      code: "input_changed",
      message:
        "an earlier version of perigee began the run of /out.jsonl and kept no record of each line, so that it is not known which lines of /in.jsonl changed: put the old lines back as they were and add new ones only after them, or start over with another output, which requests every line",
    });
    expect(world.sent).toHaveLength(3);
    expect(world.disk.text(OUTPUT)).toBe(before);
    world.disk.put(INPUT, lines(1, 2, 3));
    expect(await finish(world)).toMatchObject({ requests_sent: 0, items: 3 });
  });
});

it("An update of a run that is named by its id requests only what changed.", async () => {
  const world = new World();
  world.disk.put(INPUT, lines(1, 2, 3));
  await finish(world, { id: "nightly" });
  world.disk.put(INPUT, lines(1, 102, 3));
  expect(await finish(world, { id: "nightly", update: true })).toMatchObject({ requests_sent: 1, items: 3 });
});
