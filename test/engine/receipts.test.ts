/**
 * Receipts of a run: one for each key, with the sums of the summary to the nano-dollar, whatever happened on the way.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Summary } from "../../src/engine/items/progress.ts";
import { type ReceiptCheck, ReceiptChecker } from "../../src/jsonl/receipt_check.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { tiered } from "./tiers.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, status, World, type WorldOptions } from "./world.ts";

const RECEIPTS = "/receipts.jsonl";
const RUN = { out: OUTPUT, receipts: RECEIPTS };

interface ShownReceipt {
  readonly key: string | null;
  readonly lane: string | null;
  readonly model: string | null;
  readonly tier_asked: string | null;
  readonly tier: string | null;
  readonly attempts: number;
  readonly billed_nano_usd: number;
  readonly ambiguous_nano_usd: number;
  readonly list_nano_usd: number;
  readonly price_version: string | null;
  readonly started_at: string | null;
  readonly ended_at: string;
  readonly deadline: string | null;
  readonly met: boolean | null;
}

type LastLine = Readonly<Record<string, number>>;

function receiptsIn(world: World): {
  readonly receipts: ShownReceipt[];
  readonly last: LastLine;
  readonly found: ReceiptCheck;
} {
  const text = world.disk.text(RECEIPTS) ?? "";
  const checker = new ReceiptChecker();
  checker.add(Buffer.from(text));
  const lines = text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown);
  const last = lines.pop() as LastLine;
  return { receipts: lines as ShownReceipt[], last, found: checker.end() };
}

/** The sums of the receipts, and what the last line adds to them, are those of the summary. */
function expectSums(world: World, { cost, usage, items }: Summary): void {
  const { receipts, last, found } = receiptsIn(world);
  expect(found.isWhole).toBe(true);
  const sum = (of: (receipt: ShownReceipt) => number): number =>
    receipts.reduce((all, one) => all + of(one), 0);
  const isOtherFree = last["other_billed_nano_usd"] === 0; // no line was removed
  expect({
    items: receipts.length,
    attempts: isOtherFree ? sum((one) => one.attempts) : usage.attempts,
    billed: (sum((one) => one.billed_nano_usd) + (last["other_billed_nano_usd"] ?? 0)) / 1e9,
    ambiguous: (sum((one) => one.ambiguous_nano_usd) + (last["other_ambiguous_nano_usd"] ?? 0)) / 1e9,
    list: (sum((one) => one.list_nano_usd) + (last["other_list_nano_usd"] ?? 0)) / 1e9,
  }).toEqual({
    items,
    attempts: usage.attempts,
    billed: cost.billed_usd,
    ambiguous: cost.ambiguous_usd,
    list: cost.list_usd,
  });
}

function priced(usdPerMillion: number, more: WorldOptions = {}): World {
  const price = { inputUsdPerMillion: usdPerMillion, outputUsdPerMillion: usdPerMillion * 3 };
  return new World({ ...more, config: { prices: { "alpha:m1": price }, ...more.config } });
}

async function finished(world: World, options: object = {}): Promise<Summary> {
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, { ...RUN, ...options }).finished);
  await world.settle(engine.close());
  return summary;
}

