/**
 * `embed` and `embedMany` of the AI SDK on models of perigee, before a server that speaks OpenAI's protocol.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { scheduler } from "node:timers/promises";
import { APICallError } from "@ai-sdk/provider";
import { embed, embedMany } from "ai";
import { describe, expect, it, onTestFinished } from "vitest";
import { createPerigee } from "../../src/ai/index.ts";
import { SdkEngine } from "./sdk_engine.ts";

interface Body {
  readonly model: string;
  readonly input: string | readonly string[];
  readonly dimensions?: number;
  readonly encoding_format?: string;
  readonly user?: string;
}

/** The vector of a text, so that a test sees which text an embedding is of. */
const vectorOf = (text: string): number[] => [text.length, text.charCodeAt(0) / 256];
const inputsOf = ({ input }: Body): readonly string[] => (typeof input === "string" ? [input] : input);

/** A server, and an engine whose provider `mine` it is. */
class Embeddings extends SdkEngine {
  readonly bodies: Body[] = [];
  /** The status of a request; 200 is answered with vectors. */
  status: (body: Body) => number | Promise<number> = () => 200;
  #url = "";

  /** Each text that was asked for, in order. */
  get askedTexts(): string[] {
    return this.bodies.flatMap((body) => [...inputsOf(body)]);
  }

  async openHere(config: Parameters<SdkEngine["open"]>[0] = {}) {
    if (this.#url === "") this.#url = await this.#listen();
    return this.open({ ...config, providers: { local: { baseUrl: `${this.#url}/v1`, key: "k" } } });
  }

  async #listen(): Promise<string> {
    const server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += String(chunk);
      const body = JSON.parse(text) as Body;
      this.bodies.push(body);
      const status = await this.status(body);
      const inputs = inputsOf(body);
      const shown = (numbers: number[]) =>
        body.encoding_format === "base64"
          ? Buffer.from(new Float32Array(numbers).buffer).toString("base64")
          : numbers;
      const data = inputs.map((each, index) => ({
        object: "embedding",
        index,
        embedding: shown(vectorOf(each)),
      }));
      const usage = { prompt_tokens: 3 * inputs.length, total_tokens: 3 * inputs.length };
      const answer =
        status === 200
          ? { object: "list", data, model: body.model, usage }
          : { error: { code: "bad_input", message: "no" } };
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
}

const numbered = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `text ${index + 1}`);

describe("embed", () => {
  it("returns the vector of its value, its tokens, and what perigee knows of it", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(
      await world.openHere({ prices: { "local:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 0 } } }),
    );
    const result = await embed({
      model: perigee.embeddingModel("local:small", { sla: 60 }),
      value: "a red bicycle",
      headers: { "x-own": "1" },
      providerOptions: {
        local: { dimensions: 2, user: "u1", store: true },
        openai: { dimensions: 5 },
        perigee: { metadata: { row: 7 } },
      },
    });
    expect(result.embedding).toEqual(vectorOf("a red bicycle"));
    expect(result.usage).toEqual({ tokens: 3 });
    expect(result.warnings).toEqual([
      expect.objectContaining({ type: "unsupported", feature: "headers" }),
      expect.objectContaining({ type: "unsupported", feature: "providerOptions.local.store" }),
    ]);
    const facts = result.providerMetadata?.["perigee"];
    expect(facts).toMatchObject({
      taskId: expect.any(String),
      model: "local:small",
      costUsd: expect.closeTo(3e-6),
    });
    expect(await world.engine.task(String(facts?.["taskId"]))).toMatchObject({ status: "completed" });
    expect(world.bodies).toEqual([{ input: "a red bicycle", user: "u1", dimensions: 2, model: "small" }]);
  });

  it("reads vectors that were asked for in base64", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.openHere());
    const { embedding } = await embed({
      model: perigee.textEmbeddingModel("local:small"),
      value: "odd",
      providerOptions: { perigee: { more: { encoding_format: "base64" } } },
    });
    expect(embedding).toEqual(vectorOf("odd"));
    expect(world.bodies[0]?.encoding_format).toBe("base64");
  });

  it("rejects at once when it is aborted, and its value is asked for by the next call", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.openHere({ maxInFlight: 1 }));
    let release = (): void => undefined;
    const asked = new Promise<void>((resolve) => {
      world.status = () => {
        resolve();
        return new Promise((answer) => {
          release = () => answer(200);
        });
      };
    });
    const model = perigee.embeddingModel("local:small");
    const first = embed({ model, value: "in flight" });
    await asked;
    const controller = new AbortController();
    const waits = (more: object) =>
      embed({ model, value: "waits", providerOptions: { perigee: { key: "waits" } }, ...more });
    const second = waits({ abortSignal: controller.signal });
    await Promise.resolve();
    controller.abort();
    await expect(second).rejects.toMatchObject({ name: "AbortError" });
    world.status = () => 200;
    release();
    expect((await first).embedding).toEqual(vectorOf("in flight"));
    expect(world.askedTexts).toEqual(["in flight"]);
    expect((await waits({})).embedding).toEqual(vectorOf("waits"));
  });
});

