/**
 * What becomes of a batch when its process dies, its disk is full, or nobody says that its task is final.
 */
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { keptBatches } from "../../src/service/openai/batch_record.ts";
import { ServedBatches } from "../../src/service/openai/batches.ts";
import type { StoredRecord } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import type { TaskRequest } from "../../src/tasks/shapes/requests.ts";
import type { AnsweredLine, TaskView } from "../../src/tasks/shapes/task_view.ts";
import type { TaskEvent, Tasks } from "../../src/tasks/shapes/tasks.ts";
import { objectId } from "../../src/work/object_id.ts";
import { chunked, FileWorld, textOf } from "../tasks/files.ts";
import { batchLines } from "./openai_world.ts";

const COUNTS = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
const USAGE = { inputTokens: 0, outputTokens: 0, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 };

/** Tasks of two lines that a test ends: the first is answered, the second is not. */
class TwoLineTasks {
  readonly views = new Map<string, TaskView>();
  readonly listeners = new Set<(event: TaskEvent) => void | Promise<void>>();
  onSubmit: () => void = () => undefined;

  async submit(project: string, { id = "" }: TaskRequest): Promise<TaskView> {
    this.onSubmit();
    const view: TaskView = {
      id,
      project,
      status: "submitted",
      isCancelled: false,
      retries: 0,
      totalItems: 2,
      models: [],
      fileIds: [],
      counts: { ...COUNTS, submitted: 2 },
      createdWallMs: 0,
      held: [],
      hasOutputFile: false,
      usage: USAGE,
      version: "1",
    };
    this.views.set(id, view);
    return view;
  }

  async task(_project: string, id: string): Promise<TaskView> {
    const view = this.views.get(id);
    if (view === undefined) throw new PerigeeError("not_found", "no task");
    return view;
  }

  async *answers(_project: string, id: string, view: string): AsyncGenerator<AnsweredLine> {
    const usage = { input_tokens: 1, output_tokens: 2 };
    const line = {
      key: view === "errors" ? "r2" : "r1",
      usage,
      error: null,
      output: null,
      facts: { model: "m" },
    };
    if (view === "errors") yield { ...line, objectId: objectId(id, 2), status: "expired" };
    else
      yield {
        ...line,
        objectId: objectId(id, 1),
        status: "completed",
        output: { type: "text", text: "A" },
      };
  }

  onFinished(listener: (event: TaskEvent) => void | Promise<void>): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  end(id: string): void {
    const view = this.views.get(id) as TaskView;
    const counts = { ...COUNTS, completed: 1, expired: 1 };
    this.views.set(id, { ...view, status: "completed", counts, finishedWallMs: 5_000 });
  }

  async tell(id: string): Promise<void> {
    for (const listener of this.listeners) await listener({ kind: "completed", project: "p", taskId: id });
  }
}

class BatchWorld extends FileWorld {
  readonly tasks = new TwoLineTasks();
  #open: ServedBatches | undefined;

  async start(): Promise<{ readonly batches: ServedBatches; readonly files: Files; readonly store: Store }> {
    const store = await this.store.open();
    const files = await this.files({ store });
    const { clock } = this;
    const batches = new ServedBatches(store, clock, this.tasks as unknown as Tasks, files);
    await batches.open();
    this.#open = batches;
    return { batches, files, store };
  }

  kill(): void {
    this.#open?.close();
    this.disk.crash({ powerCut: true });
    this.store.crash();
  }
}

const terms = {
  endpoint: "/v1/chat/completions",
  completionWindow: "1h",
  windowMs: 3_600_000,
  metadata: null,
};

async function begun() {
  const world = new BatchWorld();
  const started = await world.start();
  const chunks = chunked(batchLines(["one", "two"], "m"));
  const { id: inputFileId } = await started.files.put("p", { name: "in", purpose: "batch", chunks });
  const { batch } = await started.batches.create("p", { ...terms, inputFileId });
  return { world, ...started, inputFileId, id: batch.id };
}

async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const value = await read();
    if (holds(value)) return value;
  }
  throw new Error("it did not come about");
}

const isEnded = (view: Awaited<ReturnType<ServedBatches["batch"]>>): boolean => view.batch.end !== undefined;

