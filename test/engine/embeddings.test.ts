/** Embeddings of single texts share requests, and each has its own line. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { takePlain } from "../../src/large_bytes.ts";
import { cacheInMemory } from "./cached_world.ts";
import { INPUT, OUTPUT, type OutputRecord, type Reply, status, World, type WorldOptions } from "./world.ts";

interface Body {
  readonly input: string | readonly string[];
  readonly model: string;
}

interface EmbeddingLine extends Omit<OutputRecord, "output"> {
  readonly key: string;
  readonly output: { readonly type: string; readonly embedding: readonly number[] } | null;
  readonly usage: { readonly input_tokens: number };
  readonly cost: { readonly billed_usd: number; readonly ambiguous_usd: number };
  readonly attempts?: number;
}

const TOKENS = 7;

function inputsOf({ input }: Body): readonly string[] {
  return typeof input === "string" ? [input] : input;
}

function numberIn(text: string): number {
  return Number(/\[\[(\d+)\]\]/.exec(text)?.[1]);
}

/** Requests of at most seven inputs. */
const seven = {
  providers: { alpha: { baseUrl: "http://alpha.test/v1", needsKey: false, embeddingInputsMax: 7 } },
};

/** Each input has the vector of its number; the last one is first, as servers may answer. In memory as the transport takes it. */
function vectors(asked: Body): WireResult {
  const inputs = inputsOf(asked);
  const data = inputs.map((text, index) => ({ index, embedding: [numberIn(text), 0.5] })).reverse();
  const tokens = inputs.length * TOKENS;
  const answer = { object: "list", data, usage: { prompt_tokens: tokens, total_tokens: tokens } };
  const bytes = Buffer.from(JSON.stringify(answer));
  const body = takePlain(bytes.byteLength).subarray(0, bytes.byteLength);
  body.set(bytes);
  return { ok: true, status: 200, headers: {}, body };
}

/** A world in which a provider answers embeddings, and the numbers of the inputs of each request. */
class EmbeddingWorld extends World {
  readonly requests: (readonly number[])[] = [];
  /** Undefined: vectors. */
  reply: (inputs: readonly number[], request: number) => Reply | undefined = () => undefined;

  constructor(options: WorldOptions = {}) {
    super(options);
    this.answer = (_line, _attempt, _model, body) => {
      const inputs = inputsOf(body as Body).map(numberIn);
      this.requests.push(inputs);
      return this.reply(inputs, this.requests.length) ?? vectors(body as Body);
    };
  }

  write(count: number, more: (line: number) => object = () => ({})): void {
    const lines = Array.from({ length: count }, (_, index) => {
      const line = index + 1;
      const item = { kind: "embedding", model: "alpha:e", input: `[[${line}]] text`, ...more(line) };
      return `${JSON.stringify({ key: `k${line}`, ...item })}\n`;
    });
    this.disk.put(INPUT, lines.join(""));
  }

  lines(): EmbeddingLine[] {
    return this.output() as unknown as EmbeddingLine[]; // its own records of embeddings
  }

