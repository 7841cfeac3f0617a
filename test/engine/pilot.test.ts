/** Pilots: the first items of a run, the quote of the rest, and what becomes of both through stops and kills. */
import { describe, expect, it } from "vitest";
import type { EngineRunOptions } from "../../src/engine/runs/run_open.ts";
import { SCORES_MIN } from "../../src/price/calibration.ts";
import type { PlannedQuote } from "../../src/price/planned_quote.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const PRICES = { "alpha:*": { inputUsdPerMillion: 0, outputUsdPerMillion: 1_000_000, asOf: "2026-11-01" } };

/** Options of a run with a pilot of 50, and the quotes that it reported; it continues if `isOn`. */
function piloted(isOn: boolean | (() => Promise<boolean>) = true): {
  readonly options: EngineRunOptions;
  readonly quotes: PlannedQuote[];
} {
  const quotes: PlannedQuote[] = [];
  const onPilot = (rest: PlannedQuote): boolean | Promise<boolean> => {
    quotes.push(rest);
    return typeof isOn === "boolean" ? isOn : isOn();
  };
  return { options: { out: OUTPUT, pilot: 50, onPilot }, quotes };
}

/** Lines that were sent, each at its first time. */
const sentLines = (world: World): number[] => [...new Set(world.sent.map(({ line }) => line))];
const upTo = (last: number): number[] => Array.from({ length: last }, (_, at) => at + 1);

