/**
 * The AI SDK's own functions on models of perigee.
 */
import { APICallError } from "@ai-sdk/provider";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { createPerigee } from "../../src/ai/index.ts";
import { SdkEngine } from "./sdk_engine.ts";

/** An error as a provider's SDK throws it. */
const refused = (status: number): Error => Object.assign(new Error("no"), { status });

describe("generateText", () => {
  it("is answered, with usage, and with what perigee knows of it", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(
      await world.open({ prices: { "mine:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } } }),
    );
    world.answer = () => ({
      text: "blue",
      reasoning: "light scatters",
      usage: { inputTokens: 10, outputTokens: 6, cachedTokens: 4, reasoningTokens: 2 },
    });
    const result = await generateText({
      model: perigee("mine:small"),
      system: "Be brief.",
      prompt: "Which colour has the sky?",
      temperature: 0.5,
      maxOutputTokens: 50,
      stopSequences: ["\n"],
      seed: 7,
    });
    expect(result).toMatchObject({
      text: "blue",
      reasoningText: "light scatters",
      finishReason: "stop",
      usage: { inputTokens: 10, outputTokens: 6, cachedInputTokens: 4, reasoningTokens: 2, totalTokens: 16 },
      warnings: [],
      response: { modelId: "mine:small" },
    });
    const facts = result.providerMetadata?.["perigee"];
    expect(facts).toMatchObject({ taskId: expect.any(String), attempts: 1, costUsd: expect.closeTo(22e-6) });
    expect(await world.engine.task(String(facts?.["taskId"]))).toMatchObject({ status: "completed" });
    expect(world.asked).toEqual([
      {
        model: "small",
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "Which colour has the sky?" },
        ],
        settings: { temperature: 0.5, maxOutputTokens: 50, stopSequences: ["\n"], seed: 7 },
      },
    ]);
  });

  it("asks identical prompts as often as they are made, and finds their answers in the next process in the same order", async () => {
    await using world = new SdkEngine();
    let count = 0;
    world.answer = () => {
      count += 1;
      return { text: `answer ${count}` };
    };
    const sample = async (): Promise<string[]> => {
      const perigee = createPerigee(await world.open(), { id: "samples", sla: 60 });
      const texts: string[] = [];
      for (let time = 0; time < 3; time += 1)
        texts.push((await generateText({ model: perigee("mine:small"), prompt: "Say a number." })).text);
      await world.close();
      return texts;
    };
    expect(await sample()).toEqual(["answer 1", "answer 2", "answer 3"]);
    expect(await sample()).toEqual(["answer 1", "answer 2", "answer 3"]);
    const other = createPerigee(await world.open(), { id: "other samples", sla: 60 });
    expect((await generateText({ model: other("mine:small"), prompt: "Say a number." })).text).toBe(
      "answer 4",
    );
  });

  it("counts identical calls of all providers that are made of one engine", async () => {
    await using world = new SdkEngine();
    const engine = await world.open();
    for (let time = 0; time < 2; time += 1)
      await generateText({ model: createPerigee(engine)("mine:small"), prompt: "Say a number." });
    expect(world.asked).toHaveLength(2);
  });

  it("asks once for each key, and refuses another call under it", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    const ask = (prompt: string) =>
      generateText({
        model: perigee("mine:small"),
        prompt,
        providerOptions: { perigee: { key: "order 4711", metadata: { order: 4711 } } },
      });
    const [first, again] = await Promise.all([ask("Which?"), ask("Which?")]);
    expect(first.providerMetadata).toEqual(again.providerMetadata);
    expect(world.asked).toHaveLength(1);
    const { taskId } = first.providerMetadata?.["perigee"] ?? {};
    await expect(ask(`What?\n${"a word ".repeat(20)}`)).rejects.toMatchObject({
      code: "conflict",
      message: `the call "What? a word a word a word a word a word a word a word a ..." has the key "order 4711", under which another call was made before (task ${taskId}); use another key, or forget that task with engine.forget("${taskId}")`,
    });
  });

  it("is not repeated by the AI SDK when perigee has given up", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    world.answer = () => {
      throw refused(400);
    };
    const error: unknown = await generateText({
      model: perigee("mine:small"),
      prompt: "Which?",
      maxRetries: 5,
    }).catch((caught: unknown) => caught);
    expect(APICallError.isInstance(error)).toBe(true);
    expect(error).toMatchObject({
      name: "AI_APICallError",
      code: "invalid_request",
      statusCode: 400,
      isRetryable: false,
      data: { attempts: 1 },
      taskId: expect.any(String),
    });
    expect(world.asked).toHaveLength(1);
  });

  it("asks again in the next process for what failed, and only for that", async () => {
    await using world = new SdkEngine();
    const ask = async (): Promise<string[]> => {
      const perigee = createPerigee(await world.open());
      const texts = await Promise.all(
        ["one", "two"].map((prompt) =>
          generateText({ model: perigee("mine:small"), prompt }).then(
            ({ text }) => text,
            (error: { code: string }) => error.code,
          ),
        ),
      );
      await world.close();
      return texts;
    };
    const asksOfTwo = () => world.asked.filter(({ messages }) => messages[0]?.content === "two").length;
    world.answer = ({ messages }) => {
      if (messages[0]?.content === "two") throw refused(400);
      return { text: "yes" };
    };
    expect(await ask()).toEqual(["yes", "invalid_request"]);
    expect(await ask()).toEqual(["yes", "invalid_request"]);
    expect(asksOfTwo()).toBe(2);
    world.answer = () => ({ text: "yes, too" });
    expect(await ask()).toEqual(["yes", "yes, too"]);
    expect(await ask()).toEqual(["yes", "yes, too"]);
    expect(world.asked).toHaveLength(4);
  });

  it("rejects at once when it is aborted, cancels its task, and is asked again later", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open({ maxInFlight: 1 }));
    let isAsked = (): void => undefined;
    const asked = new Promise<void>((resolve) => {
      isAsked = resolve;
    });
    let release = (): void => undefined;
    world.answer = () => {
      isAsked();
      return new Promise((resolve) => {
        release = () => resolve({ text: "late" });
      });
    };
    const first = generateText({ model: perigee("mine:small"), prompt: "in flight" });
    await asked;
    const controller = new AbortController();
    const second = generateText({
      model: perigee("mine:small"),
      prompt: "waits",
      abortSignal: controller.signal,
      providerOptions: { perigee: { key: "waits" } },
    });
    await Promise.resolve();
    controller.abort();
    await expect(second).rejects.toMatchObject({ name: "AbortError" });
    release();
    expect((await first).text).toBe("late");
    expect(world.asked).toHaveLength(1);
    world.answer = () => ({ text: "yes" });
    const again = await generateText({
      model: perigee("mine:small"),
      prompt: "waits",
      providerOptions: { perigee: { key: "waits" } },
    });
    expect(again.text).toBe("yes");
  });

  it("takes settings of the model's provider, and says which it could not take", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    const { warnings } = await generateText({
      model: perigee("mine:small"),
      prompt: "Which?",
      headers: { "x-own": "1" },
      providerOptions: {
        mine: { reasoningEffort: "low", store: true },
        anthropic: { thinking: { type: "enabled" } },
        perigee: { more: { logit_bias: { "5": 1 } } },
      },
    });
    expect(world.asked[0]).toMatchObject({
      settings: { thinkingConfig: { thinkingLevel: "low" } },
      more: { logit_bias: { "5": 1 } },
    });
    expect(warnings).toEqual([
      expect.objectContaining({ type: "unsupported", feature: "providerOptions.mine.store" }),
      expect.objectContaining({ type: "unsupported", feature: "headers" }),
    ]);
    await expect(
      generateText({
        model: perigee("mine:small"),
        prompt: "?",
        providerOptions: { perigee: { slaa: 5 } },
      }),
    ).rejects.toThrow('providerOptions.perigee: "slaa" is not known');
  });

  it.each([
    ["nobody:small", undefined, "provider_missing", /provider "nobody" is not configured/],
    ["openai:gpt-5-mini", undefined, "key_missing", /set OPENAI_API_KEY/],
    ["openai:gpt-5-mini", 60, "key_missing", /set OPENAI_API_KEY/],
  ])(
    "does not wait for what only the program can change: %s with an sla of %s",
    async (model, sla, code, words) => {
      await using world = new SdkEngine();
      const perigee = createPerigee(await world.open(), sla === undefined ? {} : { sla });
      const error: unknown = await generateText({ model: perigee(model), prompt: "?" }).catch(
        (caught: unknown) => caught,
      );
      expect(error).toMatchObject({ code, message: expect.stringMatching(words) });
      const { taskId } = error as { taskId: string };
      await world.close();
      const engine = await world.open(); // cancelled: nothing is sent for it once the key is set
      expect((await engine.task(taskId)).counts).toMatchObject({ cancelled: 1 });
    },
  );

  it("sends images, files and audio as OpenAI has them", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    await generateText({
      model: perigee("mine:small"),
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is it?" },
            { type: "image", image: new Uint8Array([0x89, 0x50, 0x4e, 0x47]) },
            { type: "image", image: new URL("https://pictures.test/a.png") },
            { type: "file", mediaType: "application/pdf", data: "JVBERg==", filename: "a.pdf" },
            { type: "file", mediaType: "audio/wav", data: "UklGRg==" },
            { type: "file", mediaType: "text/plain", data: Buffer.from("words") },
          ],
        },
      ],
    });
    expect(world.asked[0]?.messages[0]?.content).toEqual([
      { type: "text", text: "What is it?" },
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==" } },
      { type: "image_url", image_url: { url: "https://pictures.test/a.png" } },
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERg==" } },
      { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
      { type: "text", text: "words" },
    ]);
    await expect(
      generateText({
        model: perigee("mine:small"),
        messages: [{ role: "user", content: [{ type: "file", mediaType: "video/mp4", data: "AAAA" }] }],
      }),
    ).rejects.toThrow("prompt[0].content[0]: files of video/mp4 cannot be sent");
    expect(world.asked).toHaveLength(1);
  });
});

