/**
 * Answers that do not fit, within what bounds a run: caps, deadlines, second attempts, providers in code.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadValidators } from "../../../src/json_schema.ts";
import type { FunctionRequest } from "../../../src/providers/index.ts";
import { createRandom, openaiAnswer } from "../../../src/testing/index.ts";
import { INPUT, OUTPUT, World } from "../world.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const SCHEMA = { type: "object", required: ["sum"] };
const FITS = '{"sum":3}';
const RATES = { inputUsdPerMillion: 100, outputUsdPerMillion: 500 };
const PRICES = { "alpha:*": RATES, "mine:*": RATES };

interface Body {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

interface Line {
  readonly key: string;
  readonly parsed?: unknown;
  readonly attempts?: number;
  readonly error?: { readonly code: string; readonly attempts: number; readonly answer?: string };
}

const linesOf = (world: World): Line[] => world.output() as unknown as Line[];
const said = (text: string) => openaiAnswer(text, { inputTokens: 10, outputTokens: 5 });

describe("under a cap", () => {
  it("never costs more than it, says what it holds, and ends the rest once there is money", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.double({ min: 0.05, max: 0.95, noNaN: true }),
        async (seed, share) => {
          const items = 20;
          const random = createRandom(seed);
          const unfit = new Map<number, number>(); // answers that do not fit before one that does
          for (let line = 1; line <= items; line += 1) unfit.set(line, Math.floor(random() * 4));
          let billedUsd = 0;
          let capUsd = Number.POSITIVE_INFINITY;
          const world = new World({
            config: { prices: PRICES },
            answer: (line, _attempt, _model, body) => {
              const { messages } = body as Body;
              const inputTokens = Math.ceil(
                messages.reduce((sum, { content }) => sum + content.length, 0) / 4,
              );
              const before = unfit.get(line) ?? 0;
              unfit.set(line, before - 1);
              const usage = { inputTokens, outputTokens: 1 + Math.floor(random() * 16) };
              billedUsd += (usage.inputTokens * 100 + usage.outputTokens * 500) / 1e6;
              expect(billedUsd).toBeLessThanOrEqual(capUsd + 1e-12);
              return openaiAnswer(before > 0 ? `no, ${"x".repeat(30)}` : FITS, usage);
            },
          });
          world.input(items);
          const engine = await world.engine();
          capUsd = share * items * 0.012; // what all requests cost, about
          const capped = engine.run(INPUT, { out: OUTPUT, schema: SCHEMA, maxCostUsd: capUsd });
          const summary = await world.settle(capped.finished);
          expect(summary.cost.billed_usd).toBeCloseTo(billedUsd, 9);
          const open = items - linesOf(world).length;
          expect(summary.status).toBe(open === 0 ? "completed" : "paused");
          if (open > 0) expect(summary.held?.map(({ reason }) => reason)).toEqual(["cap_reached"]);
          if (open > 0) expect(summary.held?.reduce((sum, hold) => sum + hold.items, 0)).toBe(open);
          capUsd = Number.POSITIVE_INFINITY;
          const rest = await world.settle(engine.run(INPUT, { out: OUTPUT, schema: SCHEMA }).finished);
          await world.settle(engine.close());
          expect(rest.status).toBe("completed");
          expect(rest.cost.billed_usd).toBeCloseTo(billedUsd, 9);
          const lines = linesOf(world);
          expect(new Set(lines.map(({ key }) => key)).size).toBe(items);
          for (const { parsed, error } of lines)
            if (error === undefined) expect(parsed).toEqual({ sum: 3 });
            else expect(error.code).toBe("schema_unmet");
        },
      ),
      { numRuns: 8 },
    );
  });
});

describe("before a deadline", () => {
  async function ended(latencyMs: number): Promise<{ world: World; line: Line | undefined; atMs: number }> {
    const world = new World({ latencyMs, answer: (_line, attempt) => said(`no ${attempt}`) });
    world.input(1);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT, schema: SCHEMA, sla: 1 }).finished);
    const atMs = world.clock.nowMs();
    await world.settle(engine.close());
    return { world, line: linesOf(world)[0], atMs };
  }

  it.each([
    [40_000, 1],
    [25_000, 2],
  ])(
    "an answer that took %i ms is not asked for again in less time, and expires",
    async (latencyMs, sent) => {
      const { world, line, atMs } = await ended(latencyMs);
      expect(world.sent).toHaveLength(sent);
      expect(line?.error).toMatchObject({ code: "expired", attempts: sent, answer: `no ${sent}` });
      expect(atMs).toBeLessThan(61_000);
    },
  );

  it("an answer that leaves time for two more is asked for again", async () => {
    const { world, line } = await ended(15_000);
    expect(world.sent).toHaveLength(3);
    expect(line?.error).toMatchObject({ code: "schema_unmet", attempts: 3, answer: "no 3" });
  });
});

describe("with second attempts beside those that hang", () => {
  it("asks again with the answer of the second one, and books all three", async () => {
    const bodies: Body[] = [];
    const world = new World({
      config: { hedge: true, prices: PRICES, limits: { alpha: { requestsPerMinute: 600 } } },
      answer: (line, attempt, _model, body) => {
        if (line !== 100) return { afterMs: 800 + (line % 9) * 50, result: said(FITS) };
        bodies.push(body as Body);
        if (attempt === 1) return "hang";
        return { afterMs: 900, result: said(attempt === 2 ? "no" : FITS) };
      },
    });
    world.input(500);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, schema: SCHEMA });
    const { counts, usage, cost } = await world.settle(run.finished);
    await world.settle(engine.close());
    expect(counts).toMatchObject({ completed: 500, failed: 0 });
    expect(usage).toMatchObject({ attempts: 502, ambiguous_attempts: 1 });
    expect(cost.billed_usd).toBeCloseTo((501 * (10 * 100 + 5 * 500)) / 1e6, 9);
    expect(bodies).toHaveLength(3);
    expect(bodies[2]?.messages.slice(1)).toMatchObject([
      { role: "assistant", content: "no" },
      { role: "user" },
    ]);
  });
});

describe("a provider that is a function", () => {
  it("is called again with the answer and what does not fit as messages", async () => {
    const calls: FunctionRequest[] = [];
    const world = new World({
      config: {
        providers: {
          mine: async (request: FunctionRequest) => {
            calls.push(request);
            return { text: calls.length === 1 ? "no" : FITS, usage: { inputTokens: 10, outputTokens: 5 } };
          },
        },
      },
    });
    world.input(1, "mine:m");
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT, schema: SCHEMA }).finished);
    await world.settle(engine.close());
    expect(calls[0]?.settings).toMatchObject({ responseJsonSchema: SCHEMA });
    expect(calls[1]?.messages.slice(-2)).toMatchObject([
      { role: "assistant", content: "no" },
      { role: "user", content: expect.stringContaining("Answer again") },
    ]);
    expect(linesOf(world)[0]).toMatchObject({ parsed: { sum: 3 }, attempts: 2 });
  });
});
