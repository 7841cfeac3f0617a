/** Runs whose answers must fit a schema: what is asked for, checked, asked again, and counted. */
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { EngineRunOptions } from "../../../src/engine/runs/run_open.ts";
import { loadValidators } from "../../../src/json_schema.ts";
import { openaiAnswer } from "../../../src/testing/index.ts";
import type { Json } from "../../../src/work/json.ts";
import { INPUT, OUTPUT, World } from "../world.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const SCHEMA = {
  type: "object",
  properties: { sum: { type: "integer" } },
  required: ["sum"],
  additionalProperties: false,
} as const;

interface Line {
  readonly key: string;
  readonly output: { readonly text: string } | null;
  readonly parsed?: Json;
  readonly attempts?: number;
  readonly usage?: { readonly output_tokens: number };
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly answer?: string;
    readonly attempts: number;
  };
}

interface Body {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly response_format?: Json;
}

const said = (text: string) => openaiAnswer(text, { inputTokens: 10, outputTokens: 5 });
const linesOf = (world: World): Line[] => world.output() as unknown as Line[];

async function ran(world: World, options: EngineRunOptions = { schema: SCHEMA }): Promise<Line[]> {
  const engine = await world.engine();
  await world.settle(engine.run(INPUT, { out: OUTPUT, ...options }).finished);
  await engine.close();
  return linesOf(world);
}

describe("a run with a schema", () => {
  it("asks the provider for the schema, and writes the parsed answer beside its text", async () => {
    const bodies: Body[] = [];
    const world = new World({
      answer: (_line, _attempt, _model, body) => {
        bodies.push(body as Body);
        return said('{ "sum": 3 }');
      },
    });
    world.input(1);
    const [line] = await ran(world);
    expect(bodies[0]?.response_format).toEqual({
      type: "json_schema",
      json_schema: { name: "answer", strict: true, schema: SCHEMA },
    });
    expect(line).toMatchObject({ output: { text: '{ "sum": 3 }' }, parsed: { sum: 3 }, attempts: 1 });
  });

  it("asks again with the answer and what does not fit, and counts what both answers cost", async () => {
    const bodies: Body[] = [];
    const world = new World({
      answer: (_line, attempt, _model, body) => {
        bodies.push(body as Body);
        return said(attempt === 1 ? '{"sum":"3"}' : '{"sum":3}');
      },
    });
    world.input(1);
    const [line] = await ran(world);
    expect(bodies).toHaveLength(2);
    expect(bodies[1]?.messages.slice(1)).toEqual([
      { role: "assistant", content: '{"sum":"3"}' },
      { role: "user", content: expect.stringContaining("/sum: must be integer") },
    ]);
    expect(line).toMatchObject({ parsed: { sum: 3 }, attempts: 2, usage: { output_tokens: 10 } });
  });

  it("ends an item after three answers that do not fit, with the last one in its error", async () => {
    const world = new World({ answer: (_line, attempt) => said(`no ${attempt}`) });
    world.input(1);
    const [line] = await ran(world);
    expect(world.sent).toHaveLength(3);
    expect(line?.error).toMatchObject({ code: "schema_unmet", attempts: 3, answer: "no 3" });
    expect(line).toMatchObject({ output: null, usage: { output_tokens: 15 } });
  });

  it("asks only as often as schemaTries says", async () => {
    const world = new World({ answer: () => said("no") });
    world.input(1);
    await ran(world, { schema: SCHEMA, schemaTries: 1 });
    expect(world.sent).toHaveLength(1);
  });

  it("reads an answer in a fence, and keeps all digits of its numbers", async () => {
    const world = new World({
      answer: () => said('Here it is:\n```json\n{"sum": 12345678901234567890}\n```'),
    });
    world.input(1);
    await ran(world);
    expect(world.disk.text(OUTPUT)).toContain('"parsed":{"sum":12345678901234567890}');
  });

  it("does not ask again where the model declined to answer", async () => {
    const refused = {
      choices: [{ message: { role: "assistant", content: null, refusal: "no" }, finish_reason: "stop" }],
    };
    const body = { ...refused, usage: { prompt_tokens: 1, completion_tokens: 1 } };
    const world = new World({
      answer: () => ({ ok: true, status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)) }),
    });
    world.input(1);
    const [line] = await ran(world);
    expect(world.sent).toHaveLength(1);
    expect(line?.error).toMatchObject({ code: "schema_unmet" });
  });

  it("checks with a Standard Schema of zod, of which the provider gets the JSON Schema", async () => {
    const bodies: Body[] = [];
    const world = new World({
      answer: (_line, attempt, _model, body) => {
        bodies.push(body as Body);
        return said(attempt === 1 ? '{"sum":3}' : '{"sum":4}');
      },
    });
    world.input(1);
    const schema = z.object({ sum: z.int().refine((sum) => sum % 2 === 0, "must be even") });
    const [line] = await ran(world, { schema });
    expect(bodies[0]?.response_format).toMatchObject({ json_schema: { strict: true } });
    expect(bodies[1]?.messages.at(-1)?.content).toContain("/sum: must be even");
    expect(line?.parsed).toEqual({ sum: 4 });
  });

  it("asks again with control characters in the answer, which JSON writes in six", async () => {
    const odd = "\u0001".repeat(500);
    const bodies: Body[] = [];
    const world = new World({
      answer: (_line, attempt, _model, body) => {
        bodies.push(body as Body);
        return said(attempt === 1 ? odd : '{"sum":3}');
      },
    });
    world.input(1);
    const [line] = await ran(world);
    expect(bodies[1]?.messages[1]).toEqual({ role: "assistant", content: odd });
    expect(line?.parsed).toEqual({ sum: 3 });
  });

  it("asks echo once, because it has one answer", async () => {
    const world = new World();
    world.input(1, "echo:test");
    const [line] = await ran(world);
    expect(line?.error).toMatchObject({ code: "schema_unmet", attempts: 1, answer: "[[1]] hello" });
    expect(line?.error?.message).toContain("echo has one answer");
  });

  it("refuses a schema that cannot be used before it sends anything", async () => {
    const world = new World();
    world.input(1);
    const engine = await world.engine();
    for (const schema of [
      { type: "objct" },
      { $ref: "https://example.com/schema.json" },
      { type: "string", pattern: "^(a+)+$" },
      { $schema: "https://example.com/mine" },
    ])
      await expect(world.settle(engine.run(INPUT, { out: OUTPUT, schema }).finished)).rejects.toMatchObject({
        code: "invalid_config",
      });
    expect(world.sent).toEqual([]);
    await engine.close();
  });
});

