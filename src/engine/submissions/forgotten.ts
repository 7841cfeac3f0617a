/**
 * Forgotten tasks: those that a caller has no more use for.
 *
 *   stored -> marked (not found any more, its name is free) -> batches cancelled, files removed -> rows deleted, a minute later
 *
 * The rows wait because they show the next process what was sent within the last minute, which counts against the
 * limits. They go at the next `forget` or at the next start, which also finish what a crash has left half done.
 */
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { StoredTask } from "../../store/store.ts";
import type { Batches } from "../batches/batches.ts";
import type { EngineCore } from "../core.ts";
import { LineDigests } from "../files/line_digests.ts";
import { bodyOf } from "../files/moved_task.ts";
import type { SharedCaps } from "../files/shared_caps.ts";
import { removeRunFiles, submittedPath } from "../files/task_files.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { LIMITS_WINDOW_MS } from "../lanes/lanes.ts";
import { partName, submissionIn } from "./submission_body.ts";

/** What is stored of a task in place of its own body. */
interface ForgottenBody {
  readonly kind: "forgotten";
  readonly sinceWallMs: number;
  /** The task's own, which says what is left to be removed. */
  readonly body: string;
}

/** What a task is forgotten with. */
type ForgettingCore = Pick<EngineCore, "storage" | "caps" | "atWork" | "sending">;

/** Every read of a task checks it: a forgotten one is not found. */
export class Forgotten {
  readonly #storage: EngineStorage;
  readonly #caps: SharedCaps;
  readonly #atWork: Set<string>;
  readonly #batches: Pick<Batches, "forget">;
  /** Tasks of which only the rows are left, and since when they are forgotten. */
  readonly #rows = new Map<string, number>();

  constructor({ storage, caps, atWork, sending }: ForgettingCore) {
    this.#storage = storage;
    this.#caps = caps;
    this.#atWork = atWork;
    this.#batches = sending.batches;
  }

  /** Marks a task, and removes its files. Throws `not_found`, `conflict` when it is at work, `store_failed`. */
  async forget(id: string, isAtWork: boolean): Promise<void> {
    const { store } = this.#storage;
    const atWork = this.#atWork;
    const task = await store.task(id);
    if (task === undefined || forgottenIn(task) !== undefined)
      throw new PerigeeError("not_found", `no task ${JSON.stringify(id.slice(0, 64))}`);
    const tasks = [task, ...(await this.#partsOf(task))];
    const names = tasks.map(({ name }) => name);
    if (isAtWork || names.some((name) => atWork.has(name)))
      throw new PerigeeError("conflict", `task ${id} is at work; stop or cancel its run first`);
    for (const name of names) atWork.add(name);
    try {
      for (const one of tasks) await this.#caps.keep(one.id);
      for (const one of tasks) await this.#mark(one); // the list before its parts: it is not begun again then
      for (const one of tasks) await this.#removeFiles(one, this.#storage.clock.wallMs());
    } catch (cause) {
      if (cause instanceof PerigeeError) throw cause;
      const code = errorCodeOf(cause) ?? "unknown error";
      const message = `files of task ${id} could not be removed (${code}); the next start tries again`;
      throw new PerigeeError("store_failed", message, { cause });
    } finally {
      for (const name of names) atWork.delete(name);
    }
    await this.sweep();
  }

  /** At the start: takes up a task that an earlier process has marked. What cannot be removed waits for the next start. */
  async resume(task: StoredTask): Promise<void> {
    const forgotten = forgottenIn(task);
    if (forgotten === undefined) return;
    const original = { ...task, body: forgotten.body };
    try {
      for (const part of await this.#partsOf(original)) {
        await this.#mark(part);
        await this.#removeFiles(part, this.#storage.clock.wallMs());
      }
      await this.#removeFiles(original, forgotten.sinceWallMs);
    } catch {
      // Nothing of it is needed: a disk that is full or fails must not keep the engine from its work.
    }
  }

  /** Deletes the rows of those that count against no limit any more. */
  async sweep(): Promise<void> {
    const { store, clock } = this.#storage;
    for (const [id, sinceWallMs] of [...this.#rows]) {
      if (clock.wallMs() - sinceWallMs < LIMITS_WINDOW_MS) continue;
      await this.#caps.fold(id);
      await store.deleteTask(id);
      this.#rows.delete(id);
    }
  }

  async #mark(task: StoredTask): Promise<void> {
    const { store, clock } = this.#storage;
    const body: ForgottenBody = { kind: "forgotten", sinceWallMs: clock.wallMs(), body: task.body };
    await store.putTask({ ...task, name: `forgotten:${task.id}`, body: JSON.stringify(body) });
  }

  /** The runs of a submitted list that are not marked yet. */
  async #partsOf(task: StoredTask): Promise<StoredTask[]> {
    const parts: StoredTask[] = [];
    for (const part of submissionIn(task.body)?.parts.keys() ?? []) {
      const found = await this.#storage.store.taskByName(partName(task.id, part));
      if (found !== undefined) parts.push(found);
    }
    return parts;
  }

  async #removeFiles({ id, body }: StoredTask, sinceWallMs: number): Promise<void> {
    const submission = submissionIn(body);
    if (submission === undefined) {
      const run = bodyOf(this.#storage, { id, body });
      await this.#batches.forget(id);
      await removeRunFiles(this.#storage, id, run);
      if (run.inputChecksum !== undefined)
        await LineDigests.remove(this.#storage.store, id, run.inputChecksum);
    }
    for (const part of submission?.parts.keys() ?? [])
      await this.#storage.disk.remove(submittedPath(this.#storage, id, part));
    if (submission === undefined) this.#rows.set(id, sinceWallMs);
    else await this.#storage.store.deleteTask(id); // it shows nothing of what was sent, and a list may be submitted under its id again
  }
}

function forgottenIn(task: StoredTask): ForgottenBody | undefined {
  const value = JSON.parse(task.body) as ForgottenBody | { readonly kind?: undefined }; // written by this engine
  return value.kind === "forgotten" ? value : undefined;
}
