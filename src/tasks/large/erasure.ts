/**
 * Erases tasks: no file of the data folder keeps any of their texts.
 *
 *   final -> record deleted, and from here on not found -> its own lots: run, answers and lines removed
 *                                                       -> a lot it shares: its lines overwritten once that is over,
 *                                                          and removed completely with the last of its tasks
 *
 * `erasure` records (parent: the lot) list what a crash left unfinished; the lot's end or the next erasure in it finishes it.
 */

import type { Engine } from "../../engine/engine.ts";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { ifFound } from "../../errors.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { EVERY_PROJECT, type RecordChange, type StoredRecord } from "../../store/records.ts";
import { stemOf } from "../../work/object_id.ts";
import type { Lot } from "../lots/lot.ts";
import { LOTS } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import { TASKS, type TaskPart, type TaskRecord } from "../lots/task_record.ts";

const ERASURES = "erasure";
const PAGE = 500;
const SPACE = 0x20;

interface ErasureOptions {
  readonly engine: Engine;
  readonly storage: EngineStorage;
  readonly lots: Lots;
}

/** Marks first, then erases: after a crash the next start continues. */
export class Erasure {
  readonly #options: ErasureOptions;
  /** By lot, because both its end and the removal of its tasks erase it. */
  readonly #turns = new KeyedMutex();

  constructor(options: ErasureOptions) {
    this.#options = options;
  }

  /** Resolves when the task is not found any more and everything that can be erased now is erased. */
  async erase(task: TaskRecord): Promise<void> {
    const { storage, lots } = this.#options;
    const id = stemOf(task.id);
    const changes: RecordChange[] = [{ kind: "delete", collection: TASKS, id }];
    for (const [index, part] of task.parts.entries())
      changes.push({ kind: "put", record: erasureOf(`${id}-${index}`, task, part) });
    await storage.room.answerFor(() => storage.store.change(changes));
    for (const [index, { lotId }] of task.parts.entries()) {
      const lot = await this.#unlessErased(`${id}-${index}`, lots.find(lotId));
      if (lot === undefined) continue;
      if (lot.isOver) await this.over(lot);
      else if (lot.members.every((member) => member.open === 0)) await lot.ended;
    }
  }

  /** Undefined if the end of the lot, or the removal of another task in it, has erased the part meanwhile. */
  async #unlessErased(erasureId: string, finding: Promise<Lot>): Promise<Lot | undefined> {
    try {
      return await finding;
    } catch (error) {
      const asked = await this.#options.storage.store.record(EVERY_PROJECT, ERASURES, erasureId);
      if (asked === undefined) return undefined;
      throw error;
    }
  }

  /** Erases what was requested in a lot that is over. The next caller finds nothing to erase. */
  over(lot: Lot): Promise<void> {
    return this.#turns.take(lot.record.id, () => this.#over(lot));
  }

  async #over(lot: Lot): Promise<void> {
    const { store } = this.#options.storage;
    const { id } = lot.record;
    for (;;) {
      const page = await store.records(EVERY_PROJECT, { collection: ERASURES, parent: id, limit: PAGE });
      if (page.length === 0) return;
      const isEmpty =
        lot.record.taskId !== undefined ||
        (await store.records(EVERY_PROJECT, { collection: TASKS, parent: id, limit: 1 })).length === 0;
      if (isEmpty) await this.#removeLot(lot);
      else
        await this.#overwrite(
          lot,
          page.map((record) => JSON.parse(record.body) as TaskPart),
        ); // written by this file
      const done: RecordChange[] = page.map((record) => ({
        kind: "delete",
        collection: ERASURES,
        id: record.id,
      }));
      if (isEmpty) done.push({ kind: "delete", collection: LOTS, id });
      await store.change(done);
    }
  }

  async #removeLot(lot: Lot): Promise<void> {
    const { engine, storage, lots } = this.#options;
    const { fileId, over, id } = lot.record;
    if (fileId === undefined) await storage.disk.remove(lot.path);
    await ifFound(engine.forget(over?.runTaskId ?? "")); // an earlier process may have erased it
    lots.forget(id);
  }

  /** Keeps line ends, so that the lines of others keep their places. */
  async #overwrite(lot: Lot, erased: readonly TaskPart[]): Promise<void> {
    const { disk } = this.#options.storage;
    const file = await disk.open(lot.out ?? "", "write");
    try {
      for (const { firstLine, lines } of erased) {
        for (let line = firstLine; line < firstLine + lines; line += 1) {
          const { start, lengthBytes } = lot.index.get(line);
          if (lengthBytes > 1) await file.write(new Uint8Array(lengthBytes - 1).fill(SPACE), start);
        }
      }
      await file.sync();
    } finally {
      await file.close();
    }
    await disk.remove(lot.path); // the lot is over, so its lines are not read again
  }
}

function erasureOf(id: string, task: TaskRecord, part: TaskPart): StoredRecord {
  const { project, createdWallMs } = task;
  return {
    collection: ERASURES,
    id,
    project,
    parent: part.lotId,
    createdWallMs,
    body: JSON.stringify(part),
  };
}