describe("the schema of an item", () => {
  const lines = (...more: readonly object[]): string =>
    more
      .map((item, index) =>
        JSON.stringify({ key: `k${index + 1}`, model: "alpha:m1", input: `[[${index + 1}]]`, ...item }),
      )
      .join("\n");

  it("takes precedence over that of the run, and null means that it is not checked", async () => {
    const world = new World({ answer: () => said('"text"') });
    world.disk.put(INPUT, lines({ schema: { type: "string" }, metadata: { a: 1 } }, { schema: null }, {}));
    const found = new Map((await ran(world)).map((line) => [line.key, line]));
    expect(found.get("k1")).toMatchObject({ parsed: "text", attempts: 1, metadata: { a: 1 } });
    expect(found.get("k2")).toMatchObject({ output: { text: '"text"' }, attempts: 1 });
    expect(found.get("k2")).not.toHaveProperty("parsed");
    expect(found.get("k3")?.error?.code).toBe("schema_unmet");
  });

  it("may be true, which any JSON fits", async () => {
    const world = new World({ answer: () => said("[1]") });
    world.disk.put(INPUT, lines({ schema: true }));
    const found = new Map((await ran(world, {})).map((line) => [line.key, line]));
    expect(found.get("k1")?.parsed).toEqual([1]);
  });

  it("rejects a line with a schema that cannot be used, unsent", async () => {
    const world = new World();
    world.disk.put(
      INPUT,
      lines(
        { schema: { type: "objct" } },
        { schema: { pattern: "(a+)+$" } },
        { schema: 7 },
        { schema: false },
        { schema: { $ref: "#" } },
        { schema: { if: { not: { type: "object" } }, else: { allOf: [{ $ref: "#" }] } } },
      ),
    );
    const found = await ran(world, {});
    expect(found.map(({ error }) => error?.code)).toEqual(Array(6).fill("invalid_config"));
    expect(found.find(({ key }) => key === "k4")?.error?.message).toContain("no answer fits false");
    expect(world.sent).toEqual([]);
  });

  it("counts an answer as unmet for which its schema leads to itself without end", async () => {
    const world = new World({
      answer: () => openaiAnswer('{"loop":1}', { inputTokens: 10, outputTokens: 5 }),
    });
    const schema = { if: { not: { type: "object", required: ["loop"] } }, else: { $ref: "#" } };
    world.disk.put(INPUT, lines({ schema }));
    const [line] = await ran(world, { schemaTries: 1 });
    expect(line?.error?.code).toBe("schema_unmet");
  });

  it("is also read beside the body of OpenAI's layout, whose format is only set where it has none", async () => {
    const bodies: Body[] = [];
    const world = new World({
      answer: (_line, _attempt, _model, body) => {
        bodies.push(body as Body);
        return said('{"sum":1}');
      },
    });
    const body = { model: "alpha:m1", messages: [{ role: "user", content: "[[1]]" }] };
    const own = { ...body, response_format: { type: "json_object" } };
    world.disk.put(
      INPUT,
      [
        { custom_id: "a", body, schema: SCHEMA },
        { custom_id: "b", body: own, schema: SCHEMA },
      ]
        .map((line) => JSON.stringify(line))
        .join("\n"),
    );
    const found = await ran(world, {});
    expect(found.map(({ parsed }) => parsed)).toEqual([{ sum: 1 }, { sum: 1 }]);
    expect(bodies.map(({ response_format }) => (response_format as { type: string }).type).sort()).toEqual([
      "json_object",
      "json_schema",
    ]);
  });
});
