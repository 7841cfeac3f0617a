/**
 * What quotes and plans expect of items whose answers are checked.
 */
import { describe, expect, it } from "vitest";
import { loadValidators } from "../../../src/json_schema.ts";
import type { QuoteModel } from "../../../src/price/quote.ts";
import { openaiAnswer } from "../../../src/testing/index.ts";
import { INPUT, OUTPUT, World, type WorldOptions } from "../world.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const SCHEMA = { type: "object", required: ["sum"] };
const PRICES = { "alpha:*": { inputUsdPerMillion: 100, outputUsdPerMillion: 500 } };
const ITEMS = 100;
const LIMIT = 16; // of the items of `World.input`

async function quoted(world: World, options: object): Promise<QuoteModel> {
  const engine = await world.engine();
  const { models } = await world.settle(engine.quote(INPUT, options));
  await world.settle(engine.close());
  return models[0] as QuoteModel;
}

function worldOf(options: WorldOptions = {}): World {
  const world = new World({ ...options, config: { prices: PRICES } });
  world.input(ITEMS);
  return world;
}

describe("a quote of items that are checked", () => {
  it("expects the assumed share of further requests, and at most two for each item", async () => {
    const plain = await quoted(worldOf(), {});
    const checked = await quoted(worldOf(), { schema: SCHEMA });
    expect(plain).not.toHaveProperty("further_requests");
    expect(checked.further_requests).toEqual({ expected: 5, most: 200, basis: "assumed" });
    expect(checked.expected_output_tokens).toBe(Math.round(plain.expected_output_tokens * 1.05));
    expect(checked.expected_output_tokens_high).toBe(3 * ITEMS * LIMIT);
    const [most, expected] = [checked.billed_usd_high ?? 0, checked.billed_usd ?? 0];
    expect(expected).toBeGreaterThan(plain.billed_usd ?? 0);
    // Three requests at most, the second and the third with an answer and what is said of it.
    const inputTokens = checked.input_tokens / 1.05;
    expect(most).toBeGreaterThan((3 * inputTokens * 100 + 3 * ITEMS * LIMIT * 500) / 1e6);
  });

  it("has no more further requests than schemaTries allows", async () => {
    const two = await quoted(worldOf(), { schema: SCHEMA, schemaTries: 2 });
    expect(two.further_requests).toMatchObject({ most: ITEMS });
    const one = await quoted(worldOf(), { schema: SCHEMA, schemaTries: 1 });
    expect(one).not.toHaveProperty("further_requests");
  });

  it("counts an item with its own schema, and none with null", async () => {
    const world = worldOf();
    const lines = [{ schema: SCHEMA }, { schema: null }, {}].map((more, index) =>
      JSON.stringify({ key: `k${index}`, model: "alpha:m1", input: "hello", ...more }),
    );
    world.disk.put(INPUT, lines.join("\n"));
    expect((await quoted(world, {})).further_requests?.most).toBe(2);
    expect((await quoted(world, { schema: SCHEMA })).further_requests?.most).toBe(4);
  });

  it("expects what answers of the model were like, also in a later process", async () => {
    const world = worldOf({
      answer: (line, attempt) =>
        openaiAnswer(attempt === 1 && line % 2 === 0 ? "no" : '{"sum":1}', {
          inputTokens: 10,
          outputTokens: 5,
        }),
    });
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, schema: SCHEMA });
    await world.settle(run.finished);
    expect(world.sent).toHaveLength(1.5 * ITEMS);
    await world.settle(engine.close());
    const found = await quoted(world, { schema: SCHEMA });
    // 50 further requests of 100 items, and one of the 20 that are assumed.
    expect(found.further_requests).toMatchObject({ basis: "learnt", most: 2 * ITEMS });
    expect([42, 43]).toContain(found.further_requests?.expected);
    const plain = await quoted(world, {});
    const share = (found.billed_usd ?? 0) / (plain.billed_usd ?? 1);
    expect(share).toBeGreaterThan(51 / 120 + 1);
    expect(found.billed_usd_low).toBeLessThan(found.billed_usd ?? 0);
    expect(found.billed_usd_high).toBeGreaterThan(found.billed_usd ?? 0);
  });

  it("takes longer, and a plan costs more", async () => {
    const [plain, checked] = [await quoted(worldOf(), {}), await quoted(worldOf(), { schema: SCHEMA })];
    expect(checked.time.seconds).toBeGreaterThanOrEqual(plain.time.seconds);
    const world = worldOf();
    const engine = await world.engine();
    const [without, withIt] = await world.settle(
      Promise.all([engine.plan(INPUT, { sla: 60 }), engine.plan(INPUT, { sla: 60, schema: SCHEMA })]),
    );
    await world.settle(engine.close());
    expect(withIt.expected_usd).toBeGreaterThan(without.expected_usd);
  });

  it("is refused with a schema that cannot be used", async () => {
    const world = worldOf();
    const engine = await world.engine();
    const call = world.settle(engine.quote(INPUT, { schema: { type: "objct" } }));
    await expect(call).rejects.toMatchObject({ code: "invalid_config" });
    await world.settle(engine.close());
  });
});
