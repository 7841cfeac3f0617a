/**
 * The schema of `engine.submit`: of posted tasks, of lists that are runs, and in later processes.
 */
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { LibraryEngine } from "../../../src/engine/library.ts";
import type { SubmitOptions } from "../../../src/engine/submissions/submissions.ts";
import { loadValidators } from "../../../src/json_schema.ts";
import { openaiAnswer } from "../../../src/testing/index.ts";
import type { Item } from "../../../src/work/item.ts";
import type { Json } from "../../../src/work/json.ts";
import { dataFiles } from "../runs.ts";
import { mortal, World } from "../world.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const SCHEMA = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] } as const;
const EVEN = z.object({ sum: z.int().refine((sum) => sum % 2 === 0, "must be even") });

const item = (line: number, more: object = {}): Item =>
  ({ model: "alpha:m1", input: `[[${line}]] hello`, ...more }) as Item;
const said = (text: string) => openaiAnswer(text, { inputTokens: 10, outputTokens: 5 });

interface Body {
  readonly messages: readonly { readonly content: string }[];
  readonly response_format?: Json;
}

/** Answers each item with these texts in turn; the last one stays. */
function answering(...texts: readonly string[]): { world: World; bodies: Body[] } {
  const bodies: Body[] = [];
  const world = new World({
    answer: (_line, attempt, _model, body) => {
      bodies.push(body as Body);
      return said(texts[Math.min(attempt, texts.length) - 1] ?? "");
    },
  });
  return { world, bodies };
}

const AS_RUNS: SubmitOptions = { onProgress: () => undefined };

describe.each([
  ["a posted task", {}],
  ["runs", AS_RUNS],
] as const)("a list with a schema that is %s", (kind, how: SubmitOptions) => {
  it("asks for the schema, asks again with the fault, and gives each object its parsed answer", async () => {
    const { world, bodies } = answering('{"sum":"3"}', '{"sum":3}');
    const engine = await world.engine();
    const submitted = engine.submit([item(1), item(2)], { ...how, schema: SCHEMA });
    const task = await world.settle(submitted.finished);
    expect(dataFiles(world).length > 0).toBe(kind === "runs");
    expect(task.objects.map(({ parsed, attempts }) => [parsed, attempts])).toEqual([
      [{ sum: 3 }, 2],
      [{ sum: 3 }, 2],
    ]);
    expect(bodies[0]?.response_format).toMatchObject({ json_schema: { schema: SCHEMA } });
    expect(bodies.at(-1)?.messages.at(-1)?.content).toContain("/sum: must be integer");
    await world.settle(engine.close());
  });

  it("leaves an item its own schema, and one with null is not checked", async () => {
    const { world } = answering('"text"');
    const engine = await world.engine();
    const items = [item(1, { schema: { type: "string" } }), item(2, { schema: null }), item(3)];
    const { objects } = await world.settle(engine.submit(items, { ...how, schema: SCHEMA }).finished);
    expect(objects.map(({ status, parsed }) => [status, parsed])).toEqual([
      ["completed", "text"],
      ["completed", undefined],
      ["failed", undefined],
    ]);
    expect(objects[2]?.error).toMatchObject({ code: "schema_unmet", attempts: 3, answer: '"text"' });
    await world.settle(engine.close());
  });

  it("checks with what only the schema's own function knows", async () => {
    const { world, bodies } = answering('{"sum":3}', '{"sum":4}');
    const engine = await world.engine();
    const { objects } = await world.settle(engine.submit([item(1)], { ...how, schema: EVEN }).finished);
    expect(bodies[1]?.messages.at(-1)?.content).toContain("/sum: must be even");
    expect(objects[0]?.parsed).toEqual({ sum: 4 });
    await world.settle(engine.close());
  });

  it("keeps its JSON Schema over a kill, and the engine after it checks with that", async () => {
    const { world } = answering('{"sum":"3"}', "no", '{"sum":3}');
    const process = mortal(world.clock);
    const engine = await world.engine(process.clock);
    const task = await world.settle(engine.submit([item(1, { sla: 60 })], { ...how, schema: EVEN }));
    process.kill();
    world.kill({ powerCut: true });
    const again = await world.engine();
    await world.clock.advance(60_000);
    const { objects } = await world.settle(again.task(task.task_id));
    expect(objects[0]).toMatchObject({ status: "completed", parsed: { sum: 3 } });
    await world.settle(again.close());
  });

  it("is refused before anything is stored when the schema cannot be used", async () => {
    const { world } = answering("no");
    const engine = await world.engine();
    for (const [schema, message] of [
      [{ type: "objct" }, "schema is invalid"],
      [{ pattern: "(a+)+$" }, "the pattern"],
      [false, "no answer fits false"],
      [{ $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }, "leads to itself"],
    ] as const)
      await expect(world.settle(engine.submit([item(1)], { ...how, schema }))).rejects.toMatchObject({
        code: "invalid_config",
        message: expect.stringContaining(message),
      });
    await expect(
      world.settle(engine.submit([item(1)], { ...how, schema: 7 as unknown as boolean })),
    ).rejects.toMatchObject({ code: "usage" });
    expect(world.sent).toEqual([]);
    await world.settle(engine.close());
  });

  it("counts as another list under the same id when the schema is another", async () => {
    const { world } = answering('{"sum":3}');
    const engine = await world.engine();
    const named = { ...how, id: "sums" };
    const first = await world.settle(engine.submit([item(1)], { ...named, schema: SCHEMA }));
    const same = await world.settle(engine.submit([item(1)], { ...named, schema: { ...SCHEMA } }));
    expect(same.task_id).toBe(first.task_id);
    await expect(
      world.settle(engine.submit([item(1)], { ...named, schema: { type: "object" } })),
    ).rejects.toMatchObject({ code: "conflict" });
    await expect(world.settle(engine.submit([item(1)], named))).rejects.toMatchObject({ code: "conflict" });
    expect(world.sent).toHaveLength(1);
    await world.settle(engine.close());
  });

  it("is answered by the schema as it was when submit was called", async () => {
    const { world } = answering('{"sum":"3"}', '{"sum":3}');
    const engine = await world.engine();
    const schema = structuredClone(SCHEMA) as { type: string; properties: { sum: { type: string } } };
    const submitted = engine.submit([item(1)], { ...how, schema });
    schema.properties.sum.type = "string";
    const { objects } = await world.settle(submitted.finished);
    expect(objects[0]?.parsed).toEqual({ sum: 3 });
    await world.settle(engine.close());
  });
});