describe("a pilot", () => {
  it("answers the first 50 items, quotes the rest by them, and goes on", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(300);
    const { options, quotes } = piloted(() => {
      expect([...sentLines(world)].sort((a, b) => a - b)).toEqual(upTo(50));
      expect(world.output()).toHaveLength(50);
      return Promise.resolve(true);
    });
    const summary = await finish(world, options);
    expect(quotes).toHaveLength(1);
    expect(quotes[0]).toMatchObject({ items: 250, expected_output_tokens: 1_250, billed_usd: 1_250 });
    expect(quotes[0]?.models[0]).toMatchObject({ learnt_answers: 50 });
    expect(summary).toMatchObject({
      status: "completed",
      items: 300,
      requests_sent: 300,
      cost: { billed_usd: 1_500 },
    });
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(300);
  });

  it("keeps what was quoted beside what it took, and quotes later by how far that was off", async () => {
    const lengths = (line: number): number => (line <= 50 ? 5 : 6);
    const answer = (line: number) => openaiAnswer("x", { inputTokens: 3, outputTokens: lengths(line) });
    const world = new World({ config: { prices: PRICES }, answer });
    world.input(150);
    let later: PlannedQuote | undefined;
    for (let run = 0; run < SCORES_MIN; run += 1) {
      const { options, quotes } = piloted();
      const { quoted } = await finish(world, { ...options, out: `/out-${run}.jsonl`, id: `run ${run}` });
      const [rest] = quotes;
      expect(quoted).toMatchObject({
        basis: rest?.basis,
        billed_usd: rest?.billed_usd,
        billed_usd_low: rest?.billed_usd_low,
        billed_usd_high: rest?.billed_usd_high,
        actual_usd: 600,
        actual_seconds: expect.any(Number),
      });
      later = rest;
    }
    expect(later).toMatchObject({ calibrated_by: 0 });
    const engine = await world.engine();
    const quote = await world.settle(engine.quote(INPUT));
    await world.settle(engine.close());
    expect(quote).toMatchObject({ calibrated_by: SCORES_MIN, price_changes: [] });
    const { billed_usd: expected, billed_usd_high: high, models } = quote;
    expect(models[0]?.billed_usd_high).toBe(high);
    expect(high / expected).not.toBeCloseTo((later?.billed_usd_high ?? 0) / (later?.billed_usd ?? 1), 3);
    expect(quote.finish.late_seconds).toBeGreaterThanOrEqual(quote.finish.expected_seconds ?? 0);
  });

  it("stops when its caller says so; the same call asks again and sends nothing again", async () => {
    const world = new World();
    world.input(300);
    const first = piloted(false);
    const stopped = await finish(world, first.options);
    expect(stopped).toMatchObject({
      status: "stopped",
      reason: "onPilot declined to continue after the pilot",
    });
    expect(stopped.counts).toMatchObject({ submitted: 250, completed: 50 });
    expect(world.sent).toHaveLength(50);
    const second = piloted();
    await finish(world, second.options);
    expect(second.quotes.map(({ items }) => items)).toEqual([250]);
    expect([...sentLines(world)].sort((a, b) => a - b)).toEqual(upTo(300));
    expect(world.sent).toHaveLength(300);
  });

  it("is not asked about twice when its caller let it go on, through kills", async () => {
    const world = new World({ latencyMs: 500 });
    world.input(3_000);
    const first = piloted();
    const process = mortal(world.clock);
    const run = (await world.engine(process.clock)).run(INPUT, first.options);
    run.finished.catch(() => undefined);
    await world.clock.advance(2_500);
    expect(first.quotes).toHaveLength(1);
    process.kill();
    world.kill();
    const second = piloted(false);
    expect(await finish(world, second.options)).toMatchObject({ status: "completed", items: 3_000 });
    expect(second.quotes).toEqual([]);
  });

  it("goes on with what a kill has left of it, and asks once more when it was not answered", async () => {
    const world = new World({
      answer: (line) => (line > 20 ? { afterMs: 60_000, result: ok(line) } : ok(line)),
    });
    world.input(300);
    const first = piloted();
    const process = mortal(world.clock);
    (await world.engine(process.clock)).run(INPUT, first.options).finished.catch(() => undefined);
    await world.clock.advance(10_000);
    process.kill();
    world.kill();
    expect(world.output()).toHaveLength(20);
    const second = piloted(() => {
      expect(sentLines(world)).toHaveLength(50);
      return Promise.resolve(true);
    });
    await finish(world, second.options);
    expect([first.quotes.length, second.quotes.length]).toEqual([0, 1]);
    expect(new Set(world.output().map(({ key }) => key)).size).toBe(300);
  });

  it("counts lines that end without a request, and quotes those that are left as faulty", async () => {
    const world = new World();
    const lines = upTo(200).map((line) => (line % 4 === 0 ? "no json\n" : itemLine(line)));
    world.disk.put(INPUT, `\n${lines.join("")}`);
    const { options, quotes } = piloted();
    const summary = await finish(world, options);
    expect(quotes[0]?.items).toBe(100);
    expect(quotes[0]?.rejected_lines).toBeGreaterThan(30);
    expect(summary).toMatchObject({ items: 200, counts: { completed: 150, failed: 50 } });
    expect(world.output()).toHaveLength(200);
  });

  it("asks nothing when nothing is left", async () => {
    const world = new World();
    world.input(50);
    const { options, quotes } = piloted(false);
    expect(await finish(world, options)).toMatchObject({ status: "completed", items: 50 });
    expect(quotes).toEqual([]);
  });

  it("takes streams, which it reads to their end for the quote", async () => {
    const world = new World();
    const { options, quotes } = piloted();
    const lines = upTo(120).map((line) => Buffer.from(itemLine(line)));
    lines.push(Buffer.from(itemLine(3)), Buffer.from(itemLine(70)));
    const summary = await finish(world, options, lines);
    expect(quotes[0]?.items).toBeGreaterThanOrEqual(70);
    expect(summary).toMatchObject({ items: 122, errors: { duplicate_key: 2 }, requests_sent: 120 });
  });

  it("waits for what holds its items, and stops as any run does when only its caller can change that", async () => {
    const world = new World({
      config: { prices: PRICES },
      answer: () => openaiAnswer("x", { inputTokens: 1, outputTokens: 16 }),
    });
    world.input(300);
    const { options, quotes } = piloted();
    const held = await finish(world, { ...options, maxCostUsd: 160 });
    expect(held).toMatchObject({ status: "paused", reason: "cap_reached", counts: { completed: 10 } });
    expect(quotes).toEqual([]);
    expect(await finish(world, options)).toMatchObject({ status: "completed", counts: { completed: 300 } });
    expect(quotes).toHaveLength(1);
  });

  it("ends with its deadline while its caller is asked", async () => {
    const world = new World();
    world.input(300);
    const { options } = piloted(() => new Promise(() => undefined));
    const summary = await finish(world, { ...options, sla: 1 });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 50, expired: 250 } });
  });

  it("is left at a stop while its caller is asked", async () => {
    const world = new World();
    world.input(300);
    const { options, quotes } = piloted(() => new Promise(() => undefined));
    const engine = await world.engine();
    const run = engine.run(INPUT, options);
    world.clock.timer(30_000, () => run.stop());
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped", reason: "interrupted" });
    expect(quotes).toHaveLength(1);
    await world.settle(engine.close());
  });

  it("ends the run with what its listener throws", async () => {
    const world = new World();
    world.input(300);
    const { options } = piloted(() => Promise.reject(new Error("no terminal")));
    await expect(finish(world, options)).rejects.toThrow("no terminal");
    expect(world.sent).toHaveLength(50);
  });

  it("is asked about again when its input has grown", async () => {
    const world = new World();
    world.input(100);
    const first = piloted();
    await finish(world, first.options);
    world.input(200);
    const second = piloted();
    await finish(world, { ...second.options, update: true });
    expect(second.quotes.map(({ items }) => items)).toEqual([100]);
    expect(world.output()).toHaveLength(200);
  });

  it("retries what fails among its items before it quotes", async () => {
    const world = new World({
      answer: (line, attempt) => (attempt === 1 && line % 7 === 0 ? status(500) : ok(line)),
    });
    world.input(120);
    const { options, quotes } = piloted();
    expect(await finish(world, options)).toMatchObject({ counts: { completed: 120 } });
    expect(quotes[0]?.items).toBe(70);
  });

  it("is a whole number of items from 1", async () => {
    const engine = await new World().engine();
    for (const pilot of [0, 1.5, Number.NaN])
      expect(() => engine.run(INPUT, { pilot })).toThrow(/pilot must be a whole number of items from 1/);
  });
});
