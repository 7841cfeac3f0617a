/**
 * `onChunk` of `engine.submit`: the answer of the only item of a list is read while it arrives.
 */
import { describe, expect, it, vi } from "vitest";
import type { LibrarySubmitOptions } from "../../src/engine/library.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { SdkEngine } from "../ai/sdk_engine.ts";
import { chunk, StreamingProvider, USAGE_CHUNK } from "../ai/streaming_provider.ts";

const item = { model: "openai:gpt-5-mini", input: "Greet." };
const hello: StreamingProvider["streams"] = (_body, { send, end }) => {
  send(chunk({ content: "Hel" }), chunk({ content: "lo" }, "stop"), USAGE_CHUNK, "[DONE]");
  end();
};

describe("the chunks of a list", () => {
  it("are passed to onChunk one after the other, though it takes its time, and the task has the whole answer", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = hello;
    const engine = await world.open(await provider.config());
    const seen: (JsonObject | string)[] = [];
    const task = await engine.submit([item], {
      onChunk: async (each) => {
        seen.push(each);
        await new Promise((resolve) => setImmediate(resolve));
        seen.push("taken");
      },
    });
    const chunks = [chunk({ content: "Hel" }), chunk({ content: "lo" }, "stop"), USAGE_CHUNK];
    expect(seen).toEqual(chunks.flatMap((each) => [each, "taken"]));
    expect(task.objects[0]).toMatchObject({ status: "completed", output: { text: "Hello" } });
  });

  it("do not exist for a provider without streams, nor for a list that is found under its id", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = hello;
    const engine = await world.open(await provider.config());
    const onChunk = vi.fn();
    const whole = await engine.submit([{ ...item, model: "mine:small" }], { onChunk });
    expect(whole.objects[0]).toMatchObject({ status: "completed", output: { text: "yes" } });
    await engine.submit([item], { id: "greeting", onChunk: () => undefined });
    const found = await engine.submit([item], { id: "greeting", onChunk });
    expect(found.objects[0]).toMatchObject({ status: "completed", output: { text: "Hello" } });
    expect(onChunk).not.toHaveBeenCalled();
  });

  it("are read to their end when onChunk throws, of which the process is warned once", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    provider.streams = hello;
    const engine = await world.open(await provider.config());
    const warn = vi.spyOn(process, "emitWarning").mockReturnValue();
    const onChunk = vi.fn(() => {
      throw new Error("no");
    });
    const task = await engine.submit([item], { onChunk });
    expect(task.objects[0]).toMatchObject({ status: "completed", output: { text: "Hello" } });
    expect(onChunk).toHaveBeenCalledTimes(3);
    expect(warn.mock.calls).toEqual([["onChunk failed: no", { code: "PERIGEE_LISTENER" }]]);
    warn.mockRestore();
  });

  it("end with the signal: the provider's stream is cut, though onChunk never returns, and the item ends", async () => {
    await using provider = new StreamingProvider();
    await using world = new SdkEngine();
    let left: Promise<void> | undefined;
    provider.streams = (_body, events) => {
      left = events.left;
      events.send(chunk({ content: "Hel" }));
    };
    const engine = await world.open(await provider.config());
    const controller = new AbortController();
    const asked = engine.submit([item], {
      ...{ id: "greeting", signal: controller.signal },
      onChunk: () => {
        controller.abort(new Error("enough"));
        return new Promise(() => undefined);
      },
    });
    await expect(asked).rejects.toThrow("enough");
    await left;
    const { finished } = engine.submit([item], { id: "greeting" });
    expect((await finished).objects[0]).toMatchObject({
      status: "failed",
      error: { code: "cancelled" },
      cost: { billedUsd: expect.any(Number) },
    });
  });

  it.each<[string, object[], LibrarySubmitOptions]>([
    ["one item without sla", [item, item], {}],
    ["one item without sla", [{ ...item, sla: 60 }], {}],
    ["cannot be combined with onProgress", [item], { onProgress: () => undefined }],
    ["cannot be combined with schema", [item], { schema: { type: "object" } }],
    ["onChunk must be a function", [item], { onChunk: "x" as never }],
  ])("are refused where they cannot be: %s", async (words, items, options) => {
    await using world = new SdkEngine();
    const engine = await world.open();
    const asked = async (): Promise<unknown> =>
      engine.submit(items as never, { onChunk: () => undefined, ...options });
    await expect(asked()).rejects.toMatchObject({ code: "usage", message: expect.stringContaining(words) });
  });
});
