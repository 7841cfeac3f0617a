/**
 * The acceptance of large tasks: each has its own lots, one for each sla or file, whose lines are already on the disk.
 *
 *   spooled -> counted (the first thousand items of each lot) -> admitted -> stored in one commit -> accepted
 *                 \-> refused, or not stored: its files of lines are removed and its money is free
 *
 * A lot names the rate card of its day: a service that restarts with another card still charges what it promised.
 */
import type { EngineStorage } from "../../engine/journal/storage.ts";
import type { Work } from "../../engine/posted/admitting.ts";
import { hasCode } from "../../errors.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { RecordChange } from "../../store/records.ts";
import type { Lot } from "../lots/lot.ts";
import { amountOf, type LotRecord, type LotWork, lotOf, lotToRecord } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import type { SpooledRequest } from "../lots/request_spool.ts";
import { type TaskRecord, taskToRecord } from "../lots/task_record.ts";
import type { TaskRequest } from "../shapes/requests.ts";
import type { Admission, Admitted } from "../usage/admission.ts";
import type { TaskObjects } from "./task_objects.ts";

export interface LargeAcceptanceOptions {
  readonly storage: EngineStorage;
  readonly lots: Lots;
  readonly objects: TaskObjects;
  readonly admission: Admission;
  readonly workLog: Pick<WorkLog, "nextRow">;
}

/** Lots that were accepted together. */
export interface AcceptedLots {
  readonly records: readonly LotRecord[];
  /** They are older than tasks of the work log from this number on. */
  readonly beforeTask: number;
}

type Promised = Pick<LotRecord, "rateCard" | "costFloors" | "refundShare">;
type Spooled = Extract<SpooledRequest, { kind: "large" }>;

/** One for a store. */
export class LargeAcceptance {
  readonly #options: LargeAcceptanceOptions;

  constructor(options: LargeAcceptanceOptions) {
    this.#options = options;
  }

  /** Resolves when it is durable; its lots are then open but not begun. Throws what admission and the store throw. */
  async offer(
    project: string,
    request: TaskRequest,
    spooled: Spooled,
  ): Promise<{ readonly task: TaskRecord; readonly lots: readonly Lot[] }> {
    const { storage } = this.#options;
    const acceptedAt = storage.clock.moment();
    const { volumeTokens } = spooled;
    const records = spooled.parts.map((part, index) =>
      lotOf(part, {
        id: `${spooled.taskId}-${index}`,
        project,
        acceptedWallMs: acceptedAt.wallMs,
        acceptedAt,
        taskId: spooled.taskId,
        volumeTokens,
        maxCostUsd: request.maxCostUsd,
        keepsBodies: request.keepsBodies,
        cacheTtl: request.cacheTtl,
      }),
    );
    const { lots: opened, made: task } = await this.open(project, records, (accepted) => {
      const task = taskOf(spooled, request, { ...accepted, project });
      return { made: task, change: { kind: "insert", record: taskToRecord(task) } };
    });
    return { task, lots: opened };
  }