describe("a batch", () => {
  it("has its files when its task is reported as final", async () => {
    const { world, batches, files, id, inputFileId } = await begun();
    await expect(files.remove("p", inputFileId)).rejects.toMatchObject({ code: "conflict" });
    world.tasks.end(id);
    await world.tasks.tell(id);
    const { batch } = await batches.batch("p", id);
    expect(batch.end).toMatchObject({ kind: "expired", finalWallMs: 5_000, total: 2, completed: 1 });
    const [answer, error] = [batch.outputFileId, batch.errorFileId].map((file) =>
      textOf(files.read("p", file)),
    );
    expect(JSON.parse((await answer) ?? "")).toMatchObject({
      custom_id: "r1",
      response: { body: { model: "m" } },
    });
    expect(JSON.parse((await error) ?? "")).toMatchObject({
      custom_id: "r2",
      error: { code: "batch_expired" },
    });
    await files.remove("p", inputFileId);
  });

  it("has them once, whenever the process dies while it makes them", async () => {
    for (let operation = 1; operation < 20; operation += 1) {
      const { world, id } = await begun();
      world.tasks.end(id);
      world.disk.crashAtOperation(operation, { powerCut: true });
      void world.tasks.tell(id);
      await until(
        async () => world.disk.operationsDone,
        () => true,
      );
      world.kill();
      const { batches, files } = await world.start();
      const { batch } = await until(() => batches.batch("p", id), isEnded);
      const made = (await files.list("p", { limit: 10, purpose: "batch_output" })).items.map(
        (file) => file.id,
      );
      expect(made.sort()).toEqual([batch.outputFileId, batch.errorFileId].sort());
      expect(world.disk.paths).toHaveLength(3);
    }
  });

  it("is finished by a process that nobody tells", async () => {
    const { world, id, inputFileId } = await begun();
    world.kill();
    world.tasks.end(id);
    const { batches, files } = await world.start();
    await until(() => batches.batch("p", id), isEnded);
    await files.remove("p", inputFileId);
  });

  it("keeps its input for the next process", async () => {
    const { world, inputFileId } = await begun();
    world.kill();
    const { files } = await world.start();
    await expect(files.remove("p", inputFileId)).rejects.toMatchObject({ code: "conflict" });
  });

  it("waits for room on a full disk and tries again", async () => {
    const { world, batches, files, id } = await begun();
    world.tasks.end(id);
    world.disk.setFull(10);
    await world.tasks.tell(id);
    expect(isEnded(await batches.batch("p", id))).toBe(false);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await world.clock.advance(10_000);
    await until(() => batches.batch("p", id), isEnded);
    expect((await files.list("p", { limit: 9 })).items).toHaveLength(3);
  });

  it("that was refused leaves nothing, and its input can be removed", async () => {
    const { world, batches, files, inputFileId } = await begun();
    world.tasks.onSubmit = () => {
      throw new PerigeeError("budget_exceeded", "no money");
    };
    await expect(batches.create("p", { ...terms, inputFileId })).rejects.toMatchObject({
      code: "budget_exceeded",
    });
    expect((await batches.list("p", { limit: 9 })).items).toHaveLength(1);
    const chunks = chunked("{}\n");
    const other = await files.put("p", { name: "in", purpose: "batch", chunks });
    await expect(batches.create("p", { ...terms, inputFileId: other.id })).rejects.toThrow("no money");
    await files.remove("p", other.id);
  });

  it("stays as it is when another one is to have its id", async () => {
    const { batches, files, id, inputFileId } = await begun();
    await expect(batches.create("p", { ...terms, inputFileId }, id)).rejects.toMatchObject({
      code: "conflict",
    });
    expect((await batches.batch("p", id)).batch.end).toBeUndefined();
    await expect(files.remove("p", inputFileId)).rejects.toMatchObject({ code: "conflict" });
  });

  it("whose process died before its task was stored has failed", async () => {
    const { world, batches, inputFileId } = await begun();
    let killed: Promise<unknown> = Promise.resolve();
    world.tasks.onSubmit = () => {
      world.kill();
      throw new Error("the process is dead");
    };
    killed = batches.create("p", { ...terms, inputFileId }).catch(() => undefined);
    await killed;
    const again = await world.start();
    const { items } = await again.batches.list("p", { limit: 9 });
    expect(items).toHaveLength(2);
    const lost = items[0]?.batch.id ?? "";
    const { batch } = await until(() => again.batches.batch("p", lost), isEnded);
    expect(batch.end).toMatchObject({ kind: "failed", total: 0, hasOutput: false, hasErrors: false });
    await expect(again.batches.begun("p", lost)).rejects.toMatchObject({ code: "not_found" });
  });

  it("is deleted so long after its end", async () => {
    const { world, batches, id, store } = await begun();
    const kept = keptBatches(store, 0);
    const stored = async () => (await store.record("p", "openai_batch", id)) as StoredRecord;
    expect(await kept.remove?.(await stored(), Number.POSITIVE_INFINITY)).toBe(false);
    world.tasks.end(id);
    await world.tasks.tell(id);
    const { endedWallMs = 0 } = (await batches.batch("p", id)).batch.end ?? {};
    expect(await kept.remove?.(await stored(), endedWallMs - 1)).toBe(false);
    expect(await kept.remove?.(await stored(), endedWallMs)).toBe(true);
    await expect(batches.batch("p", id)).rejects.toMatchObject({ code: "not_found" });
  });

  it("is cancelled once, and its end tells so", async () => {
    const { world, batches, id } = await begun();
    Object.assign(world.tasks, {
      cancel: async (project: string, task: string) => {
        const view = await world.tasks.task(project, task);
        world.tasks.views.set(task, { ...view, isCancelled: true });
        return world.tasks.task(project, task);
      },
    });
    const first = await batches.cancel("p", id);
    await world.clock.advance(1_000);
    const second = await batches.cancel("p", id);
    expect(second.batch.cancellingWallMs).toBe(first.batch.cancellingWallMs);
    world.tasks.end(id);
    await world.tasks.tell(id);
    expect((await batches.batch("p", id)).batch.end?.kind).toBe("cancelled");
    expect((await batches.cancel("p", id)).batch.end?.kind).toBe("cancelled");
    await expect(batches.cancel("other", id)).rejects.toMatchObject({ code: "not_found" });
  });
});