  /** The numbers of the answered lines by their vectors, each under its key. */
  answered(): number[] {
    return this.lines().flatMap(({ key, output }) => {
      if (output === null) return [];
      expect(output.embedding[0]).toBe(Number(key.slice(1)));
      return [Number(key.slice(1))];
    });
  }
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

function sorted(numbers: readonly number[]): number[] {
  return [...numbers].sort((one, other) => one - other);
}

async function runWhole(world: EmbeddingWorld, options: object = {}): Promise<void> {
  const engine = await world.engine();
  await world.settle(engine.run(INPUT, { out: OUTPUT, ...options }).finished);
  await engine.close();
}

describe("the memory of an answer of embeddings", () => {
  it.each([
    ["is given back once their lines are written", {}, true],
    ["stays theirs where a cache keeps them", { cache: { dir: "/cache" } }, false],
  ])("%s", async (_what, options, isGivenBack) => {
    const world = new EmbeddingWorld({ config: seven });
    world.openAnswers = cacheInMemory().open;
    world.write(30);
    const used = new Set<ArrayBufferLike>();
    world.answer = (_line, _attempt, _model, body) => {
      const answer = vectors(body as Body);
      if (answer.ok) used.add(answer.body.buffer);
      return answer;
    };
    await runWhole(world, options);
    const spare = Array.from({ length: 16 }, () => takePlain(1));
    expect(spare.some(({ buffer }) => used.has(buffer))).toBe(isGivenBack);
  });
});

describe("embeddings of a cache", () => {
  it("are what was answered, though the memory of their answers is used again", async () => {
    const world = new EmbeddingWorld({ config: seven });
    world.openAnswers = cacheInMemory().open;
    world.write(60);
    const cache = { dir: "/cache" };
    await runWhole(world, { cache });
    const asked = world.requests.length;
    await runWhole(world, { cache, out: "/again.jsonl" });
    expect(world.requests).toHaveLength(asked);
    const again = world.output("/again.jsonl") as unknown as EmbeddingLine[];
    expect(again).toHaveLength(60);
    for (const { key, output } of again) expect(output?.embedding).toEqual([Number(key.slice(1)), 0.5]);
  });
});

describe("an embedding whose answer has another number of vectors than it has inputs", () => {
  it.each([
    ["token ids, which are one input", [1, 2, 3], 1],
    ["a text", "[[1]] text", 1],
    ["two texts", ["[[1]] a", "[[1]] b"], 2],
    ["two lists of token ids", [[1], [2]], 2],
  ])("is an invalid answer: %s, answered with three vectors", async (_what, input, asked) => {
    const world = new EmbeddingWorld({ config: seven });
    world.write(3, (line) => ({ input: line === 1 ? input : [`[[${line}]] a`, `[[${line}]] b`] }));
    const three = vectors({ model: "e", input: ["[[1]]", "[[1]]", "[[1]]"] });
    world.answer = (_line, _attempt, _model, body) =>
      JSON.stringify((body as Body).input) === JSON.stringify(input) ? three : vectors(body as Body);
    await runWhole(world);
    expect(world.lines().find(({ key }) => key === "k1")).toMatchObject({
      output: null,
      error: { code: "invalid_response", message: expect.stringContaining(`expected ${asked} answer`) },
    });
    expect(world.lines().filter(({ output }) => output !== null)).toHaveLength(2);
  });
});

describe("a moderation", () => {
  const moderationOf = async (input: unknown, results: number): Promise<EmbeddingLine | undefined> => {
    const world = new EmbeddingWorld();
    world.write(3, (line) => ({ kind: "moderation", input: line === 1 ? input : `text ${line}` }));
    world.answer = (_line, _attempt, _model, body) => {
      const isFirst = JSON.stringify((body as Body).input) === JSON.stringify(input);
      const answer = { model: "e", results: Array(isFirst ? results : 1).fill({ flagged: false }) };
      return { ok: true, status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)) };
    };
    await runWhole(world);
    expect(world.lines().filter(({ output }) => output !== null).length).toBeGreaterThanOrEqual(2);
    return world.lines().find(({ key }) => key === "k1");
  };

  it.each([
    ["a text", "a", 2, 1],
    ["three texts", ["a", "b", "c"], 2, 3],
  ])(
    "has an invalid answer with another number of results than inputs: %s",
    async (_what, input, results, asked) => {
      expect(await moderationOf(input, results)).toMatchObject({
        output: null,
        error: { code: "invalid_response", message: expect.stringContaining(`expected ${asked} answer`) },
      });
    },
  );

  it.each([1, 2])(
    "of parts may have %d results: whether each part has one is the server's",
    async (results) => {
      const parts = [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ];
      expect(await moderationOf(parts, results)).toMatchObject({ output: { type: "moderation" } });
    },
  );
});

