import { describe, expect, it } from "vitest";
import type { ProviderOptions } from "../../src/engine/config/config.ts";
import { loadValidators } from "../../src/json_schema.ts";
import {
  createProvider,
  type Decoded,
  type Encoded,
  type Provider,
  type WireAnswer,
} from "../../src/providers/index.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { itemLine, OUTPUT, World } from "./world.ts";

await loadValidators(); // the engine loads them with the first schema, which would take real time

const OPTIONS = { out: OUTPUT };
const BASE = createProvider({ name: "any", protocol: "openai", baseUrl: "http://mine.test/v2" });

/** A codec that speaks chat completions with one more member, and no penalties. */
const MINE: Provider = {
  ...BASE,
  encode: (request, model, isCheckOnly) => {
    const { presencePenalty, ...config } = request.config;
    const encoded = BASE.encode({ ...request, config }, model, isCheckOnly);
    if (!encoded.ok) return encoded;
    if (
      request.turns.some(({ parts }) =>
        parts.some((part) => typeof part === "string" && part.includes("[[3]]")),
      )
    )
      return { ok: false, code: "unsupported_request", message: "not this one" };
    const dropped =
      presencePenalty === undefined ? encoded.dropped : [...encoded.dropped, "presence_penalty"];
    const body = isCheckOnly === true ? "" : JSON.stringify({ ...JSON.parse(encoded.body), extra: 1 });
    return { ...encoded, dropped, body };
  },
};

/** An object that throws at everything once it was read so many times. */
function hostile<T extends object>(target: T, readsMax: number): T {
  let reads = 0;
  const read =
    <A extends unknown[], R>(real: (...args: A) => R) =>
    (...args: A): R => {
      reads += 1;
      if (reads > readsMax) throw new Error("read too often");
      return real(...args);
    };
  return new Proxy<object>(target, {
    get: read(Reflect.get),
    has: read(Reflect.has),
    ownKeys: read(Reflect.ownKeys),
    getOwnPropertyDescriptor: read(Reflect.getOwnPropertyDescriptor),
    getPrototypeOf: readsMax === 0 ? read(Reflect.getPrototypeOf) : Reflect.getPrototypeOf,
  }) as T;
}

/** An answer, a member of which throws when it is read after the answer was returned. */
function rereading(codec: Provider, answer: WireAnswer, member: "usage" | "members"): Decoded {
  const decoded = codec.decode(answer);
  const value = member === "usage" ? { ...(decoded.usage as object) } : { reasoning: "well" };
  return { ...decoded, [member]: hostile(value, 1) } as Decoded;
}

function worldOf(mine: Provider | ProviderOptions, bodies: unknown[] = []): World {
  return new World({
    config: { providers: { mine, alpha: { baseUrl: "http://alpha.test/v1" } } },
    answer: (line, _attempt, _model, body) => {
      bodies.push(body);
      return openaiAnswer(`answer ${line}`, { inputTokens: 10, outputTokens: 5 });
    },
  });
}

async function run(world: World, options: object = {}) {
  const engine = await world.engine();
  const summary = await world.settle(engine.run("/in.jsonl", { ...OPTIONS, ...options }).finished);
  await world.settle(engine.close());
  return summary;
}

describe("a codec whose answers do not fit a schema", () => {
  const SCHEMA = { type: "object", required: ["sum"] };
  /** Its bodies are lists of pairs, which only it knows. */
  const PAIRS: Provider = {
    ...BASE,
    settings: { ...BASE.settings, protocol: "own" },
    encode: (request, model, isCheckOnly) => {
      const encoded = BASE.encode(request, model, isCheckOnly);
      if (!encoded.ok || isCheckOnly === true) return encoded;
      const { messages } = JSON.parse(encoded.body) as { messages: { role: string; content: string }[] };
      const pairs = messages.map(({ role, content }) => [role, content]);
      return { ...encoded, body: JSON.stringify({ model, pairs }) };
    },
  };

  async function asked(mine: Provider): Promise<{ pairs: [string, string][] }[]> {
    const bodies: { pairs: [string, string][] }[] = [];
    const world = new World({
      config: { providers: { mine } },
      answer: (_line, attempt, _model, body) => {
        bodies.push(body as { pairs: [string, string][] });
        return openaiAnswer(attempt === 1 ? "three" : '{"sum":3}', { inputTokens: 10, outputTokens: 5 });
      },
    });
    world.input(1, "mine:m1");
    const summary = await run(world, { schema: SCHEMA });
    expect(summary.counts).toMatchObject({ completed: 1 });
    return bodies;
  }

  it("puts the answer and what does not fit into its body itself", async () => {
    const [first, second] = await asked({
      ...PAIRS,
      withTurns: (body, { answer, reply }) => {
        const { pairs, ...rest } = JSON.parse(body) as { pairs: string[][] };
        return JSON.stringify({ ...rest, pairs: [...pairs, ["assistant", answer], ["user", reply]] });
      },
    });
    expect(second?.pairs.slice(0, -2)).toEqual(first?.pairs);
    expect(second?.pairs.at(-2)).toEqual(["assistant", "three"]);
    expect(second?.pairs.at(-1)?.[1]).toContain("the answer does not fit its schema");
  });

  it.each<[string, Provider["withTurns"]]>([
    ["has no withTurns", undefined],
    [
      "throws",
      () => {
        throw new Error("no");
      },
    ],
    ["returns a promise", (async () => "no") as unknown as Provider["withTurns"]],
    ["returns no text", (() => 7) as unknown as Provider["withTurns"]],
    ["adds more than the turns", (body) => `${body}${" ".repeat(10_000)}`],
  ])("is asked the same again if it %s", async (_why, withTurns) => {
    const [first, second] = await asked(withTurns === undefined ? PAIRS : { ...PAIRS, withTurns });
    expect(second).toEqual(first);
  });
});