describe("receipts of a run", () => {
  it("have how each item was sent, what it cost, and when", async () => {
    const world = priced(0.15);
    world.input(3);
    const summary = await finished(world, { sla: 1 });
    const { receipts, last, found } = receiptsIn(world);
    expect(receipts[0]).toMatchObject({
      ...{ key: "k1", lane: "realtime", provider: "alpha", model: "alpha:m1" },
      ...{ tier_asked: null, tier: null, batch: null, attempts: 1 },
      ...{ input_tokens: 10, output_tokens: 5, list_nano_usd: 3_750, billed_nano_usd: 3_750 },
      ...{ ambiguous_nano_usd: 0, met: true },
    });
    expect(receipts[0]?.price_version).toMatch(/^config, \d{4}-\d\d-\d\d$/);
    const [started, ended] = [receipts[0]?.started_at, receipts[0]?.ended_at].map((at) =>
      Date.parse(at ?? ""),
    );
    expect((ended ?? 0) - (started ?? 0)).toBe(10);
    expect(Date.parse(receipts[0]?.deadline ?? "") - (started ?? 0)).toBe(60_000);
    expect(last).toMatchObject({
      count: 3,
      billed_nano_usd: 11_250,
      met: 3,
      missed: 0,
      other_billed_nano_usd: 0,
    });
    expect(summary.receipts).toEqual({
      file: RECEIPTS,
      count: 3,
      hash: found.isWhole ? found.hash : "",
    });
    expectSums(world, summary);
  });

  it("name the tier that was asked for, and the one that was used", async () => {
    const world: World = new World({
      config: { providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } } },
      answer: (line, _attempt, _model, body) =>
        (body as { service_tier?: string }).service_tier === "flex"
          ? { afterMs: 3_000, result: tiered(line, "flex") }
          : tiered(line, "default"),
    });
    world.input(4, "openai:gpt-5-mini");
    const summary = await finished(world, { sla: 60 });
    const { receipts } = receiptsIn(world);
    expect(receipts).toHaveLength(4);
    for (const receipt of receipts)
      expect(receipt).toMatchObject({ lane: "flex", tier_asked: "flex", tier: "flex" });
    expectSums(world, summary);
  });

  it("say of an item whose sla passed that it was missed, and of one that was never sent that no lane had it", async () => {
    const world = priced(1, { answer: (line) => (line === 1 ? ok(1) : "hang") });
    world.disk.put(INPUT, `${itemLine(1)}${itemLine(2)}{"key":"bad"}\n`);
    const summary = await finished(world, { sla: 2 });
    const { receipts } = receiptsIn(world);
    const of = (key: string): ShownReceipt | undefined => receipts.find((one) => one.key === key);
    expect(of("k1")).toMatchObject({ met: true, attempts: 1 });
    expect(of("k2")).toMatchObject({ met: false, lane: "realtime", model: "alpha:m1", billed_nano_usd: 0 });
    expect(of("k2")?.ambiguous_nano_usd).toBeGreaterThan(0);
    expect(of("bad")).toMatchObject({ met: true, lane: null, started_at: null, attempts: 0 });
    expectSums(world, summary);
  });

  it("sum up to the summary exactly, over any prices, retries and attempts in doubt", async () => {
    const end = fc.constantFrom("ok", "retried", "doubt", "failed");
    const price = fc.double({ min: 0.01, max: 90, noNaN: true });
    const ends = fc.array(fc.record({ end, tokens: fc.nat(9_999) }), { minLength: 1, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(price, ends, fc.boolean(), async (usd, all, ordered) => {
        const world = priced(usd, {
          answer: (line, attempt) => {
            const { end: how = "ok", tokens = 1 } = all[line - 1] ?? {};
            if (how === "failed") return status(400, "no");
            if (attempt === 1 && how === "retried") return status(503, "busy");
            if (attempt === 1 && how === "doubt") return status(500, "broken");
            return openaiAnswer("yes", { inputTokens: tokens, outputTokens: 7 });
          },
        });
        world.input(all.length);
        const summary = await finished(world, { ordered });
        expect(summary.status).toBe("completed");
        expectSums(world, summary);
        const { receipts, last } = receiptsIn(world);
        expect(last["other_billed_nano_usd"]).toBe(0);
        const keys = world.output().map(({ key }) => key);
        expect(receipts.map(({ key }) => key)).toEqual(keys);
      }),
      { numRuns: 25, seed: 31 },
    );
  });

  it("are written by the same command where the file is missing, and are the same bytes", async () => {
    for (const ordered of [false, true]) {
      const world = priced(0.3, { answer: (line) => ({ afterMs: 100 - line, result: ok(line) }) });
      world.input(20);
      await finished(world, { ordered });
      const text = world.disk.text(RECEIPTS);
      await world.disk.remove(RECEIPTS);
      const again = await finished(world, { ordered });
      expect(again.requests_sent).toBe(0);
      expect(world.disk.text(RECEIPTS)).toBe(text);
      expectSums(world, again);
    }
  });

  it("keep the times of answers, and the money of removed lines in the last line, after an update", async () => {
    const world = priced(0.3, {
      answer: (line, attempt) => (line === 2 && attempt === 1 ? status(400, "no") : ok(line)),
    });
    world.input(4);
    await finished(world);
    const before = receiptsIn(world).receipts.find(({ key }) => key === "k3");
    world.disk.put(INPUT, [itemLine(1), itemLine(3), itemLine(5)].join(""));
    await world.clock.advance(3_600_000);
    const summary = await finished(world, { update: true, prune: true });
    const { receipts, last } = receiptsIn(world);
    expect(receipts.map(({ key }) => key).sort()).toEqual(["k1", "k3", "k5"]);
    expect({ ...receipts.find(({ key }) => key === "k3"), hash: "" }).toEqual({ ...before, hash: "" });
    expect(last["other_billed_nano_usd"]).toBeGreaterThan(0);
    expectSums(world, summary);
  });

  it("are not written over another file, and not to the place of the answers", async () => {
    const world = priced(1);
    world.input(1);
    world.disk.put(RECEIPTS, "a diary\n");
    await expect(finished(world)).rejects.toMatchObject({ code: "output_unwritable" });
    expect(world.sent).toEqual([]);
    const other = priced(1);
    other.input(1);
    await expect(finished(other, { receipts: OUTPUT })).rejects.toMatchObject({ code: "usage" });
  });
});

describe("receipts of a run that was killed", () => {
  it.each([5, 15, 25, 45, 65, 95, 125])("are one for each key, after a kill at %i ms", async (killMs) => {
    const world = priced(0.7, {
      commitMs: 7,
      answer: (line) => ({ afterMs: 10 + 13 * (line % 4), result: ok(line) }),
    });
    world.input(12);
    const life = mortal(world.clock);
    const { engine } = await world.opened(life.clock, life);
    engine.run(INPUT, { ...RUN, sla: 60 });
    await world.clock.advance(killMs);
    life.kill();
    world.kill();
    const summary = await finished(world, { sla: 60 });
    const { receipts, last } = receiptsIn(world);
    expect(receipts.map(({ key }) => key).sort()).toEqual(
      Array.from({ length: 12 }, (_, index) => `k${index + 1}`).sort(),
    );
    for (const receipt of receipts)
      expect(receipt).toMatchObject({ model: "alpha:m1", lane: "realtime", met: true });
    expect(last["other_billed_nano_usd"]).toBe(0);
    expectSums(world, summary);
  });
});
