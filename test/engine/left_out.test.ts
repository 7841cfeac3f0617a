import { describe, expect, it } from "vitest";
import type { MissingProvider, RunWarning } from "../../src/engine/runs/warning_feed.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import type { OutputLine } from "../../src/work/item.ts";
import { finish, killedAfter } from "./runs.ts";
import { INPUT, OUTPUT, status, World } from "./world.ts";

const SAMPLING = { temperature: 0.2, seed: 7 };
const DROPPED = [{ code: "dropped", setting: "temperature" }];

/** A world whose provider is OpenAI's, with items of a model that takes no temperature. */
function reasoning(count: number, settings: object = SAMPLING, model = "openai:o3"): World {
  const world = new World({
    config: { providers: { openai: { baseUrl: "http://alpha.test/v1", key: "k" } } },
  });
  const lines = Array.from({ length: count }, (_, index) => {
    const contents = [{ parts: [{ text: `[[${index + 1}]] hello` }] }];
    return `${JSON.stringify({ key: `k${index + 1}`, request: { model, contents, generation_config: settings } })}\n`;
  });
  world.disk.put(INPUT, lines.join(""));
  return world;
}

function linesOf(world: World): OutputLine[] {
  return (world.disk.text(OUTPUT) ?? "")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as OutputLine);
}

describe("a sampling setting that the model does not take", () => {
  it("is left out, named in each line, counted in the summary and reported once", async () => {
    const world = reasoning(3);
    const told: RunWarning[] = [];
    const summary = await finish(world, { out: OUTPUT, onWarning: (one: RunWarning) => told.push(one) });
    expect(linesOf(world).map(({ warnings }) => warnings)).toEqual([DROPPED, DROPPED, DROPPED]);
    expect(summary.warnings).toEqual({ "dropped:temperature": 3 });
    expect(told).toEqual([
      { warning: { code: "dropped", setting: "temperature" }, model: "openai:o3", line: 1 },
    ]);
    const body = JSON.parse(world.wire.ledger[0]?.body ?? "") as object;
    expect(body).toMatchObject({ seed: 7 });
    expect(body).not.toHaveProperty("temperature");
  });

  it("is named in the line of an item that failed, and in objects of a list", async () => {
    const world = reasoning(1);
    world.answer = () => status(400, "invalid_request_error");
    await finish(world);
    expect(linesOf(world)[0]).toMatchObject({ output: null, warnings: DROPPED });
    world.answer = () => openaiAnswer("18", { inputTokens: 1, outputTokens: 1 });
    const engine = await world.engine();
    const item = { model: "openai:o3", input: "[[9]]", generation_config: { temperature: 0.2 } };
    const task = await world.settle(engine.submit([item]));
    expect(task.objects[0]).toMatchObject({ status: "completed", warnings: DROPPED });
    await world.settle(engine.close());
  });

  it("is counted once for each line when the process is killed on the way", async () => {
    for (const liveMs of [15, 25, 35]) {
      const world = reasoning(200);
      await killedAfter(world, liveMs);
      const summary = await finish(world);
      expect(summary.warnings).toEqual({ "dropped:temperature": 200 });
      expect(linesOf(world)).toHaveLength(200);
    }
  });

  it("is counted once for each line that is left, when failed lines run again and when the input changed", async () => {
    const world = reasoning(4);
    world.answer = (line) =>
      line === 2 ? status(400, "bad") : openaiAnswer("18", { inputTokens: 1, outputTokens: 1 });
    await finish(world);
    world.answer = () => openaiAnswer("18", { inputTokens: 1, outputTokens: 1 });
    const again = await finish(world, { out: OUTPUT, retryFailed: ["invalid_request"] });
    expect(again).toMatchObject({ counts: { completed: 4 }, warnings: { "dropped:temperature": 4 } });
    world.disk.put(INPUT, (world.disk.text(INPUT) ?? "").split("\n").slice(1).join("\n"));
    const updated = await finish(world, { out: OUTPUT, update: true, prune: true });
    expect(updated).toMatchObject({ items: 3, warnings: { "dropped:temperature": 3 } });
  });

  it("is not warned of where it is the default, or where the model takes it", async () => {
    for (const world of [reasoning(1, { temperature: 1 }), reasoning(1, SAMPLING, "openai:gpt-4o")]) {
      const summary = await finish(world);
      expect(summary.warnings).toEqual({});
      expect(linesOf(world)[0]).not.toHaveProperty("warnings");
    }
  });

  it("fails the line before it is sent when the configuration says so", async () => {
    const world = reasoning(1);
    world.reconfigure({ unsupportedConfig: "refuse" });
    await finish(world);
    expect(world.sent).toEqual([]);
    expect(linesOf(world)[0]?.error).toMatchObject({
      code: "invalid_config",
      message: "openai:o3 does not take temperature; leave it out",
    });
  });
});