describe("embeddings of single texts", () => {
  it("share requests, and have a line each with their vector and their share of the usage", async () => {
    const world = new EmbeddingWorld();
    world.write(600);
    await runWhole(world);
    expect(world.requests.length).toBeLessThan(10);
    expect(sorted(world.requests.flat())).toEqual(upTo(600));
    expect(sorted(world.answered())).toEqual(upTo(600));
    for (const line of world.lines())
      expect(line).toMatchObject({ usage: { input_tokens: TOKENS }, attempts: 1 });
  });

  it("are sent apart where their settings differ, where an item has several inputs, and where the configuration says so", async () => {
    const world = new EmbeddingWorld();
    world.write(40, (line) =>
      line % 10 === 0 ? { input: [`[[${line}]]`, "[[0]]"] } : { dimensions: line % 2 === 0 ? 2 : 3 },
    );
    await runWhole(world);
    expect(world.lines().length).toBe(40);
    expect(world.requests.length).toBe(2 + 4);

    const alone = new EmbeddingWorld({
      config: {
        providers: { alpha: { baseUrl: "http://alpha.test/v1", needsKey: false, embeddingInputsMax: 1 } },
      },
    });
    alone.write(12);
    await runWhole(alone);
    expect(alone.requests.length).toBe(12);
  });

  it("keep to the inputs and tokens of a request that the configuration says", async () => {
    const provider = { baseUrl: "http://alpha.test/v1", needsKey: false };
    const world = new EmbeddingWorld({
      config: { providers: { alpha: { ...provider, embeddingInputsMax: 7 } } },
    });
    world.write(100);
    await runWhole(world);
    expect(Math.max(...world.requests.map((inputs) => inputs.length))).toBe(7);
  });

  it("fail alone when the provider refuses them, and harm no other", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 5 }), async (bad) => {
        const world = new EmbeddingWorld();
        world.write(60);
        world.reply = (inputs) =>
          inputs.some((each) => bad.includes(each)) ? status(400, "invalid_input") : undefined;
        await runWhole(world);
        expect(sorted(world.answered())).toEqual(upTo(60).filter((line) => !bad.includes(line)));
        const failed = world.lines().filter(({ output }) => output === null);
        expect(sorted(failed.map(({ key }) => Number(key.slice(1))))).toEqual(sorted(bad));
        expect(failed.every(({ error }) => error?.code === "invalid_request")).toBe(true);
        // Halves of halves: about two requests a step for each of the refused.
        expect(world.requests.length).toBeLessThanOrEqual(4 + 16 * bad.length);
      }),
      { numRuns: 15 },
    );
  });

  it("are repeated together after a failure of the server, and each counts its attempts", async () => {
    const world = new EmbeddingWorld();
    world.write(50);
    world.reply = (_inputs, request) => (request <= 1 ? status(503, "overloaded") : undefined);
    await runWhole(world);
    expect(sorted(world.answered())).toEqual(upTo(50));
    expect(world.requests.length).toBe(2);
    expect(world.lines().every(({ attempts }) => attempts === 2)).toBe(true);
  });

  it("fail alone when they break their server again and again", async () => {
    const world = new EmbeddingWorld();
    world.write(8);
    world.reply = (inputs) => (inputs.includes(5) ? status(500, "crash") : undefined);
    await runWhole(world);
    expect(sorted(world.answered())).toEqual([1, 2, 3, 4, 6, 7, 8]);
  });

  it("are sent in halves when they broke their server twice in a row", async () => {
    const world = new EmbeddingWorld({ config: seven });
    world.write(21);
    world.reply = (inputs) => (inputs.includes(5) ? status(500, "crash") : undefined);
    await runWhole(world);
    expect(sorted(world.answered())).toEqual(upTo(21).filter((line) => line !== 5));
    const all = world.requests.filter((inputs) => inputs.includes(5)).map((inputs) => inputs.length);
    expect(all.slice(0, 6)).toEqual([7, 7, 3, 3, 2, 2]);
  });

  it("are not sent in halves when the provider refuses what all have in common", async () => {
    const world = new EmbeddingWorld({ config: seven });
    world.write(21, () => ({ dimensions: 4_096 }));
    const error = { message: "it has at most 1536", type: "invalid_request_error", param: "dimensions" };
    world.reply = () => ({
      ok: true,
      status: 400,
      headers: {},
      body: Buffer.from(JSON.stringify({ error })),
    });
    await runWhole(world);
    expect(world.requests.map((inputs) => inputs.length)).toEqual([7, 7, 7]);
    expect(world.lines().map((line) => line.error?.code)).toEqual(upTo(21).map(() => "invalid_request"));
  });

  it("are sent in halves when the provider refuses the inputs, or a member that is not of the request", async () => {
    for (const param of ["input", "input[2]", "EmbeddingRequest", null]) {
      const world = new EmbeddingWorld({ config: seven });
      world.write(21, () => ({ dimensions: 2 }));
      const error = { message: "invalid", type: "invalid_request_error", param };
      const refusal = {
        ok: true,
        status: 400,
        headers: {},
        body: Buffer.from(JSON.stringify({ error })),
      } as const;
      world.reply = (inputs) => (inputs.includes(5) ? refusal : undefined);
      await runWhole(world);
      expect(sorted(world.answered())).toEqual(upTo(21).filter((line) => line !== 5));
    }
  });

  it("are repeated as they are, and never halved, while nothing is answered with vectors", async () => {
    const world = new EmbeddingWorld({ config: seven });
    world.write(21);
    world.reply = (_inputs, request) =>
      request <= 9 ? { ok: true, status: 200, headers: {}, body: Buffer.from('{"data":[]}') } : undefined;
    await runWhole(world);
    expect(sorted(world.answered())).toEqual(upTo(21));
    expect(new Set(world.requests.map((inputs) => inputs.length))).toEqual(new Set([7]));
  });

  it("fail alone when their server answers them again and again without a vector", async () => {
    const world = new EmbeddingWorld();
    world.write(8);
    world.reply = (inputs) => {
      const vectorOf = (input: number) => (input === 5 ? null : [input, 0.5]);
      const data = inputs.map((input, index) => ({ index, embedding: vectorOf(input) }));
      return inputs.includes(5)
        ? { ok: true, status: 200, headers: {}, body: Buffer.from(JSON.stringify({ data })) }
        : undefined;
    };
    await runWhole(world);
    expect(sorted(world.answered())).toEqual([1, 2, 3, 4, 6, 7, 8]);
  });

  it("are asked again when the answer has fewer vectors than inputs", async () => {
    const world = new EmbeddingWorld();
    world.write(20);
    world.reply = (inputs, request) =>
      request === 1
        ? vectors({ model: "e", input: inputs.slice(1).map((each) => `[[${each}]]`) })
        : undefined;
    await runWhole(world);
    expect(sorted(world.answered())).toEqual(upTo(20));
  });

  it("cost no more than their cap, and are sent in smaller requests where it leaves less", async () => {
    const world = new EmbeddingWorld({
      config: { prices: { "alpha:e": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 0 } } },
    });
    world.write(64);
    const engine = await world.engine();
    // The most that an item may cost is 0.028 USD (28 tokens), what it costs 0.007.
    const run = engine.run(INPUT, { out: OUTPUT, maxCostUsd: 0.3 });
    const summary = await world.settle(run.finished);
    await engine.close();
    expect(summary.cost.billed_usd).toBeLessThanOrEqual(0.3);
    expect(summary.counts.completed).toBeGreaterThan(20);
    expect(world.requests.length).toBeGreaterThan(1);
  });

  it("expire with their deadline, each by itself", async () => {
    const world = new EmbeddingWorld();
    world.write(30);
    world.reply = () => "hang";
    await runWhole(world, { sla: 1 });
    expect(world.lines().map(({ error }) => error?.code)).toEqual(upTo(30).map(() => "expired"));
  });

  it("have exactly one line each after any kill, and are sent at most once more", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 3 }),
        fc.boolean(),
        async (kills, powerCut) => {
          const world = new EmbeddingWorld({
            latencyMs: 50,
            commitMs: 5,
            config: {
              providers: {
                alpha: { baseUrl: "http://alpha.test/v1", needsKey: false, embeddingInputsMax: 16 },
              },
            },
          });
          world.write(300);
          for (const afterMs of kills) {
            const engine = await world.engine();
            void engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
            await world.clock.advance(afterMs);
            world.kill({ powerCut });
          }
          await runWhole(world);
          expect(sorted(world.answered())).toEqual(upTo(300));
          expect(world.lines().length).toBe(300);
          const times = new Map<number, number>();
          for (const each of world.requests.flat()) times.set(each, (times.get(each) ?? 0) + 1);
          expect(Math.max(...times.values())).toBeLessThanOrEqual(1 + kills.length);
        },
      ),
      { numRuns: 12 },
    );
  });

  it("have a body each in OpenAI's layout", async () => {
    const world = new EmbeddingWorld();
    world.write(5);
    await runWhole(world, { format: "openai" });
    const lines = world.output() as unknown as {
      custom_id: string;
      response: { body: { data: object[] } };
    }[];
    expect(lines.map(({ custom_id: key, response }) => [key, response.body])).toEqual(
      upTo(5).map((line) => [
        `k${line}`,
        {
          object: "list",
          data: [{ object: "embedding", index: 0, embedding: [line, 0.5] }],
          model: null,
          usage: { prompt_tokens: TOKENS, total_tokens: TOKENS },
        },
      ]),
    );
  });
});