describe("embedMany", () => {
  it("returns a vector for each of its values in their order, of a few requests", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.openHere());
    const values = numbered(1_000);
    const { embeddings, usage } = await embedMany({ model: perigee.embeddingModel("local:small"), values });
    expect(embeddings).toEqual(values.map(vectorOf));
    expect(usage).toEqual({ tokens: 3_000 });
    expect(world.askedTexts.toSorted()).toEqual(values.toSorted());
    expect(world.bodies.length).toBeLessThanOrEqual(12);
  });

  it("puts the values of separate calls into shared requests", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.openHere(), { sla: 60 });
    const values = numbered(300);
    const model = perigee.embeddingModel("local:small");
    const results = await Promise.all(values.map((value) => embed({ model, value })));
    expect(results.map(({ embedding }) => embedding)).toEqual(values.map(vectorOf));
    expect(world.bodies.length).toBeLessThanOrEqual(12);
  });

  it("asks for no value again in the next process that was answered, and again for one that failed", async () => {
    await using world = new Embeddings();
    const values = numbered(20);
    const run = async () => {
      const perigee = createPerigee(await world.openHere());
      const result = await embedMany({
        model: perigee.embeddingModel("local:small"),
        values,
        maxRetries: 5,
      }).catch((error: unknown) => error);
      await world.close();
      return result;
    };
    world.status = (body) => (inputsOf(body).includes("text 13") ? 400 : 200);
    const failed = await run();
    expect(APICallError.isInstance(failed)).toBe(true);
    expect(failed).toMatchObject({
      message: expect.stringContaining("values[12]: "),
      code: "invalid_request",
      statusCode: 400,
      isRetryable: false,
    });
    world.bodies.length = 0;
    world.status = () => 200;
    expect(await run()).toMatchObject({ embeddings: values.map(vectorOf), usage: { tokens: 60 } });
    expect(world.askedTexts).toEqual(["text 13"]);
    expect(await run()).toMatchObject({ embeddings: values.map(vectorOf) });
    expect(world.bodies).toHaveLength(1);
  });

  it("may have a key, under which its values are asked for once, and others are other calls", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.openHere());
    const many = (values: string[]) =>
      embedMany({
        model: perigee.embeddingModel("local:small"),
        values,
        providerOptions: { perigee: { key: "catalogue" } },
      });
    const values = numbered(300); // of two calls
    await Promise.all([many(values), many(values)]);
    expect(world.askedTexts).toHaveLength(300);
    expect((await many(["another"])).embeddings).toEqual([vectorOf("another")]);
    expect(world.askedTexts).toHaveLength(301);
  });

  it("does not wait for what only the program can change", async () => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.openHere(), { sla: 60 });
    await expect(
      embedMany({ model: perigee.embeddingModel("openai:text-embedding-3-small"), values: ["one", "two"] }),
    ).rejects.toMatchObject({ code: "key_missing", message: expect.stringMatching(/set OPENAI_API_KEY/) });
  });

  it("says what only the program can change when the cancelled task ends before its cancel is acknowledged", async () => {
    await using world = new Embeddings();
    const engine = await world.openHere();
    const slow = new Proxy(engine, {
      get: (target, name) => {
        const found: unknown = Reflect.get(target, name, target);
        if (typeof found !== "function") return found;
        if (name !== "cancel") return found.bind(target);
        return async (taskId: string) => {
          await target.cancel(taskId);
          for (let turn = 0; turn < 100; turn += 1) await scheduler.yield(); // the end of the task is told meanwhile
        };
      },
    });
    const model = createPerigee(slow, { sla: 60 }).embeddingModel("openai:text-embedding-3-small");
    await expect(embedMany({ model, values: ["one", "two"] })).rejects.toMatchObject({ code: "key_missing" });
  });

  it.each([
    ["anthropic:claude-haiku-4-5", "unsupported_request"],
    ["echo:test", undefined],
  ])("of %s ends with %s", async (model, code) => {
    await using world = new Embeddings();
    const perigee = createPerigee(await world.open({ providers: { anthropic: { key: "k" } } }));
    const result = embedMany({ model: perigee.embeddingModel(model), values: ["one", "two"] });
    if (code === undefined) expect((await result).embeddings.map(({ length }) => length)).toEqual([8, 8]);
    else await expect(result).rejects.toMatchObject({ code });
  });
});
