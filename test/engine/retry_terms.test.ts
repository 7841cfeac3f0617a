/**
 * `engine.retry`: lines that ended in an error run again on the terms of the last call of their run, known by its id.
 */
import { describe, expect, it } from "vitest";
import { ENGINE_RUN_OPTIONS } from "../../src/engine/call_schemas.ts";
import { retryOptions } from "../../src/engine/submissions/retry.ts";
import { loadValidators } from "../../src/json_schema.ts";
import { RATE_CARD } from "../../src/price/factor.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { finish } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const PRICES = { "*": { inputUsdPerMillion: 100, outputUsdPerMillion: 1_000, asOf: "2026-11-01" } };

/** Options that a retry must repeat, with values that are no defaults. */
const REPEATED = {
  sla: 90,
  out: OUTPUT,
  id: "mine",
  ordered: true,
  format: "perigee",
  fields: ["usage", "body"],
  hedge: true,
  lanes: { deny: ["flex"] },
  policy: "balanced",
  minOnTime: 0.9,
  maxCostUsd: 0.5,
  maxCostUnbounded: true,
  cap: { name: "team", usd: 7 },
  volumeTokens: 123_456,
  rateCard: { ...RATE_CARD, standard: { ...RATE_CARD.standard, floor: 0.25 } },
  model: "beta:m9",
  waitMs: 1_234,
  finish: true,
  project: "p1",
  weight: 3,
  cache: { dir: "/cache", ttl: "7d" },
  coalesce: true,
  schema: { type: "object" },
  schemaTries: 2,
} as const;

/** Options that say nothing of a later call: listeners, and which lines run. A pilot is accepted once. */
const OF_ONE_CALL = [
  "accepted",
  "caps",
  "detach",
  "receipts",
  "standIn",
  "keepsDamage",
  "onHeld",
  "onMissing",
  "onPilot",
  "onProgress",
  "onStep",
  "onWarning",
  "pilot",
  "progressEveryMs",
  "prune",
  "retryFailed",
  "signal",
  "skip",
  "takenEarlier",
  "update",
];

/** A run whose lines were all refused, as its last call left it. */
async function refused(options: object): Promise<{ readonly world: World; readonly taskId: string }> {
  const world = new World({ config: { prices: PRICES } });
  world.openAnswers = async () => ({
    find: async (keys) => Array.from({ length: keys.byteLength / 32 }, () => undefined),
    keep: () => undefined,
    close: async () => undefined,
  });
  world.disk.put(INPUT, [1, 2, 3, 4].map((line) => itemLine(line)).join(""));
  world.answer = () => status(400, "invalid_request_error");
  const { task_id } = await finish(world, options);
  return { world, taskId: task_id };
}

describe("engine.retry", () => {
  it("knows source and terms by the id of the run", async () => {
    const world = new World();
    const lines = [1, 2, 3, 4, 5, 6].map((line) => (line === 4 ? "broken\n" : itemLine(line)));
    world.disk.put(INPUT, lines.join(""));
    world.answer = (line) => (line === 2 ? status(400, "content_filter") : line === 5 ? "hang" : ok(line));
    await finish(world, { ...OPTIONS, sla: 1, model: "beta:m9" });
    world.answer = (line) => ok(line);
    const engine = await world.engine();
    const { task_id } = await world.settle(
      engine.run(INPUT, { ...OPTIONS, sla: 1, model: "beta:m9" }).finished,
    );
    const run = await world.settle(engine.retry(task_id));
    expect(await world.settle(run.finished)).toMatchObject({ task_id, counts: { completed: 4 } });
    expect(world.sent.at(-1)).toMatchObject({ line: 5, model: "m9" });
    const again = await world.settle(engine.retry(task_id, { codes: ["invalid_request", "filtered"] }));
    expect(await world.settle(again.finished)).toMatchObject({ task_id, counts: { completed: 5 } });
    await expect(engine.retry("nobody")).rejects.toMatchObject({ code: "not_found" });
    await world.settle(engine.close());
  });

  it("repeats every option of the last call but those that are of one call", async () => {
    expect([...Object.keys(REPEATED), ...OF_ONE_CALL].sort()).toEqual(Object.keys(ENGINE_RUN_OPTIONS).sort());
    await loadValidators(); // it takes real time
    const { world, taskId } = await refused({ ...OPTIONS, id: "mine", ordered: true, maxCostUsd: 99 });
    await finish(world, { ...REPEATED, retryFailed: ["invalid_request"] });
    const { engine, core } = await world.opened();
    const lists = { has: async () => false };
    const options = await world.settle(
      retryOptions(core.storage.store, lists, taskId, { codes: ["filtered"] }),
    );
    const { volumeTokens: _ofTheTask, format: _usual, ...others } = REPEATED;
    expect(options).toEqual({ ...others, source: INPUT, retryFailed: ["filtered"] });
    const other = await world.settle(retryOptions(core.storage.store, lists, taskId, { maxCostUsd: 2 }));
    expect(other).toMatchObject({ maxCostUsd: 2, cap: REPEATED.cap, retryFailed: true });
    await world.settle(engine.close());
  });

  it.each([
    ["its own", { maxCostUsd: 0.05 }],
    ["one that it shares", { cap: { name: "team", usd: 0.05 } }],
  ])("does not spend more than %s cap of the last call allows", async (_, cap) => {
    const { world, taskId } = await refused({ ...OPTIONS, ...cap });
    world.answer = (line) => openaiAnswer(`answer ${line}`, { inputTokens: 10, outputTokens: 16 });
    const engine = await world.engine();
    const run = await world.settle(engine.retry(taskId, { codes: ["invalid_request"] }));
    const { reason, cost } = await world.settle(run.finished);
    expect(reason).toBe("cap_reached");
    expect(cost.billed_usd).toBeLessThanOrEqual(0.05);
    const more = await world.settle(engine.retry(taskId, { codes: ["invalid_request"], maxCostUsd: 1 }));
    const after = await world.settle(more.finished);
    expect(after.counts.completed).toBe("maxCostUsd" in cap ? 4 : 2);
    await world.settle(engine.close());
  });

  it("keeps a cap that only a call of the finished run named", async () => {
    const { world, taskId } = await refused(OPTIONS);
    await finish(world, { ...OPTIONS, maxCostUsd: 0.05 });
    const { core } = await world.opened();
    const options = await world.settle(
      retryOptions(core.storage.store, { has: async () => false }, taskId, {}),
    );
    expect(options.maxCostUsd).toBe(0.05);
  });

  it("repeats a wait without end", async () => {
    const { world, taskId } = await refused({ ...OPTIONS, waitMs: Number.POSITIVE_INFINITY });
    const { core } = await world.opened();
    const options = await world.settle(
      retryOptions(core.storage.store, { has: async () => false }, taskId, {}),
    );
    expect(options.waitMs).toBeGreaterThan(1e300);
  });

  it("does not continue after a pilot that was declined", async () => {
    const { world, taskId } = await refused({ ...OPTIONS, pilot: 2, onPilot: () => false });
    const engine = await world.engine();
    const message = /the pilot of run .* was not accepted: call run with onPilot again/;
    await expect(world.settle(engine.retry(taskId))).rejects.toThrow(message);
    await world.settle(engine.close());
  });
});
