import { describe, expect, it } from "vitest";
import type { OutcomeRecord, Step } from "../../src/engine/journal/journal.ts";
import type { UsedPrice } from "../../src/price/used_prices.ts";
import { jsonAnswer } from "../../src/testing/index.ts";
import { INPUT, itemLine, OUTPUT, ok, World } from "./world.ts";

const CONFIGURED = { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" };

describe("the summary of a run", () => {
  it("counts an attempt that did not leave this machine as an attempt, and not as a request", async () => {
    const world = new World({
      answer: (line, attempt) =>
        line === 1 && attempt <= 3 ? { ok: false, failure: "not_sent", message: "refused" } : ok(line),
    });
    world.input(2);
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ requests_sent: 2, usage: { attempts: 5, ambiguous_attempts: 0 } });
    expect(world.output()).toMatchObject([
      { key: "k2", attempts: 1 },
      { key: "k1", attempts: 4 },
    ]);
    await world.settle(engine.close());
  });

  it("names the source and the day of the price of each model that was sent", async () => {
    const openai = { baseUrl: "http://openai.test/v1", key: "k" };
    const alpha = { baseUrl: "http://alpha.test/v1", key: "k" };
    const world = new World({
      config: { providers: { openai, alpha }, prices: { "alpha:priced*": CONFIGURED } },
    });
    const models = ["openai:gpt-6-sol", "alpha:priced-1", "alpha:m1"];
    world.input(6, (line) => models[line % 3] as string);
    const engine = await world.engine();
    const { cost } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(new Set(cost.prices)).toEqual(
      new Set([
        {
          model: "openai:gpt-6-sol",
          source: "genai-prices 0.1.8",
          as_of: "2026-09-23",
          matched_model: "gpt-6-sol",
          is_exact: true,
        },
        {
          model: "alpha:priced-1",
          source: "config",
          as_of: "2026-11-01",
          matched_model: "alpha:priced*",
          is_exact: true,
        },
        { model: "alpha:m1", source: null, as_of: null, matched_model: null, is_exact: false },
      ]),
    );
    expect(cost.price_source.split("; ").sort()).toEqual([
      "config, 2026-11-01",
      "genai-prices 0.1.8, 2026-09-23",
      "no known price",
    ]);
  });

  it("keeps its prices when the finished run is called again", async () => {
    const world = new World({ config: { prices: { "alpha:*": CONFIGURED } } });
    world.input(2);
    const engine = await world.engine();
    const { cost } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(engine.close());
    const again = await world.engine();
    expect((await world.settle(again.run(INPUT, { out: OUTPUT }).finished)).cost).toEqual(cost);
    expect(cost.price_source).toBe("config, 2026-11-01");
  });

  it("names the prices of the whole task after it was continued, also of models that were done before", async () => {
    const world = new World({ config: { prices: { "alpha:*": CONFIGURED }, maxInFlight: 1 } });
    world.input(6, (line) => (line <= 3 ? "alpha:m1" : "beta:m2"));
    world.answer = (line) => (line > 3 ? "hang" : ok(line));
    const engine = await world.engine();
    const first = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(200);
    first.stop();
    expect((await world.settle(first.finished)).cost.price_source).toBe("config, 2026-11-01");
    await world.settle(engine.close());
    world.answer = (line) => ok(line);
    const again = (await world.engine()).run(INPUT, { out: OUTPUT });
    const { cost, counts } = await world.settle(again.finished);
    expect(counts.completed).toBe(6);
    expect(cost.prices.map(({ model, source }) => [model, source])).toEqual([
      ["alpha:m1", "config"],
      ["beta:m2", null],
    ]);
    expect(cost.price_source).toBe("config, 2026-11-01; no known price");
  });

  it("names no source when there was nothing to price", async () => {
    const world = new World();
    world.disk.put(INPUT, "no json\n");
    const engine = await world.engine();
    const { cost } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(cost).toMatchObject({ prices: [], price_source: "nothing to price" });
  });
});

describe("a record of the journal", () => {
  /** Every outcome with the price of its number. */
  function reckoned(steps: readonly Step[]): [OutcomeRecord, UsedPrice | undefined][] {
    const prices = steps.flatMap((step) => step.prices);
    return steps.flatMap((step) => step.outcomes).map((one) => [one, prices[one.priceNumber - 1]]);
  }

  it("names the source of its price, also when that changes between two calls", async () => {
    const steps: Step[] = [];
    const options = { out: OUTPUT, onStep: (_: number, step: Step) => void steps.push(step) };
    const world = new World({ config: { prices: { "alpha:*": CONFIGURED }, maxInFlight: 1 } });
    world.input(4);
    world.answer = (line) => (line > 2 ? "hang" : ok(line));
    const engine = await world.engine();
    const first = engine.run(INPUT, options);
    await world.clock.advance(100);
    first.stop();
    await world.settle(first.finished);
    await world.settle(engine.close());

    world.reconfigure({
      prices: { "alpha:*": { ...CONFIGURED, asOf: "2026-11-15", outputUsdPerMillion: 4 } },
    });
    world.answer = (line) => ok(line);
    steps.length = 0;
    await world.settle((await world.engine()).run(INPUT, options).finished);
    const price = { model: "alpha:m1", source: "config", matched_model: "alpha:*", is_exact: true };
    expect(reckoned(steps).map(([{ line, listUsd }, used]) => [line, listUsd * 1e6, used])).toEqual([
      [1, 20, { ...price, as_of: "2026-11-01" }],
      [2, 20, { ...price, as_of: "2026-11-01" }],
      [3, 30, { ...price, as_of: "2026-11-15" }],
      [4, 30, { ...price, as_of: "2026-11-15" }],
    ]);
  });

  it("of a provider that says what it charged names the provider, of an unsent item no price", async () => {
    const steps: Step[] = [];
    const openrouter = { baseUrl: "http://openrouter.test/v1", key: "k" };
    const world = new World({ config: { providers: { openrouter } } });
    world.disk.put(INPUT, `${itemLine(1, "openrouter:a/b")}no json\n`);
    const choices = [{ message: { content: "answer" }, finish_reason: "stop" }];
    const usage = { prompt_tokens: 10, completion_tokens: 5, cost: 0.25 };
    world.answer = () => jsonAnswer(200, { choices, usage });
    const run = (await world.engine()).run(INPUT, {
      out: OUTPUT,
      onStep: (_, step) => void steps.push(step),
    });
    const { cost } = await world.settle(run.finished);
    expect(reckoned(steps).map(([{ status, listUsd }, used]) => [status, listUsd, used?.source])).toEqual(
      expect.arrayContaining([
        ["completed", 0.25, "provider"],
        ["failed", 0, undefined],
      ]),
    );
    expect(cost.price_source).toBe("charged by the provider");
  });
});
