/**
 * Submitted lists: `submit`, `task` and `object` with the shapes of the interface (2.1 to 2.3).
 *
 * A list becomes one run for each different sla in it: items without sla run at once, and `submit` waits for them.
 * Every item is a line of a file beside the journal, so a million objects need no row each; an object's id is its
 * task's with the item's number folded into the last four bytes.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { PerigeeError } from "../errors.ts";
import { itemLine } from "../jsonl/items.ts";
import type { InlineItem } from "../work/item.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import type { Task, TaskObject } from "../work/task.ts";
import type { Source } from "./input.ts";
import type { EngineParts } from "./parts.ts";
import type { Run } from "./run.ts";
import type { RunOptions } from "./run_open.ts";
import { SubmittedPart } from "./submitted_part.ts";

/** Items of one list at most. */
const ITEMS_MAX = 1_000_000;
const TASKS_PAGE = 100;

/** What is stored of a submitted list. */
interface SubmissionBody {
  readonly kind: "submission";
  /** One for each different sla; null: at once. */
  readonly parts: readonly { readonly sla: number | null; readonly items: number }[];
  /** Part of each item; absent when there is one part. */
  readonly partOf?: readonly number[];
  readonly isDone: boolean;
}

interface Submission {
  readonly body: SubmissionBody;
  readonly parts: readonly SubmittedPart[];
}

type RunItems = (source: Source, options: RunOptions) => Run;

export class Submissions {
  readonly #parts: EngineParts;
  readonly #run: RunItems;
  readonly #open = new Map<string, Promise<Submission>>();

  constructor(parts: EngineParts, run: RunItems) {
    this.#parts = parts;
    this.#run = run;
  }