describe("tools", () => {
  it("are called in a loop of two steps, whose second sends what the tool returned", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    world.answer = ({ messages }) =>
      messages.some(({ role }) => role === "tool")
        ? { text: "It is 21 degrees." }
        : {
            toolCalls: [
              { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bonn"}' } },
            ],
          };
    const result = await generateText({
      model: perigee("mine:small"),
      prompt: "How warm is it in Bonn?",
      toolChoice: "auto",
      stopWhen: stepCountIs(3),
      tools: {
        weather: tool({
          description: "The weather of a city",
          inputSchema: z.object({ city: z.string() }),
          execute: async ({ city }) => ({ city, degrees: 21 }),
        }),
      },
    });
    expect(result.text).toBe("It is 21 degrees.");
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    const [first, second] = world.asked;
    expect(first?.more).toMatchObject({
      tools: [{ type: "function", function: { name: "weather", description: "The weather of a city" } }],
      tool_choice: "auto",
    });
    expect(second?.messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bonn"}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: '{"city":"Bonn","degrees":21}' },
    ]);
  });
});

describe("generateObject", () => {
  it("asks for the schema by the provider's own structured output, and returns what it says", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    world.answer = () => ({ text: '{"city":"Bonn","people":330000}' });
    const schema = z.object({ city: z.string(), people: z.number() });
    const { object } = await generateObject({
      model: perigee("mine:small"),
      schema,
      schemaName: "city",
      prompt: "A city",
    });
    expect(object).toEqual({ city: "Bonn", people: 330_000 });
    expect(world.asked[0]?.settings).toMatchObject({
      responseMimeType: "application/json",
      responseJsonSchema: { type: "object", required: ["city", "people"] },
    });
  });
});

