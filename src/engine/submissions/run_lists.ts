/**
 * Submitted lists that are runs, one for each different sla in a list: the files of their lines, and what the store has of them.
 *
 *   spooled -> stored (from here on it survives anything) -> begun -> over (its runs have ended) -> dropped, read again when needed
 *   over -> begun      some of its items are run again
 *
 * Limits: 39 bytes of columns an item while a list is begun. Lists whose runs have ended are kept in memory for the 64 last read.
 */
import { PerigeeError } from "../../errors.ts";
import type { StoredTask } from "../../store/store.ts";
import { objectNumber, stemOf } from "../../work/object_id.ts";
import type { CacheOptions } from "../config/cache_terms.ts";
import type { Source } from "../files/input.ts";
import { submittedPath } from "../files/task_files.ts";
import { rethrowFileError } from "../journal/file_errors.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import type { Run } from "../runs/run.ts";
import type { EngineRunOptions } from "../runs/run_open.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";
import type { ListGroups } from "./list_items.ts";
import { type ListSchema, storedSchema } from "./list_schema.ts";
import type { ListPlaces, Submission } from "./run_list.ts";
import { partRunId, type SubmissionBody, submissionIn } from "./submission_body.ts";
import { type SubmittedIn, SubmittedPart } from "./submitted_part.ts";

/** Lists kept in memory when their runs have ended. */
const OVER_KEPT_MAX = 64;

/** What the runs of a list are made of. */
export interface RunsOfList {
  readonly groups: ListGroups;
  readonly schema: ListSchema | undefined;
  readonly schemaTries: number | undefined;
}

/** What a call adds to what is stored of a list. */
interface BeginTerms {
  /** A schema that the program checks itself. */
  readonly schema?: SchemaOptions["schema"];
  readonly retryFailed?: RetryFailed;
}

type RunItems = (source: Source, options: EngineRunOptions) => Run;

/** A list's task, with the checksum of its items if the caller named it, and how long it is kept. */
export interface ListName {
  readonly id: string;
  readonly checksum?: string;
  readonly retentionDays?: number;
}

/** One for an engine. */
export class RunLists {
  readonly #core: SubmittedIn;
  readonly #run: RunItems;
  readonly #open = new Map<string, Promise<Submission>>();
  /** Of the open ones, those whose runs have ended; the one read last is the last. */
  readonly #over = new Set<string>();

  constructor(core: SubmittedIn, run: RunItems) {
    this.#core = core;
    this.#run = run;
  }

