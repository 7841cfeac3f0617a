/** The measure of schemas: how many requests curable and hopeless answers take, also across kills. */
import { describe, expect, it } from "vitest";
import { loadValidators } from "../../../src/json_schema.ts";
import { openaiAnswer } from "../../../src/testing/index.ts";
import { INPUT, OUTPUT, World } from "../world.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const SCHEMA = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const FAULTY = ['{"n":"1"}', "I cannot say", '{"n":1', '{"m":1}', '{"n":1,"n":2}', "[]"] as const;
const ITEMS = 1_000;

const said = (text: string) => openaiAnswer(text, { inputTokens: 10, outputTokens: 5 });

/** Of 100 lines, 12 need one more request and one never fits; which ones follows from their numbers. */
function kindOf(line: number): "hopeless" | "curable" | "good" {
  const place = (line * 7_919) % 100;
  if (place === 0) return "hopeless";
  return place <= 12 ? "curable" : "good";
}

function answerOf(line: number, body: unknown): string {
  const kind = kindOf(line);
  const { messages } = body as { readonly messages: readonly { readonly role: string }[] };
  const isAskedAgain = messages.some(({ role }) => role === "assistant");
  if (kind === "good" || (kind === "curable" && isAskedAgain)) return `{"n":${line}}`;
  return FAULTY[line % FAULTY.length] as string;
}

interface Line {
  readonly key: string;
  readonly parsed?: { readonly n: number };
  readonly usage?: { readonly output_tokens: number };
  readonly cost?: { readonly billed_usd: number };
  readonly attempts?: number;
  readonly error?: { readonly code: string; readonly attempts: number };
}

describe("a provider with 12 % corrupt answers that one more request cures, and 1 % hopeless ones", () => {
  it("has every curable answer valid with at most 1.15 requests an item, and ends the hopeless after three", async () => {
    const world = new World({ answer: (line, _attempt, _model, body) => said(answerOf(line, body)) });
    world.input(ITEMS);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT, schema: SCHEMA }).finished);
    await engine.close();
    const lines = world.output() as unknown as Line[];
    expect(lines).toHaveLength(ITEMS);
    let outputTokens = 0;
    for (const { key, parsed, usage, attempts, error } of lines) {
      const line = Number(key.slice(1));
      const kind = kindOf(line);
      outputTokens += usage?.output_tokens ?? 0;
      if (kind === "hopeless") expect(error).toMatchObject({ code: "schema_unmet", attempts: 3 });
      else expect({ parsed, attempts }).toEqual({ parsed: { n: line }, attempts: kind === "good" ? 1 : 2 });
    }
    expect(world.sent.length / ITEMS).toBeLessThanOrEqual(1.15);
    expect(outputTokens).toBe(5 * world.sent.length); // what was billed is in the lines
  });

  it.each([1, 2, 3])("counts each answer once across kills (seed %i)", async (seed) => {
    const items = 120;
    const answered: number[] = [];
    const world = new World({
      answer: (line, _attempt, _model, body) => {
        answered.push(line);
        return said(answerOf(line, body));
      },
    });
    world.input(items);
    for (const ms of [11, 12 + seed, 11]) {
      const engine = await world.engine();
      const run = engine.run(INPUT, { out: OUTPUT, schema: SCHEMA });
      run.finished.catch(() => undefined);
      await world.clock.advance(ms);
      world.kill();
    }
    expect(answered.length).toBeGreaterThan(10); // killed in the middle
    expect(world.output().length).toBeLessThan(items);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, schema: SCHEMA });
    await world.settle(run.finished);
    await engine.close();
    const lines = world.output() as unknown as Line[];
    expect(new Set(lines.map(({ key }) => key)).size).toBe(items);
    for (const { key, parsed, error } of lines) {
      const line = Number(key.slice(1));
      if (kindOf(line) === "hopeless") expect(error?.code).toBe("schema_unmet");
      else expect(parsed).toEqual({ n: line });
    }
    // Three answers, two more for an item that began anew, and one that was lost for each kill.
    const counts = new Map<number, number>();
    for (const line of answered) counts.set(line, (counts.get(line) ?? 0) + 1);
    expect(Math.max(...counts.values())).toBeLessThanOrEqual(3 + 2 + 3);
  });
});
