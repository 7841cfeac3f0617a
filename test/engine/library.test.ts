/**
 * What programs get from the library: one casing, with the names of users and providers as they are.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEngine, type Engine, type ProgressEvent, type Quote } from "../../src/index.ts";
import { camelCased } from "../../src/work/camel_case.ts";

let dir: string;
let engine: Engine;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "perigee-library-"));
  engine = await createEngine({ dataDir: join(dir, "data"), env: {} });
});
afterEach(async () => {
  await engine.close();
  rmSync(dir, { recursive: true, force: true });
});

const ITEM = {
  model: "echo:test",
  input: "hello",
  metadata: { user_id: 7, more_of_it: { a_b: 1 } },
} as const;

/** Names with an underscore anywhere in a value, those below `metadata` left out. */
function snakes(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    name === "metadata" ? [] : [...(name.includes("_") ? [name] : []), ...snakes(member)],
  );
}

describe("the library", () => {
  it("returns lines, summaries and progress in camelCase, and writes files as the interface names them", async () => {
    const out = join(dir, "out.jsonl");
    const events: ProgressEvent[] = [];
    const quotes: Quote[] = [];
    const run = engine.run(
      [
        { key: "a", ...ITEM },
        { key: "b", ...ITEM },
        { key: "c", ...ITEM },
      ],
      {
        out,
        pilot: 1,
        onPilot: (rest) => void quotes.push(rest),
        onProgress: (event) => events.push(event),
      },
    );
    const lines = [];
    for await (const line of run) lines.push(line);
    const summary = await run.finished;
    expect(lines[0]).toMatchObject({ finishReason: "stop", usage: { inputTokens: expect.any(Number) } });
    expect(lines[0]?.metadata).toEqual(ITEM.metadata);
    expect(summary).toMatchObject({ status: "completed", requestsSent: 3, cost: { billedUsd: 0 } });
    expect(quotes).toMatchObject([{ inputTokens: expect.any(Number), unpricedModels: [] }]);
    expect(events.at(-1)).toMatchObject({ type: "end", progress: { settled: 3 } });
    expect(snakes([lines, summary, quotes, events, run.progress(), await run.errors(), run.holds])).toEqual(
      [],
    );
    expect(readFileSync(out, "utf8")).toContain('"finish_reason":"stop"');
    expect((await engine.trace(summary.taskId, "b")).status).toBe("completed");
  });

  it("returns tasks, objects and quotes in camelCase", async () => {
    const submitted = engine.submit([{ ...ITEM, sla: 60 }]);
    const objects = [];
    for await (const object of submitted) objects.push(object);
    const task = await submitted.finished;
    expect(task).toMatchObject({ status: "completed", totalItems: 1 });
    expect(objects).toEqual(task.objects);
    const [object] = objects;
    expect(object).toMatchObject({ usage: { priceFactor: expect.any(Number) }, metadata: ITEM.metadata });
    const found = await engine.object(object?.objectId ?? "");
    const quote = await engine.quote([{ key: "a", ...ITEM }], { slas: [60] });
    expect(found).toEqual(object);
    expect(quote.slas).toMatchObject([{ slaMinutes: 60, isFeasible: true }]);
    expect(
      snakes([task, await engine.task(task.taskId), found, quote, engine.lanes(), engine.holds()]),
    ).toEqual([]);
  });

  it("yields lines in the format of a provider with the names of that format", async () => {
    const lines: unknown[] = [];
    for await (const line of engine.run([{ key: "a", ...ITEM }], { format: "openai" })) lines.push(line);
    expect(lines).toMatchObject([{ custom_id: "a", response: { status_code: 200 } }]);
  });
});

describe("camelCased", () => {
  it("changes names at every depth, and keeps values, other objects, and what others have named", () => {
    const error = new Error("no_change");
    const kept = {
      tool_calls: [{ function_name: 1 }],
      warnings: { "dropped:top_p": 2 },
      errors: { invalid_json: 3 },
    };
    expect(camelCased({ a_b_c: [{ d_e: null, f: "g_h" }], error, ...kept })).toEqual({
      aBC: [{ dE: null, f: "g_h" }],
      error,
      toolCalls: kept.tool_calls,
      warnings: kept.warnings,
      errors: kept.errors,
    });
  });

  it.each(["objects", "end"])(
    "leaves no rejection unhandled when only the %s of a refused list is read",
    async (read) => {
      const unhandled: unknown[] = [];
      const note = (reason: unknown): void => void unhandled.push(reason);
      process.on("unhandledRejection", note);
      try {
        const submitted = engine.submit([{ ...ITEM, sla: 0 }]);
        const reading = read === "end" ? submitted.finished : submitted[Symbol.asyncIterator]().next();
        await expect(reading).rejects.toMatchObject({ code: "usage" });
        await new Promise((resolve) => setImmediate(resolve)); // Node reports them after a turn of its event loop
      } finally {
        process.off("unhandledRejection", note);
      }
      expect(unhandled).toEqual([]);
    },
  );
});

describe("options that only the engine's own work has", () => {
  const OWN = [
    "accepted",
    "caps",
    "keepsDamage",
    "onStep",
    "rateCard",
    "standIn",
    "takenEarlier",
    "volumeTokens",
  ];
  it.each(OWN)("are unknown to programs: %s", (name) => {
    expect(() => engine.run([{ key: "a", ...ITEM }], { [name]: {} } as object)).toThrow(
      `run: "${name}" is not a known option`,
    );
  });
});