  /** Continues every submission that was not done. */
  async open(): Promise<void> {
    let after: string | undefined;
    for (;;) {
      const page = await this.#parts.store.tasks({
        limit: TASKS_PAGE,
        ...(after === undefined ? {} : { after }),
      });
      for (const { id, body } of page) {
        const submission = submissionIn(body);
        if (submission !== undefined && !submission.isDone) await this.#begin(id, submission);
      }
      after = page.at(-1)?.id;
      if (page.length < TASKS_PAGE) return;
    }
  }

  async submit(items: readonly InlineItem[]): Promise<Task> {
    if (items.length === 0) throw new PerigeeError("usage", "a task needs at least one item");
    if (items.length > ITEMS_MAX)
      throw new PerigeeError("usage", `a task has at most ${ITEMS_MAX} items, got ${items.length}`);
    const slas = items.map(
      (item, index) => parseSlaMinutes(checked(item, index).sla, `item ${index}`) ?? null,
    );
    const distinct = [...new Set(slas)];
    const partOf = slas.map((sla) => distinct.indexOf(sla));
    const id = randomUUID();
    const body: SubmissionBody = {
      kind: "submission",
      parts: distinct.map((sla, part) => ({ sla, items: partOf.filter((one) => one === part).length })),
      ...(distinct.length === 1 ? {} : { partOf }),
      isDone: false,
    };
    for (const part of distinct.keys()) {
      await this.#spool(
        id,
        part,
        items.flatMap((item, index) => (partOf[index] === part ? [lineOf(item, index)] : [])),
      );
    }
    await this.#store(id, body);
    const submission = await this.#begin(id, body);
    await Promise.all(submission.parts.filter((part) => part.isImmediate).map((part) => part.finished));
    return this.task(id);
  }

  async task(id: string): Promise<Task> {
    const { body, parts } = await this.#find(id);
    const counts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
    const objects: TaskObject[] = [];
    const next = parts.map(() => 0);
    const total = body.parts.reduce((sum, part) => sum + part.items, 0);
    for (let index = 0; index < total; index += 1) {
      const part = body.partOf?.[index] ?? 0;
      next[part] = (next[part] ?? 0) + 1;
      const object = await (parts[part] as SubmittedPart).object(objectId(id, index), next[part]);
      counts[object.status] += 1;
      objects.push(object);
    }
    const status = counts.submitted > 0 ? "submitted" : "completed";
    return { status, task_id: id, total_items: total, counts, objects };
  }

  async object(id: string): Promise<TaskObject> {
    const task = await this.#parts.store.taskByName(nameOf(id));
    if (task === undefined) throw notFound("object", id);
    const index = indexOf(task.id, id);
    const { body, parts } = await this.#find(task.id);
    const total = body.parts.reduce((sum, part) => sum + part.items, 0);
    if (index < 0 || index >= total) throw notFound("object", id);
    const part = body.partOf?.[index] ?? 0;
    const line =
      body.partOf === undefined
        ? index + 1
        : body.partOf.slice(0, index + 1).filter((one) => one === part).length;
    return (parts[part] as SubmittedPart).object(id, line);
  }

  async #find(id: string): Promise<Submission> {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    const body = submissionIn((await this.#parts.store.task(id))?.body);
    if (body === undefined) throw notFound("task", id);
    return this.#begin(id, body);
  }

  #begin(id: string, body: SubmissionBody): Promise<Submission> {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    const begun = this.#beginParts(id, body);
    this.#open.set(id, begun);
    begun.catch(() => this.#open.delete(id));
    return begun;
  }

  async #beginParts(id: string, body: SubmissionBody): Promise<Submission> {
    const parts = await Promise.all(
      body.parts.map(({ sla, items }, part) =>
        SubmittedPart.begin(this.#parts, this.#run, {
          input: this.#inputPath(id, part),
          runId: `${id}/${part}`,
          slaMinutes: sla ?? undefined,
          items,
        }),
      ),
    );
    if (!body.isDone) {
      Promise.all(parts.map((part) => part.finished))
        .then((summaries) =>
          summaries.every((one) => one.status === "completed")
            ? this.#store(id, { ...body, isDone: true })
            : undefined,
        )
        .catch(() => undefined); // each run has told its own failure; the submission stays open and is begun again
    }
    return { body, parts };
  }

  #store(id: string, body: SubmissionBody): Promise<void> {
    return this.#parts.store.putTask({
      id,
      name: nameOf(id),
      createdWallMs: this.#parts.clock.wallMs(),
      body: JSON.stringify(body),
    });
  }

  async #spool(id: string, part: number, lines: readonly string[]): Promise<void> {
    const file = await this.#parts.disk.open(this.#inputPath(id, part), "write");
    await file.write(Buffer.from(lines.join("")), 0);
    await file.sync();
    await file.close();
  }

  #inputPath(id: string, part: number): string {
    return join(this.#parts.dataDir, "tasks", `${id}.${part}.jsonl`);
  }
}

function lineOf(item: InlineItem, index: number): string {
  const { model, input } = item;
  return `${itemLine({ key: String(index), model, input }, `item ${index}`)}\n`;
}

function checked(item: InlineItem, index: number): InlineItem {
  const isItem =
    typeof item === "object" &&
    item !== null &&
    typeof item.model === "string" &&
    typeof item.input === "string";
  if (!isItem) throw new PerigeeError("usage", `item ${index} must have a model and an input, both text`);
  return item;
}

function submissionIn(body: string | undefined): SubmissionBody | undefined {
  if (body === undefined) return undefined;
  const value = JSON.parse(body) as SubmissionBody | { readonly kind?: undefined }; // written by this engine
  return value.kind === "submission" ? value : undefined;
}

/** The first 24 hex digits of a task's id, which its objects share. */
function nameOf(id: string): string {
  return `submission:${id.replaceAll("-", "").slice(0, 24)}`;
}

function lastBytes(id: string): number {
  return Number.parseInt(id.slice(-8), 16);
}

/** Folds the item's number into the last four bytes, so that neither order nor size shows. */
function objectId(taskId: string, index: number): string {
  return taskId.slice(0, -8) + ((lastBytes(taskId) ^ (index + 1)) >>> 0).toString(16).padStart(8, "0");
}

function indexOf(taskId: string, id: string): number {
  return ((lastBytes(taskId) ^ lastBytes(id)) >>> 0) - 1;
}

function notFound(what: string, id: string): PerigeeError {
  return new PerigeeError("not_found", `no ${what} ${JSON.stringify(id.slice(0, 64))}`);
}
