import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import type { FunctionAnswer, FunctionRequest, ProviderFunction } from "../../src/providers/index.ts";
import { OUTPUT, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const ANSWER: FunctionAnswer = { text: "yes", usage: { inputTokens: 10, outputTokens: 5 } };

type Failing = (call: number) => FunctionAnswer | Promise<FunctionAnswer>;

function worldOf(mine: ProviderFunction, config: ConfigOptions = {}): World {
  const world = new World({ config: { ...config, providers: { mine } } });
  return world;
}

/** A function that fails for the item `[[1]]` as told, and answers all others after 10 ms. */
function failingFirst(world: () => World, failing: Failing): { mine: ProviderFunction; calls: () => number } {
  let calls = 0;
  const mine: ProviderFunction = async ({ messages }) => {
    if (JSON.stringify(messages).includes("[[1]]")) {
      calls += 1;
      return failing(calls);
    }
    await world().clock.sleep(10);
    return ANSWER;
  };
  return { mine, calls: () => calls };
}

async function run(world: World, options: object = {}) {
  const engine = await world.engine();
  const summary = await world.settle(engine.run("/in.jsonl", { ...OPTIONS, ...options }).finished);
  await world.settle(engine.close());
  return summary;
}

function circle(): object {
  const own: { own?: object } = {};
  own.own = own;
  return own;
}

function nested(levels: number): object {
  let inner = {};
  for (let level = 0; level < levels; level += 1) inner = { inner };
  return inner;
}

function throwing(): { readonly text: string } {
  return {
    get text(): string {
      throw Object.defineProperty({}, "message", { get: () => throwing().text });
    },
  };
}

function marked(message: string, marks: object): Error {
  return Object.assign(new Error(message), marks);
}

/** How item 1 ends beside 40 others that are answered. */
async function endOfFirst(failing: Failing, config: ConfigOptions = {}) {
  let world: World | undefined;
  const own = (): World => world as World;
  const { mine, calls } = failingFirst(own, failing);
  world = worldOf(mine, { maxInFlight: 4, ...config });
  world.input(40, "mine:small");
  const summary = await run(world);
  const line = world.output().find(({ key }) => key === "k1");
  return { summary, line, calls: calls() };
}

describe("a provider that is a function", () => {
  it("answers each item with the function's text, tool calls and reason, and counts the usage that it returns", async () => {
    const seen: FunctionRequest[] = [];
    const world = worldOf(async (request) => {
      seen.push(request);
      return {
        text: `for ${request.model}`,
        usage: { inputTokens: 30, outputTokens: 7, cachedTokens: 10, reasoningTokens: 2 },
        finishReason: "length",
        toolCalls: [{ id: "a", type: "function", function: { name: "look", arguments: "{}" } }],
      };
    });
    world.disk.put(
      "/in.jsonl",
      `${JSON.stringify({
        key: "k",
        request: {
          model: "mine:small:v2",
          system_instruction: { parts: [{ text: "Be brief." }] },
          contents: [
            { role: "user", parts: [{ text: "One?" }] },
            { role: "model", parts: [{ text: "One." }] },
            { role: "user", parts: [{ text: "Two" }, { text: "?" }] },
          ],
          generation_config: { temperature: 0.5, max_output_tokens: 9, stop_sequences: ["x"] },
        },
      })}\n`,
    );
    const summary = await run(world);
    expect(seen).toEqual([
      {
        model: "small:v2",
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "One?" },
          { role: "assistant", content: "One." },
          {
            role: "user",
            content: [
              { type: "text", text: "Two" },
              { type: "text", text: "?" },
            ],
          },
        ],
        settings: { temperature: 0.5, maxOutputTokens: 9, stopSequences: ["x"] },
      },
    ]);
    expect(world.output()).toMatchObject([
      {
        key: "k",
        output: { type: "text", text: "for small:v2" },
        finish_reason: "length",
        tool_calls: [{ id: "a" }],
        usage: { input_tokens: 30, cached_tokens: 10, output_tokens: 7, reasoning_tokens: 2 },
      },
    ]);
    expect(summary.usage).toMatchObject({ input_tokens: 30, output_tokens: 7 });
  });

  it("passes on the messages and members of an item in OpenAI's layout unchanged", async () => {
    const seen: FunctionRequest[] = [];
    const world = worldOf((request) => {
      seen.push(request);
      return ANSWER;
    });
    const messages = [
      { role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] },
      { role: "tool", tool_call_id: "a", content: "3" },
    ];
    const tools = [{ type: "function", function: { name: "look" } }];
    const body = { model: "mine:m", messages, tools, temperature: 0.5, user: "me" };
    world.disk.put("/in.jsonl", `${JSON.stringify({ custom_id: "k", body })}\n`);
    await run(world);
    expect(seen).toEqual([
      { model: "m", messages, settings: { temperature: 0.5 }, more: { tools, user: "me" } },
    ]);
    expect(world.output()).toMatchObject([{ key: "k", output: { text: "yes" } }]);
  });

  it("refuses a misspelt member of an item before the function is called", async () => {
    let calls = 0;
    const world = worldOf(() => {
      calls += 1;
      return ANSWER;
    });
    const body = { model: "mine:m", messages: [{ role: "user", content: "a" }], temprature: 0.5 };
    world.disk.put("/in.jsonl", `${JSON.stringify({ custom_id: "k", body })}\n`);
    await run(world);
    expect(world.output()).toMatchObject([
      { key: "k", output: null, error: { code: "invalid_config", attempts: 0 } },
    ]);
    expect(calls).toBe(0);
  });

  it("is called for at most as many items at once as its limits allow", async () => {
    let now = 0;
    let most = 0;
    const world: World = worldOf(
      async () => {
        now += 1;
        most = Math.max(most, now);
        await world.clock.sleep(100);
        now -= 1;
        return ANSWER;
      },
      { limits: { mine: { concurrency: 3 } } },
    );
    world.input(30, "mine:small");
    const summary = await run(world);
    expect(summary.counts.completed).toBe(30);
    expect(most).toBe(3);
  });

  it("is priced by the configuration, and a cap holds what it leaves no money for", async () => {
    const prices = { "mine:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } };
    const priced = worldOf(async () => ANSWER, { prices });
    priced.input(4, "mine:small");
    const summary = await run(priced, { maxCostUsd: 1 });
    expect(summary).toMatchObject({ status: "completed", cost: { billed_usd: 4 * (10e-6 + 10e-6) } });
    const capped = worldOf(async () => ANSWER, { prices });
    capped.input(4, "mine:small");
    const held = await run(capped, { maxCostUsd: 0.00005 });
    expect(held.held).toMatchObject([{ reason: "cap_reached" }]);
  });

  it("holds its items as price_unknown only where a cap is set and the price is not known", async () => {
    const world = worldOf(async () => ANSWER);
    world.input(3, "mine:small");
    expect((await run(world, { maxCostUsd: 1 })).held).toMatchObject([{ reason: "price_unknown", items: 3 }]);
    expect(await run(world)).toMatchObject({ status: "completed", counts: { completed: 3 } });
  });

  it("refuses an item that a cap cannot bound, such as one with a file, before the function is called", async () => {
    let calls = 0;
    const prices = { "mine:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } };
    const world = worldOf(
      () => {
        calls += 1;
        return ANSWER;
      },
      { prices },
    );
    const content = [{ type: "file", file: { file_id: "a" } }];
    const body = { model: "mine:m", messages: [{ role: "user", content }] };
    world.disk.put("/in.jsonl", `${JSON.stringify({ custom_id: "k", body })}\n`);
    await run(world, { maxCostUsd: 1 });
    expect(world.output()).toMatchObject([{ error: { code: "cost_unbounded" } }]);
    expect(calls).toBe(0);
  });

  it("ends an item whose function throws an ordinary error each time, while other items are answered", async () => {
    const { line, calls, summary } = await endOfFirst(() => {
      throw new TypeError("cannot read x");
    });
    expect(line).toMatchObject({ error: { code: "provider_error", attempts: calls, provider: "mine" } });
    expect(line?.error).not.toHaveProperty("provider_status");
    expect(line).toMatchObject({
      error: {
        message: expect.stringContaining('the function of provider "mine" threw TypeError: cannot read x'),
      },
    });
    expect(calls).toBeGreaterThanOrEqual(3);
    expect(summary.counts).toMatchObject({ completed: 39, failed: 1 });
  });

  it("shows no password or key of an error that its function throws", async () => {
    const { line } = await endOfFirst(() => {
      throw marked("AKIAIOSFODNN7EXAMPLE password=pw1 http://bob:pw2@host", { retryable: false });
    });
    expect(line?.error?.message).toBe(
      'the function of provider "mine" threw Error: [key] password=[key] http://bob:[key]@host',
    );
  });

  it("holds all items while its function fails for each of them, and ends none", async () => {
    let isDown = true;
    const world: World = worldOf(async () => {
      if (isDown) throw new Error("down");
      return ANSWER;
    });
    world.input(10, "mine:small");
    const engine = await world.engine();
    const work = engine.run("/in.jsonl", OPTIONS);
    await world.clock.advance(120_000);
    expect(work.progress().held).toMatchObject([{ reason: "outage", provider: "mine" }]);
    expect(work.progress().held[0]).not.toHaveProperty("address");
    isDown = false;
    expect(await world.settle(work.finished)).toMatchObject({ counts: { completed: 10, failed: 0 } });
    await world.settle(engine.close());
  });

  it("does not tell a function that throws at once from one that rejects", async () => {
    const world: World = worldOf((request) => {
      if (JSON.stringify(request.messages).includes("[[1]]")) throw marked("no", { retryable: false });
      return world.clock.sleep(10).then(() => ANSWER);
    });
    world.input(5, "mine:small");
    const summary = await run(world);
    expect(summary.counts).toMatchObject({ completed: 4, failed: 1 });
  });

  it("ends an item at its first error that is marked as not retryable", async () => {
    const { line, calls } = await endOfFirst(() => {
      throw marked("the text has no question", { retryable: false });
    });
    expect(calls).toBe(1);
    expect(line).toMatchObject({ error: { code: "invalid_request", attempts: 1, retryable: false } });
    expect(line).toMatchObject({ error: { message: expect.stringContaining("the text has no question") } });
  });

  it("repeats an item whose error is marked as retryable, also under at_most_once delivery", async () => {
    const failing: Failing = (call) => {
      if (call < 5) throw marked("busy", { retryable: true });
      return ANSWER;
    };
    const { line, calls } = await endOfFirst(failing, { delivery: "at_most_once" });
    expect(line).toMatchObject({ output: { text: "yes" } });
    expect(calls).toBe(5);
  });

  it("does not repeat an ordinary error under at_most_once delivery, because the item may have been answered", async () => {
    const { line, calls } = await endOfFirst(
      () => {
        throw new Error("who knows");
      },
      { delivery: "at_most_once" },
    );
    expect(calls).toBe(1);
    expect(line).toMatchObject({ error: { code: "ambiguous" } });
  });

  it("waits as long as retryAfterMs says before it calls the function again", async () => {
    const times: number[] = [];
    const world: World = worldOf(async () => {
      times.push(world.clock.nowMs());
      if (times.length === 1) throw marked("slow down", { retryAfterMs: 30_000 });
      return ANSWER;
    });
    world.input(1, "mine:small");
    const summary = await run(world);
    expect(summary.counts.completed).toBe(1);
    expect((times[1] as number) - (times[0] as number)).toBeGreaterThanOrEqual(30_000);
  });

  it("reads an error with a status, as SDKs throw it, like an answer of that status", async () => {
    let isKeyGood = false;
    const world: World = worldOf(async () => {
      if (!isKeyGood) throw marked("401 wrong key", { status: 401, headers: new Headers() });
      return ANSWER;
    });
    world.input(5, "mine:small");
    const held = await run(world, { waitMs: 0 });
    expect(held.held).toMatchObject([{ reason: "authentication", items: 5 }]);
    expect(held.held?.[0]?.message).not.toContain("no key is set");
    isKeyGood = true;
    expect(await run(world)).toMatchObject({ counts: { completed: 5 } });
  });

  it("is called at most twice when it refuses a key that never worked, and shows nothing of its message", async () => {
    const answering = async (): Promise<FunctionAnswer> => {
      await world.clock.sleep(100);
      throw marked("the prompt was: SECRET", { status: 401, code: "invalid_api_key" });
    };
    let calls = 0;
    const world: World = worldOf(() => {
      calls += 1;
      return answering();
    });
    world.input(50, "mine:small");
    const { held } = await run(world, { waitMs: 0 });
    expect(held).toMatchObject([{ reason: "authentication", items: 50, was_accepted: false }]);
    expect(held?.[0]?.message).toBe("mine answered 401 (invalid_api_key): the key was not accepted");
    expect(calls).toBeLessThanOrEqual(2);
  });

  it.each([
    [400, "invalid_request"],
    [413, "request_too_large"],
    [422, "invalid_request"],
  ])("shows nothing of the message of an error with the status %s", async (code, name) => {
    const world = worldOf(() => Promise.reject(marked("the prompt was: SECRET", { status: code })));
    world.input(2, "mine:small");
    await run(world);
    expect(world.output()).toMatchObject([{ error: { code: name } }, { error: { code: name } }]);
    expect(JSON.stringify(world.output())).not.toContain("SECRET");
  });

  it("obeys the Retry-After header of an SDK's error", async () => {
    const times: number[] = [];
    const world: World = worldOf(async () => {
      times.push(world.clock.nowMs());
      if (times.length === 1)
        throw marked("429", { status: 429, headers: new Headers({ "retry-after": "20" }) });
      return ANSWER;
    });
    world.input(1, "mine:small");
    await run(world);
    expect((times[1] as number) - (times[0] as number)).toBeGreaterThanOrEqual(20_000);
  });

  it.each([
    ["nothing", undefined, "returned nothing"],
    ["a text", "yes", "returned string"],
    ["a list", ["yes"], "returned a list"],
    ["an object without text", { content: "yes" }, "returned an object with content"],
    ["a text that is not a string", { text: 7 }, "returned text that is not a string (number)"],
    ["a number that JSON cannot hold", { text: "a", usage: 1n }, "JSON cannot hold: Do not know how to"],
    ["a circle", { text: "a", toolCalls: [circle()] }, "JSON cannot hold: Converting circular structure"],
    [
      "ten thousand levels",
      { text: "a", toolCalls: [nested(20_000)] },
      "JSON cannot hold: Maximum call stack",
    ],
    ["a getter that throws", throwing(), "JSON cannot hold"],
  ])("counts %s as an answer that is not valid", async (_, answer, words) => {
    const { line } = await endOfFirst(() => answer as unknown as FunctionAnswer);
    expect(line).toMatchObject({ output: null, error: { code: "invalid_response" } });
    expect(line).toMatchObject({ error: { message: expect.stringContaining(words) } });
  });

  it("counts an answer of more than 32 MiB as too large, and does not affect the others", async () => {
    const { line, summary } = await endOfFirst(() => ({ text: "x".repeat(33 * 1024 * 1024) }));
    expect(line).toMatchObject({ output: null, error: { code: "response_too_large" } });
    expect(summary.counts.completed).toBe(39);
  });

  it("keeps an answer of 20 MiB", async () => {
    const { line } = await endOfFirst(() => ({ text: "y".repeat(20 * 1024 * 1024) }));
    expect(line?.output?.text.length).toBe(20 * 1024 * 1024);
  });

  it("aborts the signal at the time-out, and calls again", async () => {
    const signals: AbortSignal[] = [];
    const world: World = worldOf(
      (_, { signal }) => {
        signals.push(signal);
        return signals.length === 1 ? new Promise<never>(() => undefined) : ANSWER;
      },
      { attemptMsMax: 5_000 },
    );
    world.input(1, "mine:small");
    const summary = await run(world);
    expect(summary.counts.completed).toBe(1);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it("ends an item at its deadline though its function never settles, and frees its place", async () => {
    const signals: AbortSignal[] = [];
    const world: World = worldOf((_, { signal }) => {
      signals.push(signal);
      return new Promise<never>(() => undefined);
    });
    world.input(2, "mine:small");
    const summary = await run(world, { sla: 1 });
    expect(summary.counts).toMatchObject({ expired: 2 });
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });

  it("aborts the signals of a run that nobody waits for, and answers its items in the next one", async () => {
    const signals: AbortSignal[] = [];
    let isHanging = true;
    const world: World = worldOf((_, { signal }) => {
      signals.push(signal);
      return isHanging ? new Promise<never>(() => undefined) : ANSWER;
    });
    world.input(3, "mine:small");
    const engine = await world.engine();
    const work = engine.run("/in.jsonl", OPTIONS);
    await world.clock.advance(3_000);
    expect(signals).toHaveLength(3);
    await world.settle(engine.close());
    expect(await world.settle(work.finished)).toMatchObject({ status: "stopped" });
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    isHanging = false;
    expect(await run(world)).toMatchObject({ counts: { completed: 3 } });
  });

  it("ignores an answer that arrives after the deadline", async () => {
    const world: World = worldOf(async () => {
      await world.clock.sleep(300_000);
      return ANSWER;
    });
    world.input(1, "mine:small");
    expect((await run(world, { sla: 1 })).counts).toMatchObject({ expired: 1, completed: 0 });
    await world.clock.advance(600_000);
    expect(world.output()).toHaveLength(1);
  });

  it("keeps the other providers on the wire", async () => {
    const world = new World({
      config: { providers: { mine: async () => ANSWER, alpha: { baseUrl: "http://alpha.test/v1" } } },
    });
    world.input(10, (line) => (line % 2 === 0 ? "alpha:m1" : "mine:m1"));
    expect((await run(world)).counts.completed).toBe(10);
    expect(world.sent.map(({ line }) => line).sort((a, b) => a - b)).toEqual([2, 4, 6, 8, 10]);
  });
});