describe("a setting that changes the request or the answer", () => {
  it("fails the line before it is sent", async () => {
    const world = reasoning(1, { stop_sequences: ["END"] });
    const summary = await finish(world);
    expect(world.sent).toEqual([]);
    expect(summary).toMatchObject({ errors: { invalid_config: 1 }, requests_sent: 0, warnings: {} });
    expect(linesOf(world)[0]?.error?.message).toBe(
      'openai:o3 does not take stop_sequences; leave it out, or set unsupportedConfig to "drop"',
    );
  });

  it("is left out and named when the configuration says so, of one provider or of all", async () => {
    const dropping = { unsupportedConfig: "drop" } as const;
    const openai = { baseUrl: "http://alpha.test/v1", key: "k", ...dropping };
    for (const config of [dropping, { providers: { openai } }]) {
      const world = reasoning(1, { stop_sequences: ["END"], temperature: 0 });
      world.reconfigure(config);
      await finish(world);
      expect(linesOf(world)[0]?.warnings).toEqual([
        { code: "dropped", setting: "stop_sequences" },
        { code: "dropped", setting: "temperature" },
      ]);
    }
  });
});

describe("what a provider answers besides text", () => {
  it("is kept in the line: a tool call, thoughts, a refusal, log probabilities", async () => {
    const world = reasoning(3, {});
    const calls = [{ id: "c", type: "function", function: { name: "add", arguments: "{}" } }];
    const choices = [
      { finish_reason: "tool_calls", message: { content: null, tool_calls: calls } },
      {
        finish_reason: "stop",
        message: { content: "18", reasoning_content: "hm" },
        logprobs: { content: [] },
      },
      { finish_reason: "stop", message: { content: null, refusal: "No." } },
    ];
    world.answer = (line) => {
      const usage = { prompt_tokens: 5, completion_tokens: 7 };
      const body = Buffer.from(JSON.stringify({ choices: [choices[line - 1]], usage }));
      return { ok: true, status: 200, headers: {}, body };
    };
    const summary = await finish(world);
    const lines = new Map(linesOf(world).map((line) => [line.key, line]));
    const plain = (text: string): object => ({ type: "text", text });
    expect(lines.get("k1")).toMatchObject({
      output: plain(""),
      finish_reason: "tool_calls",
      tool_calls: calls,
    });
    expect(lines.get("k2")).toMatchObject({
      output: plain("18"),
      finish_reason: "stop",
      reasoning: "hm",
      logprobs: { content: [] },
    });
    expect(lines.get("k3")).toMatchObject({ output: plain(""), finish_reason: "refusal", refusal: "No." });
    expect(lines.get("k3")?.output).toEqual(plain(""));
    expect(summary).toMatchObject({
      counts: { completed: 3 },
      usage: { output_tokens: 21 },
      requests_sent: 3,
    });
  });
});

describe("a provider that lines are for and that is not there", () => {
  const line = (number: number, model: string): string =>
    `${JSON.stringify({ key: `k${number}`, request: { model, contents: [{ parts: [{ text: `[[${number}]]` }] }] } })}\n`;

  it("is reported once, with its first line, before anything is sent, and the others are answered", async () => {
    const world = new World();
    world.disk.put(
      INPUT,
      ["alpha:m1", "groq:llama", "alhpa:m1", "groq:other", "alhpa:m2", "alpha:m2"]
        .map((model, index) => line(index + 1, model))
        .join(""),
    );
    const told: MissingProvider[] = [];
    const summary = await finish(world, {
      out: OUTPUT,
      onMissing: (one: MissingProvider) => {
        expect(world.sent).toEqual([]);
        told.push(one);
      },
    });
    expect(summary).toMatchObject({ status: "paused", counts: { completed: 2, submitted: 4 } });
    expect(told).toEqual([
      {
        reason: "provider_missing",
        message: 'provider "alhpa" is not configured; did you mean "alpha"?',
        line: 3,
      },
      {
        reason: "key_missing",
        message: 'provider "groq" needs a key; set GROQ_API_KEY',
        line: 2,
      },
    ]);
  });
});
