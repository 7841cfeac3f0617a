/** Lines whose request was answered before are answered from the cache, and lines with the same request share an answer. */
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import type { ProgressEvent } from "../../src/engine/runs/progress_feed.ts";
import type { SubmitOptions } from "../../src/engine/submissions/submissions.ts";
import { CachedWorld, type Line } from "./cached_world.ts";
import { type Answering, INPUT, OUTPUT, ok, status, World } from "./world.ts";

/** An answer that ended at its limit. */
function cut(): WireResult {
  const answer = {
    choices: [{ index: 0, message: { role: "assistant", content: "half" }, finish_reason: "length" }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  };
  return { ok: true, status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)) };
}

describe("a run with a cache", () => {
  it("answers from it what another run was answered, at no cost, with one line a key", async () => {
    const world = new CachedWorld();
    world.write([1, 2, 3]);
    const first = await world.run("first");
    expect(first.summary).not.toHaveProperty("cached");
    world.write([3, 4, 1]);
    const { summary, lines } = await world.run("second");
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3, 4]);
    expect(lines.map(({ output }) => output?.text)).toEqual(["answer 3", "answer 4", "answer 1"]);
    expect(lines.map(({ cached }) => cached)).toEqual([true, undefined, true]);
    expect(lines[0]).toMatchObject({
      usage: { input_tokens: 10, output_tokens: 5 },
      cost: { billed_usd: 0, list_usd: 0 },
      attempts: 0,
    });
    expect(summary).toMatchObject({
      status: "completed",
      cached: 2,
      counts: { completed: 3 },
      requests_sent: 1,
      usage: { input_tokens: 10, attempts: 1 },
    });
  });

  it("asks again when the answer is older than its ttl", async () => {
    const world = new CachedWorld();
    world.write([1]);
    await world.run("first");
    await world.settle(new Promise<void>((resolve) => void world.clock.timer(3_600_000, resolve)));
    expect((await world.run("second", { cache: { dir: "/cache", ttl: "59m" } })).summary.requests_sent).toBe(
      1,
    );
    expect((await world.run("third", { cache: { dir: "/cache", ttl: "59m" } })).summary.requests_sent).toBe(
      0,
    );
  });

  it("keeps no error and no answer that was cut", async () => {
    const world = new CachedWorld({
      answer: (line) => (line === 1 ? status(400) : cut()),
    });
    world.write([1, 2]);
    await world.run("first");
    expect(world.cache.kept.size).toBe(0);
  });

  it("sends lines without a temperature of 0 each by itself, and answers them in another run", async () => {
    const world = new CachedWorld();
    world.write([1, 1, 1], {});
    const first = await world.run("first");
    expect(first.summary.requests_sent).toBe(3);
    const second = await world.run("second");
    expect(second.summary).toMatchObject({ requests_sent: 0, cached: 3 });
  });

  it("does not use its own answers for other lines that are left to chance when it goes on after a kill", async () => {
    const answer: Answering = (_line, attempt) => (attempt === 1 ? ok(1) : "hang");
    const world = new CachedWorld({ answer, config: { maxInFlight: 1 } }); // others are not sent before the kill
    world.write([1, 1, 1, 1], {});
    const options = { out: OUTPUT, cache: { dir: "/cache" } };
    (await world.engine()).run(INPUT, options);
    await world.clock.advance(1_000);
    expect(world.output().length).toBe(1);
    world.kill();
    world.answer = () => ok(1);
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { ...options, sla: 60 }).finished);
    expect(world.output().length).toBe(4);
    expect(summary).not.toHaveProperty("cached");
  });

  it.each([
    ["a temperature of 0", { temperature: 0 }, {}],
    ["coalesce", {}, { coalesce: true }],
  ])("asks once for lines with the same request and %s", async (_name, more, options) => {
    const world = new CachedWorld();
    world.write([1, 2, 1, 1, 2, 3], more);
    const { summary, lines } = await world.run("first", options);
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3]);
    expect(lines.map(({ output }) => output?.text)).toEqual(
      [1, 2, 1, 1, 2, 3].map((number) => `answer ${number}`),
    );
    expect(summary).toMatchObject({ cached: 3, counts: { completed: 6 }, usage: { input_tokens: 30 } });
  });

  it("asks for the next line with the same request when one fails, and for all when that fails, too", async () => {
    const world = new CachedWorld({
      answer: (_line, attempt) => (attempt <= 1 ? status(400) : ok(1)),
    });
    world.write([1, 1, 1, 1]);
    const once = await world.run("once");
    expect(once.lines.map(({ cached, error }) => cached ?? error?.code ?? "sent")).toEqual([
      "invalid_request",
      "sent",
      true,
      true,
    ]);
    const broken = new CachedWorld({ answer: () => status(400) });
    broken.write([1, 1, 1, 1, 1]);
    const { summary } = await broken.run("broken");
    expect(broken.sent.length).toBe(5);
    expect(summary.counts.failed).toBe(5);
  });

  it("takes nothing of a cap and needs no money for what it has", async () => {
    const world = new CachedWorld({
      config: {
        prices: { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000, asOf: "2026-11-01" } },
      },
    });
    const limited = { temperature: 0, max_tokens: 5 };
    world.write([1, 2], limited);
    await world.run("first", { maxCostUsd: 1 });
    const { summary } = await world.run("second", { maxCostUsd: 1e-9 });
    expect(summary).toMatchObject({ status: "completed", cached: 2, cost: { billed_usd: 0 } });
  });

  it("gives back what it has in the format of the provider, with the body that was kept", async () => {
    const world = new CachedWorld();
    world.write([1]);
    const first = await world.run("first", { format: "raw" });
    const second = await world.run("second", { format: "raw" });
    expect(second.lines).toEqual(first.lines);
    expect(world.sent.length).toBe(1);
  });

  it("asks for each line that names a file by itself, whose content may be another by then", async () => {
    const world = new CachedWorld({ readsLocalFiles: true });
    const contents = [{ parts: [{ text: "[[1]]" }, { file_data: { path: "cat.png" } }] }];
    const request = { model: "alpha:m", contents, generation_config: { temperature: 0 } };
    world.disk.put(INPUT, ["k1", "k2"].map((key) => `${JSON.stringify({ key, request })}\n`).join(""));
    world.disk.put(join(dirname(INPUT), "cat.png"), "first");
    await world.run("first", { coalesce: true });
    world.disk.put(join(dirname(INPUT), "cat.png"), "second");
    const { summary } = await world.run("second", { coalesce: true });
    expect(summary).toMatchObject({ counts: { completed: 2 }, requests_sent: 2 });
    expect(summary).not.toHaveProperty("cached");
    expect(world.cache.kept.size).toBe(0);
    expect(world.sent).toHaveLength(4);
  });

  it("has one line a key after a kill at any time, and sends nothing that was answered before", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 40 }),
        async (numbers, killMs) => {
          const world = new CachedWorld({ commitMs: 3, latencyMs: 5 });
          world.write(numbers);
          const options = { out: OUTPUT, cache: { dir: "/cache" } };
          const killed = await world.engine();
          killed.run(INPUT, options);
          await world.clock.advance(killMs);
          world.kill();
          const engine = await world.engine();
          const summary = await world.settle(engine.run(INPUT, options).finished);
          const lines = world.output() as unknown as Line[];
          expect(lines.map(({ key }) => key).sort()).toEqual(
            numbers.map((_, index) => `k${index + 1}`).sort(),
          );
          expect(
            lines.every(({ key, output }) => output?.text === `answer ${numbers[Number(key.slice(1)) - 1]}`),
          ).toBe(true);
          expect(summary.status).toBe("completed");
          expect(world.sent.length).toBeLessThanOrEqual(2 * new Set(numbers).size);
        },
      ),
      { numRuns: 25 },
    );
  });

  it("answers submitted lists from it, too, in the next process as well", async () => {
    const world = new CachedWorld();
    const items = [1, 2, 1].map((number) => ({
      model: "alpha:m",
      input: `[[${number}]]`,
      generation_config: { temperature: 0 },
    }));
    const submit = async (options: SubmitOptions, count = 3) => {
      const engine = await world.engine();
      const task = await world.settle(engine.submit(items.slice(0, count), options));
      await world.settle(engine.close());
      return task.objects.map(({ cached, cost }) => [cached, cost?.billed_usd === 0]);
    };
    const cache = { dir: "/cache" };
    expect(await submit({ cache })).toEqual([
      [undefined, true],
      [undefined, true],
      [true, true],
    ]);
    expect(await submit({ cache }, 2)).toEqual([
      [true, true],
      [true, true],
    ]);
    expect(world.sent.length).toBe(2);
    await submit({});
    expect(world.sent.length).toBe(5);
  });

  it("shares no answers between the runs of two projects", async () => {
    const world = new CachedWorld();
    world.write([1, 2]);
    await world.run("first", { project: "red" });
    const other = await world.run("second", { project: "blue" });
    expect(other.summary).not.toHaveProperty("cached");
    const same = await world.run("third", { project: "red" });
    expect(same.summary).toMatchObject({ cached: 2, requests_sent: 0 });
  });

  it("says in its progress how many lines were answered from it", async () => {
    const world = new CachedWorld();
    world.write([1, 2]);
    await world.run("first");
    world.write([1, 2, 3]);
    const seen: (number | undefined)[] = [];
    const onProgress = ({ progress }: ProgressEvent) => void seen.push(progress.cached);
    await world.run("second", { onProgress });
    expect(seen.at(-1)).toBe(2);
    await world.run("second", { onProgress }); // over before
    expect(seen.at(-1)).toBe(2);
  });

  it.each([
    [{ coalesce: true }, "coalesce works only with cache"],
    [{ cache: { dir: "/cache", ttl: "soon" } }, "cache.ttl must be a duration such as 90m, 24h or 7d"],
    [
      { cache: { dir: "/cache", maxBytes: 10 } },
      "cache.maxBytes must be a whole number of bytes from 1048576",
    ],
  ])("refuses %j", async (options, message) => {
    const world = new World();
    const engine = await world.engine();
    expect(() => engine.run(INPUT, options)).toThrow(message);
    await world.settle(engine.close());
  });
});
