/**
 * Tasks and objects as they are sent, and the bodies of tasks that are polled, kept until they change.
 *
 * Hot path: a polled task of 1,000 objects answers 2,000/s; its body is made once for each version.
 */
import type { Hold } from "../../engine/items/holds.ts";
import { objectHold } from "../../engine/items/object_holds.ts";
import { moneyBody } from "../../price/money.ts";
import type { PageQuery, TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import type { TaskObject } from "../../work/task.ts";
import { matches } from "../http/etag.ts";
import { SharedReads } from "../http/shared_reads.ts";
import { timestamp, timestampOrNull } from "../shapes/timestamp.ts";

/** Bytes of bodies that are kept. */
const KEPT_BYTES_MAX = 64 * 1024 * 1024;

/** An answer with its tag. */
export interface TaggedBody {
  readonly etag: string;
  readonly body: Buffer;
}

/** Where answers are read as a file (interface 4.5). */
export type OutputUrl = (taskId: string) => string;

/** A task without its objects. */
export function taskHead(task: TaskView, outputUrl: OutputUrl): Record<string, unknown> {
  const { usage } = task;
  return {
    status: task.status,
    task_id: task.id,
    total_items: task.totalItems,
    counts: task.counts,
    is_cancelled: task.isCancelled,
    created_at: timestamp(task.createdWallMs),
    deadline: timestampOrNull(task.deadlineWallMs),
    finished_at: timestampOrNull(task.finishedWallMs),
    eta: timestampOrNull(task.expectedEndWallMs),
    ...(task.isSlaAtRisk === undefined ? {} : { sla_at_risk: task.isSlaAtRisk }),
    ...(task.held.length === 0 ? {} : { held: task.held.map(taskHold) }),
    usage: {
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      ...moneyBody(usage),
    },
    ...(task.hasOutputFile ? { output_url: outputUrl(task.id) } : {}),
  };
}

/** What holds items of a task. */
export function taskHold(hold: Hold): Record<string, unknown> {
  return { ...objectHold(hold), items: hold.items };
}

/** An object (interface 2.3). */
export function objectBody(object: TaskObject): Record<string, unknown> {
  const { object_id, status, phase, held, usage, output, error, ...facts } = object;
  return {
    object_id,
    status,
    ...(phase === undefined ? {} : { phase }),
    ...(held === undefined ? {} : { held }),
    usage,
    ...(output === undefined ? {} : { output }),
    error,
    ...facts,
  };
}

/** A task with a page of its objects; without them for the answer to a POST that asked for a file. `more` is added to it. */
export async function taskJson(
  tasks: Tasks,
  task: TaskView,
  outputUrl: OutputUrl,
  query: PageQuery | undefined,
  more: object = {},
): Promise<string> {
  const head = { ...taskHead(task, outputUrl), ...more };
  if (query === undefined) return JSON.stringify({ ...head, has_more: false, last_id: null });
  const { items, hasMore } = await tasks.objects(task.project, task, query);
  return JSON.stringify({
    ...head,
    objects: items.map(objectBody),
    has_more: hasMore,
    last_id: items.at(-1)?.object_id ?? null,
  });
}

/** Bodies of tasks by their version; the one asked for last stays longest. */
export class TaskBodies {
  readonly #tasks: Tasks;
  readonly #reads: SharedReads;
  readonly #outputUrl: OutputUrl;
  readonly #kept = new Map<string, TaggedBody>();
  /** Being made, by name and version: all who ask for one wait for it. */
  readonly #making = new Map<string, Promise<TaggedBody>>();
  /** By name, while one is being made: the version that was requested last. An older one that takes longer is not kept. */
  readonly #newest = new Map<string, string>();
  #keptBytes = 0;

  constructor(tasks: Tasks, outputUrl: OutputUrl) {
    this.#tasks = tasks;
    this.#reads = new SharedReads(tasks);
    this.#outputUrl = outputUrl;
  }

  /** Undefined when the caller has it already: `ifNoneMatch` names its version. Throws `not_found`. */
  async body(
    project: string,
    id: string,
    query: PageQuery,
    ifNoneMatch: string | undefined,
  ): Promise<TaggedBody | { readonly etag: string; readonly body?: undefined }> {
    const task = await this.#reads.task(project, id);
    const etag = `"${task.version}${query.after === undefined ? "" : `.${query.after.replace(/[^\w-]/g, "")}`}.${query.limit}"`;
    if (matches(ifNoneMatch, etag)) return { etag };
    const name = `${project} ${task.id} ${query.after ?? ""} ${query.limit}`;
    const kept = this.#kept.get(name);
    if (kept?.etag === etag) {
      this.#kept.delete(name);
      this.#kept.set(name, kept);
      return kept;
    }
    const making = `${name} ${etag}`;
    this.#newest.set(name, etag);
    const body = this.#making.get(making) ?? this.#make(name, etag, task, query);
    this.#making.set(making, body);
    return body.finally(() => this.#making.delete(making));
  }

  async #make(name: string, etag: string, task: TaskView, query: PageQuery): Promise<TaggedBody> {
    try {
      const text = await taskJson(this.#tasks, task, this.#outputUrl, query);
      const made = { etag, body: Buffer.from(text) };
      if (this.#newest.get(name) === etag) this.#keep(name, made);
      return made;
    } finally {
      if (this.#newest.get(name) === etag) this.#newest.delete(name);
    }
  }

  #keep(name: string, made: TaggedBody): void {
    this.#drop(name);
    if (made.body.length > KEPT_BYTES_MAX / 4) return;
    this.#kept.set(name, made);
    this.#keptBytes += made.body.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#keptBytes <= KEPT_BYTES_MAX) return;
      this.#drop(oldest);
    }
  }

  #drop(name: string): void {
    const kept = this.#kept.get(name);
    if (kept === undefined) return;
    this.#kept.delete(name);
    this.#keptBytes -= kept.body.length;
  }
}
