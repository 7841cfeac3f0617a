/**
 * What people call a task: a name of its metadata, its file, or its model.
 *
 * Metadata is that of an OpenAI batch, or of the task's first item once that has ended. Of it the first text under `task`, `name`, `job`,
 * `title` or `description` is taken. Files have the names that they were uploaded with.
 *
 * The models of a task that shares a file with others (made by an earlier version) are not known: its first answer names one.
 *
 * Limits: 2,000 names are kept, each at most 80 characters; a task whose first item has not ended is asked about every 10 s.
 */
import type { Clock } from "../../clock.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import type { TaskObject } from "../../work/task.ts";

const KEPT_MAX = 2_000;
const CHARS_MAX = 80;
const AGAIN_MS = 10_000;
const NAMING = ["task", "name", "job", "title", "description"] as const;

/** A name, and where it is from. */
export interface TaskName {
  readonly name: string;
  readonly named_by: "metadata" | "file" | "model";
}

interface Known {
  readonly name: TaskName | undefined;
  /** Monotonic time after which it is asked for again. */
  readonly staleMs: number;
}

/** What names are read from. */
export interface TaskNamesOptions {
  readonly clock: Pick<Clock, "nowMs">;
  readonly tasks: Pick<Tasks, "objects">;
  readonly files: Pick<Files, "file">;
}

/** One for a process. */
export class TaskNames {
  readonly #options: TaskNamesOptions;
  /** By id, those asked for first ahead. */
  readonly #known = new Map<string, Known>();

  constructor(options: TaskNamesOptions) {
    this.#options = options;
  }

  /** Undefined when nothing names it. Never rejects: what cannot be read names nothing. */
  async of(task: TaskView): Promise<TaskName | undefined> {
    const nowMs = this.#options.clock.nowMs();
    const known = this.#known.get(task.id);
    if (known !== undefined && nowMs < known.staleMs) return known.name;
    const noted = nameIn(noteOf(task));
    const first = noted === undefined ? await this.#firstItem(task) : undefined;
    const byMetadata = noted ?? nameIn(first?.metadata);
    const models = task.models.length > 0 || first?.model === undefined ? task.models : [first.model];
    const name: TaskName | undefined =
      byMetadata === undefined
        ? ((await this.#ofFile(task)) ?? ofModels(models))
        : { name: byMetadata, named_by: "metadata" };
    const isSure = byMetadata !== undefined || task.counts.submitted === 0;
    this.#known.delete(task.id);
    this.#known.set(task.id, { name, staleMs: isSure ? Number.POSITIVE_INFINITY : nowMs + AGAIN_MS });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= KEPT_MAX) break;
      this.#known.delete(oldest);
    }
    return name;
  }

  /** Once some item has ended; before, it has nothing that names it. */
  async #firstItem(task: TaskView): Promise<TaskObject | undefined> {
    if (task.counts.submitted === task.totalItems) return undefined;
    const first = await this.#options.tasks.objects(task.project, task, { limit: 1 }).catch(() => undefined);
    return first?.items[0];
  }

  async #ofFile({ project, fileIds }: TaskView): Promise<TaskName | undefined> {
    const [id] = fileIds;
    if (id === undefined) return undefined;
    const file = await this.#options.files.file(project, id).catch(() => undefined); // it may be erased
    return file === undefined ? undefined : { name: shortened(file.name) + more(fileIds), named_by: "file" };
  }
}

function ofModels(models: readonly string[]): TaskName | undefined {
  const [model] = models;
  return model === undefined ? undefined : { name: shortened(model) + more(models), named_by: "model" };
}

function more(all: readonly string[]): string {
  return all.length > 1 ? ` and ${all.length - 1} more` : "";
}

/** The metadata in a note that the OpenAI front has made. */
function noteOf({ note }: TaskView): unknown {
  if (note === undefined) return undefined;
  try {
    return (JSON.parse(note) as { readonly metadata?: unknown } | null)?.metadata;
  } catch {
    return undefined; // a note of another program
  }
}

function nameIn(metadata: unknown): string | undefined {
  if (typeof metadata !== "object" || metadata === null) return undefined;
  for (const naming of NAMING) {
    const text: unknown = Reflect.get(metadata, naming);
    if (typeof text === "string" && text.trim() !== "") return shortened(text.trim());
  }
  return undefined;
}

function shortened(text: string): string {
  const characters = Array.from(text);
  return characters.length <= CHARS_MAX ? text : `${characters.slice(0, CHARS_MAX - 1).join("")}…`;
}