describe("schemaTries of a list", () => {
  it("bounds the requests of each item, also in later processes", async () => {
    const { world } = answering("no");
    const process = mortal(world.clock);
    const engine = await world.engine(process.clock);
    const options = { schema: SCHEMA, schemaTries: 1 } as const;
    const { task_id } = await world.settle(engine.submit([item(1, { sla: 60 })], options));
    process.kill();
    world.kill({ powerCut: true });
    const again = await world.engine();
    await world.clock.advance(60_000);
    const { objects } = await world.settle(again.task(task_id));
    expect(objects[0]?.error).toMatchObject({ code: "schema_unmet" });
    expect(world.sent.length).toBeLessThanOrEqual(2);
    await world.settle(again.close());
  });
});

describe("a schema whose function throws", () => {
  it("ends its own item, and not those of another list", async () => {
    const { world } = answering('{"sum":3}');
    const engine = await world.engine();
    const validate = (): never => {
      throw new Error("no database");
    };
    const broken = { "~standard": { version: 1, vendor: "own", validate } } as const;
    const lists = [
      engine.submit([item(1)], { schema: broken }),
      engine.submit([item(2)], { schema: SCHEMA }),
    ];
    const [one, other] = await world.settle(Promise.all(lists.map(({ finished }) => finished)));
    expect(one?.objects[0]?.error).toMatchObject({ code: "schema_unmet" });
    expect(one?.objects[0]?.error?.message).toContain("no database");
    expect(other?.objects[0]?.parsed).toEqual({ sum: 3 });
    await world.settle(engine.close());
  });
});

describe("the types of parsed", () => {
  const schema = z.object({ sum: z.int(), at: z.string().transform((text) => new Date(text)) });
  type Answer = { sum: number; at: Date };

  it("are what the schema makes of an answer, in a run, a list and its task", () => {
    const typed = (engine: LibraryEngine) => {
      const run = engine.run("in.jsonl", { schema });
      const list = engine.submit([item(1)], { schema });
      return { run, list };
    };
    type Made = ReturnType<typeof typed>;
    type Line = Made["run"] extends AsyncIterable<infer Each> ? Each : never;
    type Listed = Made["list"] extends AsyncIterable<infer Each> ? Each : never;
    expectTypeOf<Extract<Line, { status: "completed" }>["parsed"]>().toEqualTypeOf<Answer>();
    expectTypeOf<Extract<Listed, { status: "completed" }>["parsed"]>().toEqualTypeOf<Answer>();
    type Whole = Awaited<Made["list"]["finished"]>;
    expectTypeOf<Awaited<Made["list"]>>().toEqualTypeOf<Whole>();
    expectTypeOf<
      Extract<Whole["objects"][number], { status: "completed" }>["parsed"]
    >().toEqualTypeOf<Answer>();
  });

  it("are JSON with a JSON Schema and without any", () => {
    const typed = (engine: LibraryEngine) => engine.submit([item(1)], { schema: SCHEMA });
    const without = (engine: LibraryEngine) => engine.submit([item(1)]);
    type Each = Awaited<ReturnType<typeof typed>>["objects"][number];
    expectTypeOf<Each["parsed"]>().toEqualTypeOf<
      Awaited<ReturnType<typeof without>>["objects"][number]["parsed"]
    >();
  });
});
