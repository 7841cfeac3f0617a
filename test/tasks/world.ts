/**
 * The world of engine tests with tasks in it: what is submitted, killed and started again happens in virtual time.
 */
import type { Clock } from "../../src/clock.ts";
import type { BacklogBounds } from "../../src/engine/config/config_options.ts";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import { PerigeeError } from "../../src/errors.ts";
import { openWorkLog, type WorkLog } from "../../src/log/work_log.ts";
import { inlineScanner } from "../../src/shard/measurer.ts";
import { createFiles } from "../../src/tasks/files/file_store.ts";
import type { FileIndex, Files, FileView } from "../../src/tasks/files/files.ts";
import { type OpenedTasks, openTasks } from "../../src/tasks/open_tasks.ts";
import type { RequestItem } from "../../src/tasks/shapes/requests.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { createSpending, type Spending } from "../../src/tasks/usage/spending.ts";
import { itemLine, type Life, World } from "../engine/world.ts";

export const PROJECT = "acme";

export class TaskWorld extends World {
  /** How many tasks hold each file. */
  readonly holds = new Map<string, number>();
  /** Whether files are kept as a service keeps them. */
  hasFileStore = false;
  fileStore: Files | undefined;
  /** Of the tasks that were opened last. */
  workLog: WorkLog | undefined;
  spending: Spending | undefined;
  /** Told by the tasks. */
  readonly faults: unknown[] = [];
  /** How much accepted work may wait. */
  backlog: BacklogBounds | undefined;
  /** The project's, for a month. */
  capUsd: number | undefined;
  readonly #indexes = new Map<string, FileIndex>();
  #core: OpenedEngine["core"] | undefined;

  /** Whether the disk counts as full for the engine that was opened last. */
  get isFull(): boolean {
    return this.#core?.storage.room.waitText !== undefined;
  }

  async tasks(clock: Clock = this.clock, life?: Life): Promise<OpenedTasks> {
    return this.tasksOn(await this.opened(clock, life));
  }

  async tasksOn(opened: OpenedEngine): Promise<OpenedTasks> {
    const { store, clock } = opened.core.storage;
    this.#core = opened.core;
    const spending = createSpending({ clock: this.clock, store, capUsd: () => this.capUsd });
    this.spending = spending;
    this.workLog = await openWorkLog({ store, clock });
    return openTasks({
      ...opened,
      workLog: this.workLog,
      files: await this.#filesOn(opened.core.storage),
      spending,
      dataDir: "/data",
      backlog: this.backlog,
      onFault: (error) => this.faults.push(error),
    });
  }

  /** An uploaded file of so many items, with a blank line before every tenth. */
  file(id: string, count: number): void {
    const path = `/data/files/${id}`;
    const lines: number[] = [];
    const offsets: number[] = [];
    let text = "";
    let lineCount = 0;
    for (let item = 0; item < count; item += 1) {
      if (item % 10 === 9) {
        text += "\n";
        lineCount += 1;
      }
      lineCount += 1;
      if (item % 1_000 === 0) {
        lines.push(lineCount);
        offsets.push(text.length);
      }
      text += itemLine(item + 1);
    }
    this.disk.put(path, text);
    this.#indexes.set(id, { path, items: count, lineCount, bytes: text.length, lines, offsets });
  }

  /** An uploaded file of these lines. */
  fileOf(id: string, lines: readonly string[]): void {
    const path = `/data/files/${id}`;
    const text = lines.join("");
    this.disk.put(path, text);
    const { length } = lines;
    this.#indexes.set(id, {
      path,
      items: length,
      lineCount: length,
      bytes: text.length,
      lines: [1],
      offsets: [0],
    });
  }

  /** It is removed. */
  unfile(id: string): void {
    this.#indexes.delete(id);
  }

  /** Those that were put with `file`, unless a test has set `hasFileStore`. */
  async #filesOn({ store, disk }: OpenedEngine["core"]["storage"]): Promise<Files> {
    if (!this.hasFileStore) return this.#files();
    const { clock } = this;
    this.fileStore = await createFiles({ store, disk, clock, measurer: inlineScanner, dataDir: "/data" });
    return this.fileStore;
  }

  #files(): Files {
    const none = (): never => {
      throw new PerigeeError("not_found", "no such file");
    };
    return {
      put: none,
      assertWhole: async (_project, id) => (this.#indexes.has(id) ? ({ id } as FileView) : none()),
      file: async (_project, id) => (this.#indexes.has(id) ? ({ id } as FileView) : none()), // as far as tasks look
      list: none,
      remove: none,
      named: none,
      read: none,
      index: async (_project, id) => this.#indexes.get(id) ?? none(),
      assertKeysDiffer: async () => undefined,
      hold: (id) => {
        this.holds.set(id, (this.holds.get(id) ?? 0) + 1);
        return () => this.holds.set(id, (this.holds.get(id) ?? 0) - 1);
      },
    };
  }
}

export const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});

export function submit(tasks: OpenedTasks, items: Iterable<RequestItem>): Promise<TaskView> {
  return tasks.submit(PROJECT, { items, hasOutputFile: true });
}

export async function textOf(tasks: OpenedTasks, id: string, view?: "answers" | "errors"): Promise<string> {
  let text = "";
  for await (const chunk of (await tasks.output(PROJECT, id, view)).read())
    text += Buffer.from(chunk).toString();
  return text;
}