  /** Writes the lines and stores the list; its runs begin. */
  async accept(
    { id, checksum, retentionDays }: ListName,
    { groups, schema, schemaTries }: RunsOfList,
    { signal, cache, coalesce }: CacheOptions & { readonly signal?: AbortSignal },
  ): Promise<{ readonly begun: Promise<Submission> }> {
    const body: SubmissionBody = {
      kind: "submission",
      parts: groups.parts,
      ...(groups.parts.length === 1 ? {} : { partOf: groups.partOf }),
      ...(checksum === undefined ? {} : { checksum }),
      ...storedSchema(schema, schemaTries),
      ...(retentionDays === undefined ? {} : { retentionDays }),
      isDone: false,
      cache,
      coalesce,
    };
    try {
      for (const [part, chunks] of groups.lines.entries())
        await this.#spool(id, part, chunks).catch(rethrowFileError);
      signal?.throwIfAborted();
      await this.#store(id, body, signal);
    } catch (error) {
      for (const part of groups.parts.keys())
        await this.#core.storage.disk
          .remove(submittedPath(this.#core.storage, id, part))
          .catch(() => undefined); // the cause is reported below
      throw error;
    }
    return { begun: this.#begin(id, body, { schema: schema?.value }) };
  }

  /** Its failed items are open again. Throws `not_found`, `conflict` while it is at work. */
  async retry(id: string, retryFailed: RetryFailed): Promise<{ readonly begun: Promise<Submission> }> {
    await this.closed(id);
    const body = await this.bodyOf(id);
    if (body === undefined) throw notFound("task", id);
    if (this.isAtWork(id) || !body.isDone)
      throw new PerigeeError("conflict", `task ${id} is at work; wait until it is completed`);
    this.drop(id);
    await this.#store(id, { ...body, isDone: false });
    return { begun: this.#begin(id, { ...body, isDone: false }, { retryFailed }) };
  }

  /** At the start: continues a submission that was not done. */
  async resume({ id, body }: StoredTask): Promise<void> {
    const submission = submissionIn(body);
    if (submission === undefined || submission.isDone) return;
    await this.#begin(id, submission).catch(() => undefined); // a caller that asks for it gets the error; others continue
  }

  /** Resolves when the runs of all lists in memory have begun. */
  async begun(): Promise<void> {
    await Promise.allSettled(this.#open.values());
  }

  /** Whether runs of the task have not ended. */
  isAtWork(id: string): boolean {
    return this.#open.has(id) && !this.#over.has(id);
  }

  /** Resolves when the runs of a task are over if all of its items have ended, else at once. */
  async closed(id: string): Promise<void> {
    const submission = await this.#open.get(id)?.catch(() => undefined);
    if (submission?.parts.every((part) => part.isFinal) === true) await submission.over;
  }

  /** Lets go of a task that is not at work. */
  drop(id: string): void {
    this.#over.delete(id);
    this.#open.delete(id);
  }

  /** The run of an object, and its line there. */
  async place(id: string): Promise<{ part: SubmittedPart; runId: string; line: number }> {
    const task = await this.#core.storage.store.taskByName(nameOf(id));
    if (task === undefined) throw notFound("object", id);
    const index = objectNumber(task.id, id) - 1;
    const { parts, places } = await this.find(task.id);
    const number = index < 0 || index >= places.total ? -1 : (places.partOf[index] as number);
    const part = parts[number];
    if (part === undefined) throw notFound("object", id);
    return { part, runId: partRunId(task.id, number), line: places.lineOf[index] as number };
  }

  /** Begins its runs if they are not in memory; throws `not_found`. */
  async find(id: string): Promise<Submission> {
    const known = this.#open.get(id);
    if (known !== undefined) {
      if (this.#over.delete(id)) this.#over.add(id);
      return known;
    }
    const body = await this.bodyOf(id);
    if (body === undefined) throw notFound("task", id);
    return this.#begin(id, body);
  }

  /** What is stored of it; undefined for another task, and for none. */
  async bodyOf(id: string): Promise<SubmissionBody | undefined> {
    return submissionIn((await this.#core.storage.store.task(id))?.body);
  }

  #begin(id: string, body: SubmissionBody, terms: BeginTerms = {}): Promise<Submission> {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    const begun = this.#beginParts(id, body, terms);
    this.#open.set(id, begun);
    begun.catch(() => this.#open.delete(id));
    return begun;
  }

  async #beginParts(
    id: string,
    body: SubmissionBody,
    { schema = body.schema, retryFailed }: BeginTerms,
  ): Promise<Submission> {
    const parts = await Promise.all(
      body.parts.map(({ sla, items }, part) =>
        SubmittedPart.begin(this.#core, this.#run, {
          input: submittedPath(this.#core.storage, id, part),
          runId: partRunId(id, part),
          slaMinutes: sla ?? undefined,
          items,
          cached: cacheOf(body),
          ...(retryFailed === undefined ? {} : { retryFailed }),
          ...(schema === undefined ? {} : { schema }),
          ...(body.schemaTries === undefined ? {} : { schemaTries: body.schemaTries }),
        }),
      ),
    );
    return { parts, places: placesOf(body), over: this.#follow(id, body, parts) };
  }

  /** Marks the task when all of it is answered, and keeps it in memory no longer than others. */
  async #follow(id: string, body: SubmissionBody, parts: readonly SubmittedPart[]): Promise<void> {
    const ended = await Promise.allSettled(parts.map((part) => part.finished)); // each run reports its own failure
    const isAnswered = ended.every((one) => one.status === "fulfilled" && one.value.status === "completed");
    if (isAnswered && !body.isDone) await this.#store(id, { ...body, isDone: true }).catch(() => undefined); // begun again, then
    this.#over.add(id);
    for (const oldest of this.#over) {
      if (this.#over.size <= OVER_KEPT_MAX) return;
      this.#over.delete(oldest);
      this.#open.delete(oldest);
    }
  }

  #store(id: string, body: SubmissionBody, signal?: AbortSignal): Promise<void> {
    const { store, clock, room } = this.#core.storage;
    const task = { id, name: nameOf(id), createdWallMs: clock.wallMs(), body: JSON.stringify(body) };
    return room.answerFor(() => store.putTask(task), { signal });
  }

  /** Writes the lines of one part, durable. */
  async #spool(id: string, part: number, chunks: readonly Uint8Array[]): Promise<void> {
    const file = await this.#core.storage.disk.open(submittedPath(this.#core.storage, id, part), "write");
    try {
      let position = 0;
      for (const bytes of chunks) {
        await file.write(bytes, position);
        position += bytes.byteLength;
      }
      await file.truncate(position); // a process that was killed before the list was stored may have left a longer one
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

/** As an option of its runs. */
function cacheOf({ cache, coalesce }: SubmissionBody): CacheOptions {
  if (cache === undefined) return {};
  return coalesce === undefined ? { cache } : { cache, coalesce };
}

function placesOf(body: SubmissionBody): ListPlaces {
  const total = body.parts.reduce((sum, part) => sum + part.items, 0);
  const partOf = Uint8Array.from(body.partOf ?? new Uint8Array(total));
  const lineOf = new Uint32Array(total);
  const lines = new Uint32Array(body.parts.length);
  for (let index = 0; index < total; index += 1) {
    const part = partOf[index] as number;
    lines[part] = (lines[part] as number) + 1;
    lineOf[index] = lines[part] as number;
  }
  return { total, partOf, lineOf };
}

/** Under which a task is found by its own id and those of its objects. */
function nameOf(id: string): string {
  return `submission:${stemOf(id)}`;
}

/** No task or object of a submitted list has this id. */
export function notFound(what: string, id: string): PerigeeError {
  return new PerigeeError("not_found", `no ${what} ${JSON.stringify(id.slice(0, 64))}`);
}
