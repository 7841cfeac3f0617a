/**
 * Tasks in memory: only inline items, answered at once without an sla, and by `finish` with one.
 */

import { randomUUID } from "node:crypto";
import { type FailureCode, PerigeeError } from "../../src/errors.ts";
import { cancelledUnsent } from "../../src/tasks/large/task_objects.ts";
import type { TaskRequest } from "../../src/tasks/shapes/requests.ts";
import type { Page, PageQuery, RetriedTask, TaskView } from "../../src/tasks/shapes/task_view.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";
import type { TaskObject } from "../../src/work/task.ts";

interface Held {
  view: TaskView;
  objects: TaskObject[];
  readonly inputs: string[];
}

export class FakeTasks implements Tasks {
  readonly held = new Map<string, Held>();
  /** What `submit` throws next. */
  failure: unknown;
  objectReads = 0;
  /** The codes that retries were asked with. */
  readonly retries: (readonly FailureCode[] | undefined)[] = [];

  async submit(project: string, request: TaskRequest): Promise<TaskView> {
    if (this.failure !== undefined) throw this.failure;
    const id = randomUUID();
    const objects: TaskObject[] = [];
    const inputs: string[] = [];
    for await (const item of request.items) {
      if ("file_id" in item) throw new PerigeeError("not_found", `no file ${item.file_id}`);
      const input = typeof item.input === "string" ? item.input : "";
      const usage = { input_tokens: input.length, price_factor: item.sla === undefined ? 1 : 0.5 };
      inputs.push(input);
      objects.push(
        item.sla === undefined
          ? answered({ object_id: randomUUID(), status: "submitted", usage, error: null }, input)
          : { object_id: randomUUID(), status: "submitted", phase: "queued", usage, error: null },
      );
    }
    const view: TaskView = {
      id,
      project,
      status: "submitted",
      isCancelled: false,
      retries: 0,
      totalItems: objects.length,
      counts: { submitted: objects.length, completed: 0, failed: 0, expired: 0, cancelled: 0 },
      createdWallMs: Date.now(),
      held: [],
      hasOutputFile: request.hasOutputFile,
      usage: { inputTokens: 0, outputTokens: 0, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 },
      version: "v1",
    };
    const held = { view, objects, inputs };
    this.held.set(id, held);
    recount(held, "v1");
    return held.view;
  }

  /** Answers every object of a task. */
  finish(id: string): void {
    const held = this.held.get(id);
    if (held === undefined) throw new Error("no such task");
    held.objects = held.objects.map((object, index) => answered(object, held.inputs[index] ?? ""));
    recount(held, "v2");
  }

  async task(project: string, id: string): Promise<TaskView> {
    return this.#of(project, id).view;
  }

  async list(project: string, query: PageQuery): Promise<Page<TaskView>> {
    const views = [...this.held.values()].map(({ view }) => view).filter((view) => view.project === project);
    return page(views.reverse(), (view) => view.id, query);
  }

  async objects(project: string, task: string | TaskView, query: PageQuery): Promise<Page<TaskObject>> {
    this.objectReads += 1;
    return page(
      this.#of(project, typeof task === "string" ? task : task.id).objects,
      (object) => object.object_id,
      query,
    );
  }

  async object(project: string, objectId: string): Promise<TaskObject> {
    for (const { view, objects } of this.held.values()) {
      const found = objects.find((object) => object.object_id === objectId);
      if (found !== undefined && view.project === project) return found;
    }
    throw new PerigeeError("not_found", `no object ${objectId}`);
  }

  async receipt(_project: string, id: string): Promise<never> {
    throw new PerigeeError("not_found", `no object ${id}`);
  }

  async cancel(project: string, id: string): Promise<TaskView> {
    const held = this.#of(project, id);
    held.objects = held.objects.map((object) => (object.status === "submitted" ? cancelled(object) : object));
    recount(held, "v3");
    held.view = { ...held.view, isCancelled: true };
    return held.view;
  }

  async remove(project: string, id: string): Promise<void> {
    if (this.#of(project, id).view.counts.submitted > 0)
      throw new PerigeeError("conflict", "the task has objects that are not final; cancel it first");
    this.held.delete(id);
  }

  async retry(project: string, id: string, codes?: readonly FailureCode[]): Promise<RetriedTask> {
    this.retries.push(codes);
    return { task: this.#of(project, id).view, items: 0 };
  }

  output(): never {
    throw new PerigeeError("not_ready", "not in this fake");
  }

  answers(): never {
    throw new PerigeeError("not_ready", "not in this fake");
  }

  onFinished(): () => void {
    return () => undefined;
  }

  #of(project: string, id: string): Held {
    const held = this.held.get(id);
    if (held === undefined || held.view.project !== project)
      throw new PerigeeError("not_found", `no task ${id}`);
    return held;
  }
}

function answered({ object_id, usage }: TaskObject, text: string): TaskObject {
  const used = { ...usage, output_tokens: 2 };
  return { object_id, status: "completed", usage: used, output: { type: "text", text }, error: null };
}

function cancelled({ object_id, usage }: TaskObject): TaskObject {
  return { object_id, status: "cancelled", usage, error: cancelledUnsent() };
}

function recount(held: Held, version: string): void {
  const counts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
  for (const { status } of held.objects) counts[status] += 1;
  const { expectedEndWallMs: _end, isSlaAtRisk: _isAtRisk, ...view } = held.view;
  const isOpen = counts.submitted > 0;
  held.view = {
    ...view,
    counts,
    version,
    status: isOpen ? "submitted" : "completed",
    ...(isOpen ? { expectedEndWallMs: view.createdWallMs + 30_000, isSlaAtRisk: true } : {}),
  };
}

function page<T>(items: readonly T[], idOf: (item: T) => string, { after, limit }: PageQuery): Page<T> {
  const start = after === undefined ? 0 : items.findIndex((item) => idOf(item) === after) + 1;
  if (after !== undefined && start === 0) throw new PerigeeError("not_found", `none ${after}`);
  return { items: items.slice(start, start + limit), hasMore: items.length > start + limit };
}
