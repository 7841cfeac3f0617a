/**
 * Answers that a killed process had written but not recorded: what they took is read from their lines.
 */
import { describe, expect, it } from "vitest";
import type { Summary } from "../../src/engine/items/progress.ts";
import type { OutcomeRecord, Step } from "../../src/engine/journal/journal.ts";
import type { EngineRunOptions } from "../../src/engine/runs/run_open.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { finish } from "./runs.ts";
import { INPUT, mortal, OUTPUT, status, World } from "./world.ts";

const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000, asOf: "2026-11-01" } };
const LINES = 4;
const TOKENS_EARLIER = {
  inputTokens: 10,
  cachedTokens: 1,
  cacheWriteTokens: 2,
  outputTokens: 7,
  reasoningTokens: 3,
};
const TOKENS = {
  inputTokens: 40,
  cachedTokens: 8,
  cacheWriteTokens: 4,
  outputTokens: 20,
  reasoningTokens: 6,
};

/** Of each line in earlier runs. */
const EARLIER = {
  ...{ attempts: 3, ambiguousAttempts: 1, isEstimated: false, ...TOKENS_EARLIER },
  ...{ listUsd: 0.3, usd: 0.2, billedUsd: 0.1, ambiguousUsd: 0.4, priceNumber: 0 },
};

function priced(): World {
  const world = new World({ config: { prices: PRICES, maxInFlight: LINES } });
  world.input(LINES);
  return world;
}

interface Ended {
  readonly summary: Summary;
  readonly outcomes: readonly OutcomeRecord[];
  readonly text: string;
}

/** Runs to its end; `outcomes` are in the order of the lines. */
async function ended(world: World, options: EngineRunOptions): Promise<Ended> {
  const steps: Step[] = [];
  const onStep = (_: number, step: Step): void => void steps.push(step);
  const summary = await finish(world, { ...options, onStep });
  const outcomes = steps.flatMap((step) => step.outcomes).sort((one, other) => one.line - other.line);
  return { summary, outcomes, text: world.disk.text(OUTPUT) ?? "" };
}

/** The second line is billed twice, the third is refused at once, the others are answered. */
function answering(world: World): void {
  world.answer = (line, attempt) => {
    if (line === 3) return status(400, "refused");
    return openaiAnswer(line === 2 && attempt === 1 ? "" : `answer ${line}`, {
      ...TOKENS,
      outputTokens: 20 + line,
    });
  };
}

/** The same work in a process that is killed before it records an answer, whose output has these lines. */
async function adopted(text: string, options: EngineRunOptions): Promise<Ended> {
  const world = priced();
  const empty = openaiAnswer("", { ...TOKENS, outputTokens: 22 });
  world.answer = (line, attempt) => (line === 2 && attempt === 1 ? empty : "hang");
  const process = mortal(world.clock);
  void (await world.engine(process.clock)).run(INPUT, options).finished;
  await world.clock.advance(20_000);
  process.kill();
  world.kill();
  const before = world.sent.length;
  world.disk.put(OUTPUT, text);
  const end = await ended(world, options);
  expect(world.sent).toHaveLength(before);
  return end;
}

const costOf = ({ summary }: Ended) => summary.cost;

describe("answers that are adopted after a kill", () => {
  it.each([
    ["perigee's own", {}],
    ["the bodies of a raw output", { format: "raw" }],
    ["the bodies of OpenAI's layout", { format: "openai" }],
    ["lines that have what earlier runs took, too", { takenEarlier: () => EARLIER }],
  ] as const)("cost what the provider billed: %s", async (_what, more) => {
    const options: EngineRunOptions = { out: OUTPUT, sla: 60, ...more };
    const world = priced();
    answering(world);
    const whole = await ended(world, options);
    const end = await adopted(whole.text, options);
    expect(end.text).toBe(whole.text);
    expect(costOf(whole).billed_usd).toBeGreaterThan(0.5);
    expect(costOf(end)).toEqual(costOf(whole));
    expect(costOf(end)).toMatchObject({ ambiguous_usd: 0, is_estimated: false });
    expect(end.summary.usage).toEqual(whole.summary.usage);
    for (const [index, outcome] of whole.outcomes.entries()) {
      const { usd, listUsd, billedUsd, ...others } = end.outcomes[index] as OutcomeRecord;
      expect(others).toEqual({ ...others, ...withoutMoney(outcome) });
      for (const [found, expected] of [
        [usd, outcome.usd],
        [listUsd, outcome.listUsd],
        [billedUsd, outcome.billedUsd],
      ])
        expect(found).toBeCloseTo(expected as number, 9);
    }
  });

  it("is estimated where its line does not say what it took, or says what cannot be true", async () => {
    const world = priced();
    answering(world);
    const { text } = await ended(world, { out: OUTPUT, fields: [] });
    const trimmed = await adopted(text, { out: OUTPUT, fields: [] });
    expect(costOf(trimmed)).toMatchObject({ is_estimated: true });
    expect(costOf(trimmed).ambiguous_usd).toBeGreaterThan(0);
    const lies = text.replaceAll(
      /\}\n/g,
      ',"usage":{"input_tokens":-1,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":1e30,"reasoning_tokens":0},"cost":{"list_usd":-1,"billed_usd":-1,"ambiguous_usd":0}}\n',
    );
    const doubted = await adopted(lies, { out: OUTPUT, fields: [] });
    expect(costOf(doubted)).toEqual(costOf(trimmed));
  });
});

describe("what items took in earlier runs", () => {
  it("is in their lines, and not in the sums of the run", async () => {
    const plain = priced();
    answering(plain);
    const alone = await ended(plain, { out: OUTPUT });
    const world = priced();
    answering(world);
    const whole = await ended(world, { out: OUTPUT, takenEarlier: () => EARLIER });
    expect(whole.outcomes.map(withoutLine)).toEqual(alone.outcomes.map(withoutLine));
    expect([costOf(whole), whole.summary.usage]).toEqual([costOf(alone), alone.summary.usage]);
    for (const [index, line] of linesOf(alone).entries()) {
      const { attempts, error, cost, usage } = linesOf(whole)[index] as Line;
      expect(error?.attempts ?? attempts).toBe((line.error?.attempts ?? line.attempts ?? 0) + 3);
      expect(error?.ambiguous_attempts).toBe(line.error && line.error.ambiguous_attempts + 1);
      expect(cost?.billed_usd).toBeCloseTo((line.cost?.billed_usd ?? 0) + 0.1, 9);
      expect(cost?.ambiguous_usd).toBeCloseTo((line.cost?.ambiguous_usd ?? 0) + 0.4, 9);
      expect(usage?.output_tokens).toBe((line.usage?.output_tokens ?? 0) + TOKENS_EARLIER.outputTokens);
    }
  });
});

interface Line {
  readonly key: string;
  readonly attempts?: number;
  readonly error?: { readonly attempts: number; readonly ambiguous_attempts: number };
  readonly cost?: { readonly billed_usd: number; readonly ambiguous_usd: number };
  readonly usage?: { readonly output_tokens: number };
}

function linesOf({ text }: Ended): readonly Line[] {
  const lines = text.trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Line).sort((a, b) => a.key.localeCompare(b.key));
}

function withoutLine({ lineBytes: _bytes, lineCrc32: _crc32, ...outcome }: OutcomeRecord): object {
  return outcome;
}

/** When an adopted answer arrived is not known. */
function withoutMoney(outcome: OutcomeRecord): object {
  const { usd: _usd, listUsd: _list, billedUsd: _billed, sent: _sent, ...others } = outcome;
  return others;
}
