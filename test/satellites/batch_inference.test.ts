/** Batch inference as a satellite, on a real engine: the echo provider answers. */
import { afterEach, describe, expect, it } from "vitest";
import { openEngine } from "../../src/engine/engine.ts";
import { PerigeeError } from "../../src/errors.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { batchInference } from "../../src/satellites/builtin/batch_inference/batch_inference.ts";
import { vendorSatellites } from "../../src/satellites/builtin/vendor.ts";
import type { SatelliteCall } from "../../src/satellites/sdk/satellite.ts";
import { createFiles } from "../../src/tasks/files/file_store.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { openTasks } from "../../src/tasks/open_tasks.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";
import { createSpending } from "../../src/tasks/usage/spending.ts";
import { temporaryFolder } from "../tasks/open.ts";

const PROJECT = "acme";
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const satellite = batchInference({ name: "small-model", description: "x", model: "echo:small" });

interface Home {
  readonly tasks: Tasks;
  readonly files: Files;
  run(
    input: unknown,
    given?: { config?: unknown; signal?: AbortSignal; id?: string; releasePlace?: () => void },
  ): Promise<unknown>;
}

async function home(): Promise<Home> {
  const folder = temporaryFolder();
  const { path: dataDir } = folder;
  const opened = await openEngine({ env: {}, dataDir });
  const { engine, core } = opened;
  const { clock, store, disk } = core.storage;
  const files = await createFiles({ store, disk, clock, measurer: core.measurer, dataDir });
  const spending = createSpending({ clock, store, capUsd: () => undefined });
  const workLog = await openWorkLog({ store, clock });
  const tasks = await openTasks({ ...opened, files, spending, workLog, dataDir });
  closing.push(
    folder.remove,
    () => engine.close(),
    () => tasks.close(),
  );
  const parsed = async (schema: typeof satellite.input | typeof satellite.config, value: unknown) => {
    const result = await schema["~standard"].validate(value);
    if (result.issues !== undefined) throw new Error(result.issues.map(({ message }) => message).join());
    return result.value;
  };
  return {
    tasks,
    files,
    run: async (
      input,
      {
        config = {},
        signal = new AbortController().signal,
        id = "5a0c8f86-1d4c-4c5f-9a5c-0b7f3a5d9e01",
        releasePlace,
      } = {},
    ) =>
      satellite.run({
        input: await parsed(satellite.input, input),
        config: await parsed(satellite.config, config),
        executionId: id,
        project: PROJECT,
        attempt: 1,
        signal,
        deadlineWallMs: clock.wallMs() + 3_600_000,
        clock,
        files,
        tasks,
        releasePlace,
      } as unknown as SatelliteCall<never, never>),
  };
}