describe("streamText", () => {
  it("passes the whole answer on as a stream", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open());
    world.answer = () => ({ text: "blue", reasoning: "why", usage: { inputTokens: 7, outputTokens: 3 } });
    const result = streamText({ model: perigee("mine:small"), prompt: "Which colour?" });
    const texts: string[] = [];
    for await (const text of result.textStream) texts.push(text);
    expect(texts.join("")).toBe("blue");
    expect(await result.usage).toMatchObject({ inputTokens: 7, outputTokens: 3 });
    expect(await result.finishReason).toBe("stop");
    expect(await result.reasoningText).toBe("why");
    expect((await result.providerMetadata)?.["perigee"]).toMatchObject({ attempts: 1 });
  });
});

describe("a model of version 2", () => {
  it("answers in the words of that version", async () => {
    await using world = new SdkEngine();
    const perigee = createPerigee(await world.open(), { version: "v2" });
    world.answer = () => ({ text: "blue", usage: { inputTokens: 7, outputTokens: 3, cachedTokens: 2 } });
    const call = {
      prompt: [{ role: "user" as const, content: [{ type: "text", text: "Which?" }] }],
      headers: { "x-own": "1" },
    };
    const answer = await perigee("mine:small").doGenerate(call);
    expect(answer).toMatchObject({
      content: [{ type: "text", text: "blue" }],
      finishReason: "stop",
      usage: { inputTokens: 7, outputTokens: 3, totalTokens: 10, cachedInputTokens: 2 },
      warnings: [{ type: "unsupported-setting", setting: "headers" }],
    });
    expect((await generateText({ model: perigee("mine:small"), prompt: "And?" })).text).toBe("blue");
  });
});
