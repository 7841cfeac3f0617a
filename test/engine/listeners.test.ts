/**
 * Listeners of a caller that fail: the process is warned, and neither their run nor another one changes.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import type { EngineRunOptions } from "../../src/engine/runs/run_options.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const LISTENERS = ["onHeld", "onMissing", "onProgress", "onStep", "onWarning"] as const;
const OTHER = "/other.jsonl";

/** Messages of warnings with the code of a listener, from now on. */
function warned(): string[] {
  const messages: string[] = [];
  const onWarning = (warning: Error & { code?: string }): void => {
    if (warning.code === "PERIGEE_LISTENER") messages.push(warning.message);
  };
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  return messages;
}

/** Ten lines that can be answered, one with a warning, one without a provider. */
async function started(): Promise<{ readonly world: World; readonly engine: Engine }> {
  const world = new World({
    latencyMs: 1_000,
    config: {
      maxInFlight: 4,
      providers: {
        alpha: { baseUrl: "http://alpha.test/v1", needsKey: false },
        openai: { baseUrl: "http://alpha.test/v1", needsKey: false },
      },
    },
  });
  world.input(10);
  const more = [
    {
      key: "warned",
      request: { model: "openai:gpt-5", temperature: 0.5, contents: [{ parts: [{ text: "[[11]] hello" }] }] },
    },
    { key: "missing", request: { model: "zip:m", contents: [{ parts: [{ text: "[[12]] hello" }] }] } },
  ];
  world.disk.put(
    INPUT,
    `${world.disk.text(INPUT)}${more.map((line) => `${JSON.stringify(line)}\n`).join("")}`,
  );
  world.input(30, "alpha:m1", OTHER);
  return { world, engine: await world.engine() };
}

const failing = {
  throws: () => {
    throw new Error("my index is down");
  },
  rejects: () => Promise.reject(new Error("my index is down")),
  "throws what is not an error": () => {
    throw Object.create(null);
  },
};

describe.each(LISTENERS)("%s", (name) => {
  it.each(Object.keys(failing) as (keyof typeof failing)[])(
    "that %s changes nothing for its run, for another, and for later ones",
    async (how) => {
      const warnings = warned();
      const { world, engine } = await started();
      const other = engine.run(OTHER, { out: "/b.jsonl" });
      const options: EngineRunOptions = { out: OUTPUT, sla: 5, waitMs: 0, [name]: failing[how] };
      const summary = await world.settle(engine.run(INPUT, options).finished);
      expect(summary.counts).toMatchObject({ completed: 11 });
      expect((await world.settle(other.finished)).counts).toMatchObject({ completed: 30 });
      const later = await world.settle(engine.submit([{ model: "alpha:m1", input: "[[1]] hello" }]));
      expect(later.status).toBe("completed");
      await sleep(10); // warnings and rejections arrive in a later turn
      expect(warnings).toEqual([expect.stringMatching(new RegExp(`^${name} failed: `))]);
    },
  );
});

describe("skip", () => {
  it.each([
    ["throws", failing.throws, "skip failed at line 1: my index is down"],
    [
      "is async",
      () => Promise.resolve(false),
      "skip must return true or false at once, got a promise (line 1)",
    ],
    ["rejects", failing.rejects, "skip must return true or false at once, got a promise (line 1)"],
  ])("that %s ends its own run before anything is sent, and no other", async (_, skip, message) => {
    const { world, engine } = await started();
    const options = { out: OUTPUT, skip: skip as () => never };
    const failed = world.settle(engine.run(OTHER, options).finished);
    await expect(failed).rejects.toMatchObject({ code: "usage", message });
    expect(world.sent).toEqual([]);
    const other = await world.settle(engine.run(OTHER, { out: "/b.jsonl" }).finished);
    expect(other.counts).toMatchObject({ completed: 30 });
    const again = await world.settle(engine.run(OTHER, { out: OUTPUT, skip: () => false }).finished);
    expect(again).toMatchObject({ status: "completed", counts: { completed: 30, cancelled: 0 } });
  });

  it("that throws later keeps what is answered, and sends nothing more", async () => {
    const { world, engine } = await started();
    const skip = (line: number): boolean => (line > 6 ? failing.throws() : line === 2);
    const other = engine.run(OTHER, { out: "/b.jsonl", project: "other" });
    const failed = world.settle(engine.run(OTHER, { out: OUTPUT, skip }).finished);
    await expect(failed).rejects.toMatchObject({
      code: "usage",
      message: expect.stringMatching(/^skip failed at line 7: /),
    });
    expect(world.output().map(({ key }) => key)).toHaveLength(6);
    expect((await world.settle(other.finished)).counts).toMatchObject({ completed: 30 });
    const again = await world.settle(engine.run(OTHER, { out: OUTPUT, skip: () => false }).finished);
    expect(again.counts).toMatchObject({ completed: 29, cancelled: 1 });
    expect(world.sent).toHaveLength(59);
  });
});

describe("onNotice", () => {
  it("that throws does not keep an engine from its work", async () => {
    const warnings = warned();
    const { world, engine } = await started();
    world.notices.push = failing.throws;
    const options = { out: OUTPUT, waitMs: 0 };
    await world.settle(engine.run(INPUT, options).finished);
    const again = await world.settle(engine.run(INPUT, { ...options, retryFailed: ["filtered"] }).finished);
    expect(again.counts).toMatchObject({ completed: 11 });
    await sleep(10);
    expect(warnings).toEqual([expect.stringMatching(/^onNotice failed: my index is down/)]);
  });
});