describe("a provider that is a codec of the caller", () => {
  it("makes the bodies, reads the answers, and refuses items before they are sent", async () => {
    const bodies: unknown[] = [];
    const world = worldOf(MINE, bodies);
    world.input(5, (line) => (line === 4 ? "alpha:m1" : "mine:m1"));
    const summary = await run(world);
    expect(summary.counts).toMatchObject({ completed: 4, failed: 1 });
    expect(world.wire.ledger.map(({ origin, path }) => `${origin}${path}`).sort()).toEqual([
      "http://alpha.test/v1/chat/completions",
      ...Array.from({ length: 3 }, () => "http://mine.test/v2/chat/completions"),
    ]);
    expect(bodies.filter((body) => (body as { extra?: number }).extra === 1)).toHaveLength(3);
    const outputs = new Map(world.output().map((line) => [line.key, line]));
    expect(outputs.get("k1")).toMatchObject({ output: { text: "answer 1" } });
    expect(outputs.get("k3")).toMatchObject({
      output: null,
      error: { code: "unsupported_request", message: "not this one", attempts: 0, line: 3 },
    });
    expect(outputs.get("k4")).toMatchObject({ output: { text: "answer 4" } });
    expect(outputs.get("k5")).toMatchObject({ output: { text: "answer 5" } });
  });

  it("names in the warnings of a line what it left out", async () => {
    const world = worldOf(MINE);
    const contents = [{ parts: [{ text: "[[1]] \ud800" }] }];
    const request = { model: "mine:m", contents, generation_config: { presence_penalty: 1 } };
    world.disk.put("/in.jsonl", `${JSON.stringify({ key: "a", request })}\n${itemLine(2, "mine:m", "b")}`);
    await run(world);
    const warnings = new Map(
      world.output().map((line) => [line.key, (line as { warnings?: unknown }).warnings]),
    );
    expect(warnings.get("a")).toEqual([
      { code: "dropped", setting: "presence_penalty" },
      { code: "text_replaced" },
    ]);
    expect(warnings.get("b")).toBeUndefined();
  });

  it("is asked for each item of a quote whether it takes it, and sends nothing", async () => {
    const world = worldOf(MINE);
    world.input(5, "mine:m1");
    const engine = await world.engine();
    const quote = await world.settle(engine.quote("/in.jsonl"));
    expect(quote).toMatchObject({ items: 4 });
    expect(world.sent).toEqual([]);
    await world.settle(engine.close());
  });

  it("ends an item whose codec throws as it encodes, and goes on with the others", async () => {
    const world = worldOf({
      ...BASE,
      encode: (request, model, isCheckOnly) => {
        if (JSON.stringify(request.turns).includes("[[2]]")) throw new TypeError("no such thing");
        return BASE.encode(request, model, isCheckOnly);
      },
    });
    world.input(3, "mine:m1");
    const summary = await run(world);
    expect(summary.counts).toMatchObject({ completed: 2, failed: 1 });
    expect(world.output().find(({ key }) => key === "k2")).toMatchObject({
      error: { code: "invalid_config", message: expect.stringContaining("TypeError: no such thing") },
    });
  });

  it.each([
    ["throws", () => JSON.parse("{")],
    ["returns nothing", () => undefined],
    ["returns a class that does not exist", () => ({ class: "fine", text: "a" })],
    ["returns a success without text", () => ({ class: "success", finish: "stop", usage: undefined })],
    ["returns a success with an unknown end", () => ({ class: "success", text: "a", finish: "banana" })],
    [
      "returns a tier that is not a text",
      () => ({ class: "success", text: "a", finish: "stop", servedTier: [] }),
    ],
    ["returns a promise", () => Promise.reject(new Error("nobody hears this"))],
    ["returns an unknown code", () => ({ class: "permanent", code: "banana", message: "no", scope: "item" })],
    ["returns no message", () => ({ class: "permanent", code: "filtered", scope: "item" })],
  ])("counts an answer whose decode %s as one that is not valid, and fails no run", async (_, broken) => {
    const world = worldOf({
      ...BASE,
      decode: (answer) =>
        Buffer.from(answer.body).toString().includes(`"answer 2"`) ? broken() : BASE.decode(answer),
    });
    world.input(30, "mine:m1");
    const summary = await run(world);
    expect(summary.counts).toMatchObject({ completed: 29, failed: 1 });
    expect(world.output().find(({ key }) => key === "k2")).toMatchObject({
      error: { code: "invalid_response" },
    });
  });

  it.each<readonly [string, (codec: Provider) => Partial<Provider>]>([
    ["limits throw when they are read", () => ({ limits: () => hostile({}, 0) })],
    ["limits throw when they are read again", () => ({ limits: () => hostile({}, 3) })],
    ["limits are a number", () => ({ limits: () => 5 as never })],
    ["limits are texts", () => ({ limits: () => ({ requestsPerMinute: "5" }) as never })],
    [
      "usage throws when it is read again",
      (codec) => ({ decode: (answer) => rereading(codec, answer, "usage") }),
    ],
    [
      "members throw when they are read again",
      (codec) => ({ decode: (answer) => rereading(codec, answer, "members") }),
    ],
    [
      "the answer throws when it is read again",
      (codec) => ({ decode: (answer) => hostile(codec.decode(answer), 9) }),
    ],
    [
      "headers throw when they are read again",
      (codec) => ({ head: (model) => ({ ...codec.head(model), headers: hostile({}, 1) }) }),
    ],
    [
      "a body throws when it is read again",
      (codec) => ({ encode: (...request) => hostile(codec.encode(...request), 6) }),
    ],
  ])("completes its items, or ends them, and never the run, when %s", async (_, broken) => {
    const world = worldOf({ ...BASE, ...broken(BASE) });
    world.input(20, "mine:m1");
    const { status, counts } = await run(world, { finish: true });
    expect(status).toBe("completed");
    expect(counts.completed + counts.failed).toBe(20);
  });

  it.each(["head", "encode", "decode", "limits"] as const)(
    "survives an error of %s that throws when it is read",
    async (method) => {
      const fail = (): never => {
        throw hostile({}, 0);
      };
      const world = worldOf({ ...BASE, [method]: fail });
      world.input(3, "mine:m1");
      const { counts } = await run(world, { finish: true });
      const words = `${method} of the codec of provider "mine" failed: an error that cannot be read`;
      if (method === "limits") expect(counts.completed).toBe(3);
      else expect(world.output()[0]).toMatchObject({ error: { message: words } });
    },
  );

  it("takes limits that are a promise for none, also when it rejects", async () => {
    const limits = () => Promise.reject(new Error("nobody hears this"));
    const world = worldOf({ ...BASE, limits: limits as unknown as Provider["limits"] });
    world.input(3, "mine:m1");
    expect((await run(world)).counts.completed).toBe(3);
  });

  it.each([
    ["encode returns nothing", { encode: () => undefined }, /encode .* must return \{ ok: true, body/],
    ["encode is async", { encode: async () => ({}) }, /encode .* a codec is not async/],
    [
      "encode has an unknown code",
      { encode: () => ({ ok: false, code: "x", message: "y" }) },
      /encode .* ok: false, code/,
    ],
    ["head returns nothing", { head: () => undefined }, /head .* must return \{ origin/],
    [
      "head throws",
      { head: () => JSON.parse("{") },
      /head of the codec of provider "mine" failed: SyntaxError/,
    ],
    [
      "a header has a line end",
      { head: () => ({ origin: "http://mine.test", path: "/", headers: { "x-a": "b\r\nc: d" } }) },
      /head .* the header x-a/,
    ],
  ])("ends an item with the method and what it must return when %s", async (_, broken, words) => {
    const world = worldOf({ ...BASE, ...(broken as unknown as Provider) });
    world.input(1, "mine:m1");
    await run(world);
    expect(world.output()).toMatchObject([
      { error: { code: "invalid_config", attempts: 0, message: expect.stringMatching(words) } },
    ]);
  });

  it("waits at most 15 minutes for a wait that no clock can hold", async () => {
    let answers = 0;
    const world: World = worldOf({
      ...BASE,
      decode: (answer) => {
        answers += 1;
        if (answers > 1) return BASE.decode(answer);
        const wait = { retryAfterMs: 1e18, isRateLimit: true };
        return { class: "refused", code: "rate_limited", message: "slow", scope: "item", ...wait };
      },
    });
    world.input(1, "mine:m1");
    expect((await run(world)).counts.completed).toBe(1);
    expect(world.clock.nowMs()).toBeLessThan(16 * 60_000);
    expect(world.sent).toHaveLength(2);
  });

  it("ends an item for which its codec has no address", async () => {
    const world = worldOf({ ...BASE, head: () => ({ origin: "nowhere", path: "", headers: {} }) });
    world.input(1, "mine:m1");
    await run(world);
    expect(world.output()).toMatchObject([{ error: { code: "invalid_config", attempts: 0 } }]);
  });

  const KEY = "key.of+mine 0123456789";
  const said = `Authorization: Bearer ${KEY}`;
  const fail = (): never => {
    throw new Error(said);
  };
  const cut = (): never => {
    throw new Error(`${"x ".repeat(80)}${said}`); // 200 characters of it are shown
  };
  const refusal = { class: "permanent", code: "invalid_request", message: said, scope: "item" } as const;
  const kept: Provider["encode"] = (...given) => ({ ...BASE.encode(...given), dropped: [said] }) as Encoded;
  it.each<[string, Partial<Provider>]>([
    ["head throws", { head: fail }],
    ["encode throws", { encode: fail }],
    ["encode throws more than is shown", { encode: cut }],
    ["encode refuses the item", { encode: () => ({ ok: false, code: "invalid_config", message: said }) }],
    ["encode leaves a setting out", { encode: kept }],
    ["decode throws", { decode: fail }],
    ["decode throws more than is shown", { decode: cut }],
    ["decode refuses the item", { decode: () => refusal }],
    ["decode names a request", { decode: () => ({ ...refusal, requestId: said, servedTier: said }) }],
  ])("keeps its keys out of all that is written when %s with a key in it", async (_, broken) => {
    const world = worldOf({ ...BASE, settings: { ...BASE.settings, key: KEY }, ...broken });
    world.input(3, "mine:m1");
    const held = await run(world, { waitMs: 0 });
    const summary = await run(world, { waitMs: 0, finish: true });
    expect(world.output()).toHaveLength(3);
    const written = world.disk.paths.map((path) => world.disk.text(path));
    expect(JSON.stringify([held, summary, world.notices, written])).not.toContain(KEY.slice(0, 10));
  });

  const ODD_KEY = 'pass"w0rd:2026/x y+z=';
  it.each([
    ["in a path", encodeURIComponent(ODD_KEY)],
    ["in a query", String(new URLSearchParams({ key: ODD_KEY }))],
    ["in JSON", JSON.stringify({ key: ODD_KEY })],
    ["as it is", ODD_KEY],
  ])("keeps a key out of messages in which it is written %s", async (_, text) => {
    const refuse = (): Encoded => ({ ok: false, code: "invalid_config", message: `no answer of ${text}!` });
    const world = worldOf({ ...BASE, settings: { ...BASE.settings, key: ODD_KEY }, encode: refuse });
    world.input(1, "mine:m1");
    await run(world);
    expect(JSON.stringify(world.output())).not.toMatch(/pass|2026|%2F|x.y/);
  });

  it("says what looks like a key only as [key] where its codec throws", async () => {
    const encode = (): never => {
      throw new Error("no answer for sk-proj-abcdefgh");
    };
    const world = worldOf({ ...BASE, encode });
    world.input(1, "mine:m1");
    await run(world);
    expect(world.output()).toMatchObject([
      {
        error: { message: 'encode of the codec of provider "mine" failed: Error: no answer for [key]' },
      },
    ]);
  });

  it("restores the bodies that memory had no place for as they were", async () => {
    const world = worldOf(MINE);
    const long = "x".repeat(60_000);
    const lines = Array.from({ length: 400 }, (_, index) =>
      itemLine(index + 10, "mine:m1").replace("hello", long),
    );
    world.disk.put("/in.jsonl", lines.join(""));
    const summary = await run(world);
    expect(summary.counts.completed).toBe(400);
  });

  it.each([
    ["a codec without decode", { ...BASE, decode: undefined }, /providers\.mine: .*decode is not a function/],
    ["a codec without settings", { ...BASE, settings: undefined }, /providers\.mine: .*settings/],
  ])("is refused as %s", async (_, mine, message) => {
    const world = worldOf(mine as unknown as Provider);
    await expect(world.engine()).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringMatching(message),
    });
  });

  it("is refused under a name that no provider can have", async () => {
    const world = new World({ config: { providers: { "Not Mine": () => ({ text: "a" }) } } });
    await expect(world.engine()).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringMatching(/Not Mine/),
    });
  });
});