  /**
   * Admits lots whose lines are on the disk, and stores them in one commit with what `make` returns. They are then open but not begun.
   * If they are refused, their files are removed.
   */
  async open<T>(
    project: string,
    records: readonly LotRecord[],
    make: (accepted: AcceptedLots) => { readonly made: T; readonly change: RecordChange },
  ): Promise<{ readonly made: T; readonly lots: readonly Lot[] }> {
    const { admission, lots, storage, workLog } = this.#options;
    let admitted: Admitted | undefined;
    const opened: Lot[] = [];
    try {
      const works: Work[][] = [];
      for (const record of records) works.push(await this.#worksOf(record));
      admitted = await admission.admit(project, works.flat(), amountOf(records));
      const { estimatedUsd } = admitted;
      const promised: Promised[] = [];
      for (const [index, { again }] of records.entries()) {
        const isNew = again === undefined; // lines that run again keep what they had
        const own = works[index] ?? [];
        promised.push(isNew ? await this.#promised(project, own) : { rateCard: lots.cards.current });
      }
      // Only now: an open lot counts as waiting, and none waits for itself.
      const now = this.#acceptance();
      const all = amountOf(records).items;
      for (const [index, record] of records.entries()) {
        const ownUsd = all === 0 ? 0 : (estimatedUsd * record.items) / all;
        const money = ownUsd > 0 ? { estimatedUsd: ownUsd } : {};
        const sizes = sizesOf(works[index] ?? []);
        opened.push(lots.add({ ...promised[index], ...record, ...now, ...money, works: sizes }));
      }
      for (const { share, record } of opened) share?.grow(amountOf([record]));
      admitted.room.release(); // its lots count it from here on
      const dated = opened.map(({ record }) => record);
      const changes: RecordChange[] = dated.map((record) => ({ kind: "put", record: lotToRecord(record) }));
      const made = await storage.room.once(async () => {
        const beforeTask = workLog.nextRow.number; // read in the turn that calls the store
        const { made, change } = make({ records: dated, beforeTask });
        await storage.store.change([change, ...lots.cards.unstored(), ...changes]);
        return made;
      });
      lots.cards.stored();
      admitted.hold.release(); // in one turn
      for (const lot of opened) lot.hold = admission.again(project, lot.record.estimatedUsd ?? 0);
      return { made, lots: opened };
    } catch (error) {
      admitted?.hold.release();
      for (const lot of opened) lots.drop(lot);
      if (admitted === undefined || isNotStored(error)) await this.removeLines(records);
      throw error;
    } finally {
      admitted?.room.release();
    }
  }

  /** What determines the price factors of a new lot for good. */
  async #promised(project: string, works: readonly Work[]): Promise<Promised> {
    const { admission, lots } = this.#options;
    const { costFloors, refundShare } = await admission.promises(project, works, false);
    return {
      rateCard: lots.cards.current,
      ...(costFloors === undefined ? {} : { costFloors }),
      ...(refundShare === 0 ? {} : { refundShare }),
    };
  }

  /** No later than that of posted tasks that follow it, so that creation times agree with the order of tasks. */
  #acceptance(): Pick<LotRecord, "acceptedWallMs" | "acceptedAt"> {
    const { storage, workLog } = this.#options;
    const acceptedAt = storage.clock.moment();
    return { acceptedWallMs: Math.min(acceptedAt.wallMs, workLog.nextRow.createdWallMs), acceptedAt };
  }

  async #worksOf(record: LotRecord): Promise<Work[]> {
    const { lots, objects } = this.#options;
    return objects.worksOf({ record, path: lots.pathOf(record) });
  }

  /** Removes the lines of lots that were never stored. */
  async removeLines(records: readonly LotRecord[]): Promise<void> {
    const { lots, storage } = this.#options;
    for (const record of records)
      if (record.fileId === undefined) await storage.disk.remove(lots.pathOf(record));
  }
}

function sizesOf(works: readonly Work[]): readonly LotWork[] {
  return works.map(({ model, items, inputTokens }) => ({ model, items, inputTokens }));
}

/** Whether it is certainly not stored: after other failures of the store, the next process may find the task. */
function isNotStored(error: unknown): boolean {
  return hasCode(error, "conflict") || hasCode(error, "disk_full");
}

function taskOf(
  { taskId, parts, spans, volumeTokens }: Spooled,
  { hasOutputFile, note, endsWithCaller }: TaskRequest,
  accepted: AcceptedLots & Pick<TaskRecord, "project">,
): TaskRecord {
  const { records: lots, beforeTask, project } = accepted;
  return {
    id: taskId,
    project,
    createdWallMs: (lots[0] as LotRecord).acceptedWallMs, // a large task has at least one part
    volumeTokens,
    totalItems: parts.reduce((sum, part) => sum + part.items, 0),
    hasOutputFile,
    ...(note === undefined ? {} : { note }),
    ...(endsWithCaller === true ? { endsWithCaller } : {}),
    parts: lots.map(({ id, lines, items, slaMinutes }) => ({
      lotId: id,
      firstLine: 1,
      lines,
      items,
      slaMinutes,
    })),
    spans,
    beforeTask,
  };
}
