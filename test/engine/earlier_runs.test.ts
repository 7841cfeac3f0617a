/**
 * Runs that an earlier version of perigee began, on this one.
 */
import { describe, expect, it } from "vitest";
import { LineDigests } from "../../src/engine/files/line_digests.ts";
import { decodeBody, encodeBody } from "../../src/engine/files/task_body.ts";
import { endOf, finish, killedAfter } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

const UPDATE = { out: OUTPUT, update: true };
const PRICES = { "*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } };

const lines = (...numbers: readonly number[]): string =>
  numbers.map((each) => itemLine(each, "alpha:m1", `k${each % 100}`)).join("");

/** Bytes of a journal's step before its rows, and the same up to version 5; of a row of a request, and the same up to version 2. */
const [HEADER_BYTES, OLD_HEADER_BYTES, INTENT_BYTES, OLD_INTENT_BYTES] = [104, 96, 36, 28];

/** A step of nothing but requests as version 2 wrote it: without what they may cost. */
function oldStep(records: Uint8Array): Uint8Array {
  const rowsBytes = Buffer.from(records).readUInt32LE(32);
  const rows = [];
  for (let at = 0; at < rowsBytes; at += INTENT_BYTES)
    rows.push(records.subarray(HEADER_BYTES + at, HEADER_BYTES + at + OLD_INTENT_BYTES));
  const old = Buffer.concat([
    records.subarray(0, OLD_HEADER_BYTES),
    ...rows,
    records.subarray(HEADER_BYTES + rowsBytes),
  ]);
  old[0] = 2;
  old.writeUInt32LE((rowsBytes / INTENT_BYTES) * OLD_INTENT_BYTES, 32);
  return old;
}

/** A run that the first version was killed in while its requests were under way. */
async function killedBefore(world: World): Promise<void> {
  await killedAfter(world, 1_000);
  const store = await world.store.open();
  const task = (await store.tasks({ limit: 1 }))[0];
  if (task === undefined) throw new Error("the run is not stored");
  const entries = [];
  for await (const { taskId, wallMs, records } of store.journal(task.id))
    entries.push({ taskId, wallMs, records: oldStep(records) });
  await store.deleteTask(task.id);
  await store.putTask(task);
  await store.append(entries);
  await store.close();
}

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

it("The summary of a run that finished before amounts were apart says what was billed, and what is not known.", async () => {
  const world = new World({ config: { prices: PRICES } });
  world.disk.put(INPUT, lines(1, 2));
  const whole = await finish(world);
  const store = await world.store.open();
  const task = await store.task(whole.task_id);
  if (task === undefined) throw new Error("the run is not stored");
  const { summary, ...body } = decodeBody(task.body);
  const { warnings, held, cost, usage, ...rest } = whole;
  const { billed_usd, ambiguous_usd, ...amounts } = cost;
  const { cache_write_tokens, ...tokens } = usage;
  const old = { ...rest, cost: { ...amounts, saved_usd: 0.1 }, usage: { ...tokens, ambiguous_attempts: 1 } };
  await store.putTask({ ...task, body: encodeBody({ ...body, summary: old as never }) });
  await store.close();
  const engine = await world.engine();
  const run = engine.run(INPUT, { out: OUTPUT });
  const again = await world.settle(run.finished);
  expect(run.progress()).toMatchObject({ state: "done", billedUsd: cost.list_usd, ambiguousUsd: 0 });
  await world.settle(engine.close());
  expect(again).toEqual({
    ...whole,
    usage: { ...usage, ambiguous_attempts: 1 },
    cost: { ...cost, billed_usd: cost.list_usd, is_estimated: true },
    requests_sent: 0,
    elapsed_ms: expect.any(Number),
  });
});

describe("requests under way when the first version was killed", () => {
  it("are in doubt with what was reserved for them, also after further kills", async () => {
    const world = new World({ config: { prices: PRICES, maxInFlight: 3 }, answer: () => "hang" });
    world.disk.put(INPUT, lines(1, 2, 3));
    await killedBefore(world);
    expect(world.sent).toHaveLength(3);
    await killedAfter(world, 1_000);
    expect(world.sent).toHaveLength(6);
    world.answer = (line) => ok(line);
    const { cost, usage } = await finish(world);
    expect(usage).toMatchObject({ attempts: 9, ambiguous_attempts: 6 });
    const whole = new World({ config: { prices: PRICES, maxInFlight: 3 }, answer: () => "hang" });
    whole.disk.put(INPUT, lines(1, 2, 3));
    await killedAfter(whole, 1_000);
    whole.answer = (line) => ok(line);
    const once = (await finish(whole)).cost; // one kill, by this version
    expect(once.ambiguous_usd).toBeGreaterThan(0);
    expect(cost.billed_usd).toBe(once.billed_usd);
    expect(cost.is_estimated).toBe(true);
    expect(cost.ambiguous_usd).toBeCloseTo(2 * once.ambiguous_usd, 12);
  });
});
