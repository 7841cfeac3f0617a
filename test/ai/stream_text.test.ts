/**
 * `streamText` of the AI SDK on models of perigee: the provider's stream, part by part, of an item that is recorded as any other.
 */
import { stepCountIs, streamText, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { createPerigee } from "../../src/ai/index.ts";
import { SdkEngine } from "./sdk_engine.ts";
import { chunk, StreamingProvider, USAGE_CHUNK } from "./streaming_provider.ts";

const END = [chunk({}, "stop"), USAGE_CHUNK, "[DONE]"];

/** Resolves when `open` is called. */
function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

async function taken<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

describe("streamText without sla", () => {
  it("passes on each part before the provider has the next one, and ends with what was recorded", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    const more = gate();
    provider.streams = async (_body, { send, end }) => {
      send(chunk({ role: "assistant", content: "Hel" }));
      await more.opened;
      send(chunk({ content: "lo" }), ...END);
      end();
    };
    const engine = await world.open(await provider.config());
    const result = streamText({ model: createPerigee(engine)("openai:gpt-5-mini"), prompt: "Greet." });
    const texts: string[] = [];
    for await (const text of result.textStream) {
      texts.push(text);
      more.open(); // only after the first part
    }
    expect(texts).toEqual(["Hel", "lo"]);
    expect(await result.finishReason).toBe("stop");
    expect(await result.usage).toMatchObject({ inputTokens: 7, outputTokens: 3, totalTokens: 10 });
    expect(await result.response).toMatchObject({ modelId: "openai:gpt-5-mini" });
    const facts = (await result.providerMetadata)?.["perigee"];
    expect(facts).toMatchObject({ attempts: 1, taskId: expect.any(String) });
    const task = await engine.task(String(facts?.["taskId"]));
    expect(task.objects[0]).toMatchObject({ status: "completed", output: { text: "Hello" } });
    expect(provider.received).toMatchObject([{ stream: true, stream_options: { include_usage: true } }]);
  });

  it("is read from Anthropic's and Gemini's events, with reasoning and the calls of tools", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = (body, { send, end }) => {
      const asked = JSON.stringify(body).includes("sunny");
      if ("contents" in body) {
        const parts = asked
          ? [{ text: "Sun" }]
          : [{ text: "hm", thought: true }, { functionCall: { name: "weather", args: { city: "Oslo" } } }];
        for (const part of parts) send({ candidates: [{ content: { role: "model", parts: [part] } }] });
        if (asked) send({ candidates: [{ content: { role: "model", parts: [{ text: "ny" }] } }] });
        const usageMetadata = { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6 };
        send({ candidates: [{ finishReason: "STOP" }], usageMetadata });
      } else {
        const usage = { input_tokens: 4, output_tokens: 2 };
        const message = {
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: "claude",
          content: [],
          usage,
        };
        const blocks = asked
          ? [[{ type: "text", text: "" }, { text: "Sun" }, { text: "ny" }]]
          : [
              [{ type: "thinking", thinking: "" }, { thinking: "hm" }],
              [
                { type: "tool_use", id: "toolu_1", name: "weather", input: {} },
                { partial_json: '{"city":' },
                { partial_json: '"Oslo"}' },
              ],
            ];
        send({ type: "message_start", message });
        for (const [index, [start, ...deltas]] of blocks.entries()) {
          send({ type: "content_block_start", index, content_block: start });
          for (const delta of deltas) send({ type: "content_block_delta", index, delta });
          send({ type: "content_block_stop", index });
        }
        const stop_reason = asked ? "end_turn" : "tool_use";
        send({ type: "message_delta", delta: { stop_reason }, usage }, { type: "message_stop" });
      }
      end();
    };
    const perigee = createPerigee(await world.open(await provider.config()));
    for (const model of ["anthropic:claude-haiku-4-5", "gemini:gemini-2.5-flash"]) {
      const result = streamText({
        model: perigee(model),
        prompt: "Which weather has Oslo?",
        tools: {
          weather: tool({
            inputSchema: z.object({ city: z.string() }),
            execute: ({ city }) => `sunny in ${city}`,
          }),
        },
        stopWhen: stepCountIs(2),
      });
      const parts = await taken(result.fullStream);
      const types = parts.map(({ type }) => type);
      expect(types, model).toEqual([
        ...["start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end", "tool-input-start"],
        ...types.filter((type) => type === "tool-input-delta"),
        ...["tool-input-end", "tool-call", "tool-result", "finish-step", "start-step"],
        ...["text-start", "text-delta", "text-delta", "text-end", "finish-step", "finish"],
      ]);
      expect(types).toContain("tool-input-delta");
      const started = parts.find(({ type }) => type === "tool-input-start") as { id: string };
      expect(parts).toContainEqual(
        expect.objectContaining({ type: "tool-call", toolCallId: started.id, input: { city: "Oslo" } }),
      );
      expect(await result.text).toBe("Sunny");
    }
  });

  it("ends with an error when the stream breaks off, and asks for nothing twice", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    const more = gate();
    provider.streams = async (_body, { send, cut }) => {
      send(chunk({ role: "assistant", content: "Hel" }));
      await more.opened;
      cut();
    };
    const perigee = createPerigee(await world.open(await provider.config()));
    const errors: unknown[] = [];
    const result = streamText({
      model: perigee("openai:gpt-5-mini"),
      prompt: "Greet.",
      maxRetries: 3,
      onError: ({ error }) => {
        errors.push(error);
      },
    });
    const parts: string[] = [];
    for await (const part of result.fullStream) {
      parts.push(part.type === "text-delta" ? part.text : part.type);
      if (part.type === "text-delta") more.open();
    }
    expect(parts).toEqual(["start", "start-step", "text-start", "Hel", "error", "finish-step", "finish"]);
    expect(errors).toMatchObject([
      { code: "connection_lost", isRetryable: false, taskId: expect.any(String) },
    ]);
    expect(provider.received).toHaveLength(1);
  });

  it("repeats what fails before the first part, which nobody sees", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = (_body, { send, end }, response) => {
      if (provider.received.length === 1) {
        response.writeHead(503, { "retry-after": "0" }).end("{}");
        return;
      }
      send(chunk({ content: "Hello" }), ...END);
      end();
    };
    const perigee = createPerigee(await world.open(await provider.config()));
    const result = streamText({ model: perigee("openai:gpt-5-mini"), prompt: "Greet." });
    expect(await taken(result.textStream)).toEqual(["Hello"]);
    expect(provider.received).toHaveLength(2);
    expect((await result.providerMetadata)?.["perigee"]).toMatchObject({ attempts: 2 });
  });

  it("cuts the provider's stream when it is aborted, or its reader leaves, and the item ends as cancelled", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    const lefts: Promise<void>[] = [];
    provider.streams = (_body, { send, left }) => {
      lefts.push(left);
      send(chunk({ role: "assistant", content: "Hel" }));
    };
    const engine = await world.open(await provider.config());
    const perigee = createPerigee(engine);
    const controller = new AbortController();
    const { fullStream } = streamText({
      model: perigee("openai:gpt-5-mini"),
      prompt: "Greet.",
      abortSignal: controller.signal,
    });
    const types: string[] = [];
    for await (const { type } of fullStream) {
      types.push(type);
      if (type === "text-delta") controller.abort();
    }
    expect(types).toEqual(["start", "start-step", "text-start", "text-delta", "abort"]);
    const prompt = [{ role: "user" as const, content: [{ type: "text", text: "Greet again." }] }];
    const { stream } = await perigee("openai:gpt-5-mini").doStream({ prompt });
    const reader = stream.getReader();
    for (let type = ""; type !== "text-delta"; ) type = (await reader.read()).value?.type ?? "";
    await reader.cancel();
    await Promise.all(lefts);
    expect(lefts).toHaveLength(2);
    await expect.poll(() => engine.lanes()[0]?.inFlight).toBe(0);
  });

  it("is answered from the record as one part when it is asked for again, also by the next process", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = (_body, { send, end }) => {
      send(chunk({ content: "Hel" }), chunk({ content: "lo" }), ...END);
      end();
    };
    const config = await provider.config();
    const ask = async (): Promise<string[]> => {
      const perigee = createPerigee(await world.open(config), { id: "greetings" });
      const result = streamText({ model: perigee("openai:gpt-5-mini"), prompt: "Greet." });
      const texts = await taken(result.textStream);
      await world.close();
      return texts;
    };
    expect(await ask()).toEqual(["Hel", "lo"]);
    expect(await ask()).toEqual(["Hello"]);
    expect(provider.received).toHaveLength(1);
  });

  it("is whole with an sla", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = (_body, _events, response) => {
      const message = { role: "assistant", content: "Hello" };
      const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
      const choices = [{ index: 0, message, finish_reason: "stop" }];
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "m", choices, usage }),
      );
    };
    const config = { ...(await provider.config()), lanes: { deny: ["batch" as const, "flex" as const] } };
    const perigee = createPerigee(await world.open(config), { sla: 60 });
    const result = streamText({ model: perigee("openai:gpt-5-mini"), prompt: "Greet." });
    expect(await taken(result.textStream)).toEqual(["Hello"]);
    expect(provider.received[0]).not.toHaveProperty("stream");
  });
});
