import { afterAll, describe, expect, it } from "vitest";
import type { MeasuredBlock } from "../../src/shard/measured.ts";
import { createInlineMeasurer, createThreadMeasurer } from "../../src/shard/pool.ts";
import { blockOf, lineOf, SETTINGS } from "./blocks.ts";

const OPTIONS = { wantBodies: true };
const threads = createThreadMeasurer({ ...SETTINGS, threads: 1 });
const inline = createInlineMeasurer(SETTINGS);
afterAll(() => threads.close());

describe("createThreadMeasurer", () => {
  it("gives the same answers as measuring in this thread", async () => {
    const text = [lineOf("a", "one"), "{", "", lineOf("b", "two", { system: "s" })].join("\n");
    const inThread = await threads.measure(blockOf(text, { offset: 10, firstLine: 3 }), OPTIONS);
    const here = await inline.measure(blockOf(text, { offset: 10, firstLine: 3 }), OPTIONS);
    expect(plain(inThread)).toEqual(plain(here));
    const options = { wantKeys: true };
    expect(await threads.scanKeys(blockOf(text), options)).toEqual(
      await inline.scanKeys(blockOf(text), options),
    );
  });

  it("takes a block's bytes away by transfer", async () => {
    const block = blockOf(lineOf("a", "one"));
    const measuring = threads.measure(block, OPTIONS);
    expect(block.bytes.byteLength).toBe(0);
    expect((await measuring).count).toBe(1);
  });

  it("answers many calls at once, each with its own lines, two blocks a thread at a time", async () => {
    expect(threads.concurrency).toBe(2);
    const calls = Array.from({ length: 40 }, (_, index) =>
      threads.measure(blockOf(lineOf(`k${index}`, "x"), { firstLine: index + 1 }), OPTIONS),
    );
    const measured = await Promise.all(calls);
    expect(measured.map(({ lines }) => lines[0])).toEqual(
      Array.from({ length: 40 }, (_, index) => index + 1),
    );
  });

  it("takes an empty block", async () => {
    expect(await threads.measure(blockOf(""), OPTIONS)).toMatchObject({
      count: 0,
      rejected: [],
      blankLines: 0,
    });
  });

  it("refuses calls after close, and ends those under way", async () => {
    const closing = createThreadMeasurer({ ...SETTINGS, threads: 1 });
    const calls = Array.from({ length: 5 }, () => closing.measure(blockOf(lineOf("a", "x")), OPTIONS));
    const settled = Promise.allSettled(calls);
    await closing.close();
    await closing.close();
    for (const call of await settled) {
      if (call.status === "rejected") expect(call.reason).toMatchObject({ code: "closed" });
    }
    await expect(closing.measure(blockOf(""), OPTIONS)).rejects.toMatchObject({ code: "closed" });
    await expect(closing.scanKeys(blockOf(""))).rejects.toMatchObject({ code: "closed" });
  });

  it("hands no key and no header of a provider to its threads", async () => {
    const providers = [{ ...SETTINGS.providers[1], key: () => "not cloneable", headers: { a: () => "" } }];
    const measurer = createThreadMeasurer({ ...SETTINGS, providers: providers as never, threads: 1 });
    const measured = await measurer.measure(blockOf(lineOf("a", "x", { model: "openai:gpt-4o" })), OPTIONS);
    expect(measured.count).toBe(1);
    await measurer.close();
  });
});

describe("createInlineMeasurer", () => {
  it("refuses calls after close", async () => {
    const measurer = createInlineMeasurer(SETTINGS);
    expect(measurer.concurrency).toBe(1);
    await measurer.close();
    await expect(measurer.measure(blockOf(""), OPTIONS)).rejects.toMatchObject({ code: "closed" });
    await expect(measurer.scanKeys(blockOf(""))).rejects.toMatchObject({ code: "closed" });
  });
});

function plain(measured: MeasuredBlock): unknown {
  return {
    ...measured,
    keys: Buffer.from(measured.keys).toString(),
    bodies: Buffer.from(measured.bodies).toString(),
  };
}