describe("batch inference", () => {
  it("refuses to answer while no model is configured, and says what to set", async () => {
    const unset = batchInference({ name: "small-model", description: "x", model: undefined });
    const call = (config: object) =>
      ({ input: { prompt: "Say hi" }, config }) as unknown as SatelliteCall<never, never>;
    await expect(async () => unset.run(call({}))).rejects.toMatchObject({
      failure: "permanent",
      code: "model_not_configured",
      message:
        'no model is configured for small-model: set config.model to "<provider>:<name>", or satellites.models.small-model in the configuration of the service; "echo:<name>" is for tests',
    });
    const [vendor] = vendorSatellites();
    await expect(async () => vendor?.run(call({}))).rejects.toMatchObject({ code: "model_not_configured" });
    const named = await (await home()).run({ prompt: "Say hi" }, { config: { model: "echo:by-name" } });
    expect(named).toMatchObject({ model: "echo:by-name", response: expect.stringContaining("Say hi") });
  });

  it("answers one prompt with its response, usage and price factor", async () => {
    const output = await (await home()).run(
      { prompt: "Say hi" },
      { config: { max_tokens: 64, temperature: 0.6 } },
    );
    expect(output).toMatchObject({
      response: expect.stringContaining("Say hi"),
      model: "echo:small",
      counts: { completed: 1, failed: 0 },
    });
    const { price_factor, usage } = output as { price_factor: number; usage: { input_tokens: number } };
    expect(price_factor).toBeGreaterThanOrEqual(0.3);
    expect(price_factor).toBeLessThanOrEqual(1);
    expect(usage.input_tokens).toBeGreaterThan(0);
  });

  it("answers a list in its order", async () => {
    const { responses } = (await (await home()).run({ prompt: ["one", "two", "three"] })) as {
      responses: { response: string }[];
    };
    expect(responses.map(({ response }) => response.match(/one|two|three/)?.[0])).toEqual([
      "one",
      "two",
      "three",
    ]);
  });

  it("puts the instruction before every prompt, and returns answers as a file on request", async () => {
    const { files, run } = await home();
    const config = { instruction: "Count:", answers: "file" };
    const { file } = (await run({ prompt: ["one", "two"] }, { config })) as { file: { file_id: string } };
    let text = "";
    for await (const chunk of files.read(PROJECT, file.file_id)) text += Buffer.from(chunk).toString();
    expect(text.match(/Count:\\n\\n(one|two)/g)?.sort()).toEqual(["Count:\\n\\none", "Count:\\n\\ntwo"]);
  });

  it("returns long answers to a list as a file", async () => {
    const { files, run } = await home();
    const { file } = (await run({ prompt: Array.from({ length: 60 }, () => "long ".repeat(4_000)) })) as {
      file: { file_id: string; bytes: number };
    };
    expect(file.bytes).toBeGreaterThan(512 * 1024);
    expect(await files.file(PROJECT, file.file_id)).toMatchObject({ bytes: file.bytes, items: 60 });
  });

  it("answers a file of prompts with a file of answers under the same keys", async () => {
    const { files, run } = await home();
    const chunks = (async function* () {
      yield Buffer.from('{"key":"a","prompt":"one"}\n{"key":"b","prompt":"two"}\n{"key":"c"}\n');
    })();
    const { id } = await files.put(PROJECT, { name: "prompts.jsonl", purpose: "batch", chunks });
    const output = (await run({ file_id: { file_id: id, name: "prompts.jsonl" } })) as {
      file: { file_id: string };
      counts: unknown;
    };
    expect(output.counts).toEqual({ completed: 2, failed: 1 });
    let text = "";
    for await (const chunk of files.read(PROJECT, output.file.file_id)) text += Buffer.from(chunk).toString();
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { key: string; output: unknown });
    expect(new Map(lines.map(({ key, output }) => [key, output !== null]))).toEqual(
      new Map([
        ["a", true],
        ["b", true],
        ["c", false],
      ]),
    );
  });

  it("asks nothing twice when the same execution is attempted again", async () => {
    const { run, tasks } = await home();
    const [first, second] = [await run({ prompt: "x" }), await run({ prompt: "x" })];
    expect(second).toEqual(first);
    expect((await tasks.list(PROJECT, { limit: 10 })).items).toHaveLength(1);
  });

  it("holds no place while it waits for its task, and listens once however many wait", async () => {
    const { run, tasks } = await home();
    const submitted = tasks.submit.bind(tasks);
    let isLooking = false;
    const task = tasks.task.bind(tasks);
    // As the look right after the submission may find it: not final yet.
    tasks.task = async (project, id) => {
      const view = await task(project, id);
      return isLooking ? { ...view, status: "submitted" } : view;
    };
    tasks.submit = async (project, request) => {
      isLooking = true;
      return await submitted(project, request);
    };
    let listeners = 0;
    const onFinished = tasks.onFinished.bind(tasks);
    tasks.onFinished = (listener) => {
      listeners += 1;
      return onFinished((event) => {
        isLooking = false;
        return listener(event);
      });
    };
    let released = 0;
    const releasePlace = (): void => {
      released += 1;
    };
    for (const n of [1, 2, 3]) {
      const id = `5a0c8f86-1d4c-4c5f-9a5c-0b7f3a5d9e2${n}`;
      const done = await run({ prompt: `p${n}` }, { id, releasePlace });
      expect(done).toMatchObject({ response: expect.stringContaining(`p${n}`) });
    }
    expect([released, listeners]).toEqual([3, 1]);
  });

  it("fails as its only prompt fails, for good", async () => {
    const { run } = await home();
    await expect(run({ prompt: "x" }, { config: { model: "nobody:m" } })).rejects.toMatchObject({
      failure: "permanent",
    });
  });

  it("leaves its task to go on when the process stops, and cancels it otherwise", async () => {
    const { run, tasks } = await home();
    for (const [index, reason] of [new PerigeeError("closed", "x"), new Error("cancelled")].entries()) {
      const controller = new AbortController();
      const id = `5a0c8f86-1d4c-4c5f-9a5c-0b7f3a5d9e1${index}`;
      const submitted = tasks.submit.bind(tasks);
      tasks.submit = async (project, request) => {
        const task = await submitted(project, request);
        controller.abort(reason);
        return task;
      };
      await expect(run({ prompt: "x" }, { id, signal: controller.signal })).rejects.toBe(reason);
      tasks.submit = submitted;
    }
    const { items } = await tasks.list(PROJECT, { limit: 10 });
    expect(items.map(({ isCancelled }) => isCancelled)).toEqual([true, false]);
  });

  it("refuses both or neither of prompt and file, and settings out of range", async () => {
    const { run } = await home();
    await expect(run({})).rejects.toThrow("either");
    await expect(run({ prompt: "x", file_id: "5a0c8f86-1d4c-4c5f-9a5c-0b7f3a5d9e01" })).rejects.toThrow(
      "either",
    );
    await expect(run({ prompt: "x" }, { config: { temperature: 3 } })).rejects.toThrow();
    await expect(run({ prompt: "x" }, { config: { max_tokens: 0 } })).rejects.toThrow();
  });
});
