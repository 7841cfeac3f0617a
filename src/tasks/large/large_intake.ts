/**
 * The intake of large tasks: each has lots of its own, one for each sla or file, whose lines are on the disk already.
 *
 *   spooled -> counted (the first thousand items of each lot) -> admitted -> stored in one commit -> accepted
 *                 \-> refused, or not stored: its files of lines are removed and its money is free
 *
 * A lot names the rate card of its day: a service that starts again with another one still charges what it has promised.
 */
import type { EngineParts } from "../../engine/parts.ts";
import { hasCode } from "../../errors.ts";
import type { RecordChange } from "../../store/records.ts";
import type { Lot } from "../lots/lot.ts";
import { amountOf, type LotRecord, type LotWork, lotOf, lotToRecord } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import { type SpooledRequest, volumeOf } from "../lots/request_spool.ts";
import { type TaskRecord, taskToRecord } from "../lots/task_record.ts";
import type { TaskRequest } from "../shapes/requests.ts";
import type { Admission, Admitted, Work } from "../usage/admission.ts";
import type { TaskObjects } from "./task_objects.ts";

export interface LargeIntakeOptions {
  readonly parts: EngineParts;
  readonly lots: Lots;
  readonly objects: TaskObjects;
  readonly admission: Admission;
}

type Spooled = Extract<SpooledRequest, { kind: "large" }>;

/** One for a store. */
export class LargeIntake {
  readonly #options: LargeIntakeOptions;

  constructor(options: LargeIntakeOptions) {
    this.#options = options;
  }

  /** Resolves when it is durable; its lots are open then, and not begun. Throws what admission and the store throw. */
  async offer(
    project: string,
    request: TaskRequest,
    spooled: Spooled,
  ): Promise<{ readonly task: TaskRecord; readonly lots: readonly Lot[] }> {
    const { parts } = this.#options;
    const acceptedAt = parts.clock.moment();
    const createdWallMs = acceptedAt.wallMs;
    const volumeTokens = volumeOf(spooled.parts);
    const records = spooled.parts.map((part, index) =>
      lotOf(part, {
        id: `${spooled.taskId}-${index}`,
        project,
        acceptedWallMs: createdWallMs,
        acceptedAt,
        taskId: spooled.taskId,
        volumeTokens,
        maxCostUsd: request.maxCostUsd,
        keepsBodies: request.keepsBodies,
      }),
    );
    const { lots: opened, made: task } = await this.open(project, records, (estimatedUsd) => {
      const task = taskOf(spooled, request, records, { project, createdWallMs, volumeTokens, estimatedUsd });
      return { made: task, change: { kind: "insert", record: taskToRecord(task) } };
    });
    return { task, lots: opened };
  }

  /**
   * Admits lots whose lines are on the disk, and stores them in one commit with what is made of them. They are open then,
   * and not begun. Their files are removed when they are refused.
   */
  async open<T>(
    project: string,
    records: readonly LotRecord[],
    make: (estimatedUsd: number) => { readonly made: T; readonly change: RecordChange },
  ): Promise<{ readonly made: T; readonly lots: readonly Lot[] }> {
    const { lots, parts } = this.#options;
    let admitted: Admitted | undefined;
    const opened: Lot[] = [];
    try {
      const works: Work[][] = [];
      for (const record of records) works.push(await this.#worksOf(record));
      admitted = await this.#options.admission.admit(project, works.flat(), amountOf(records));
      const { estimatedUsd } = admitted;
      // Only now: a lot that is open counts as waiting, and none waits behind itself.
      for (const [index, record] of records.entries()) {
        const money = index === 0 && estimatedUsd > 0 && record.again !== undefined ? { estimatedUsd } : {};
        const sizes = sizesOf(works[index] ?? []);
        opened.push(lots.add({ rateCard: lots.cards.current, ...record, ...money, works: sizes }));
      }
      for (const { share, record } of opened) share?.grow(amountOf([record]));
      admitted.room.release(); // counted with its lots from here on
      const { made, change } = make(estimatedUsd);
      const changes: RecordChange[] = opened.map((lot) => ({ kind: "put", record: lotToRecord(lot.record) }));
      await parts.room.answerFor(() => parts.store.change([change, ...lots.cards.unstored(), ...changes]));
      lots.cards.stored();
      opened[0]?.holds.push(admitted.hold);
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

  async #worksOf(record: LotRecord): Promise<Work[]> {
    const { lots, objects } = this.#options;
    return objects.worksOf({ record, path: lots.pathOf(record) });
  }

  /** Of lots that were never stored. */
  async removeLines(records: readonly LotRecord[]): Promise<void> {
    const { lots, parts } = this.#options;
    for (const record of records)
      if (record.fileId === undefined) await parts.disk.remove(lots.pathOf(record));
  }
}

function sizesOf(works: readonly Work[]): readonly LotWork[] {
  return works.map(({ model, items, inputTokens }) => ({ model, items, inputTokens }));
}

/** For sure: of a store that failed in another way, the next process may find the task. */
function isNotStored(error: unknown): boolean {
  return hasCode(error, "conflict") || hasCode(error, "disk_full");
}

function taskOf(
  { taskId, parts, spans }: Spooled,
  { hasOutputFile, note }: TaskRequest,
  lots: readonly LotRecord[],
  terms: Pick<TaskRecord, "project" | "createdWallMs" | "volumeTokens"> & { readonly estimatedUsd: number },
): TaskRecord {
  const { estimatedUsd, ...rest } = terms;
  return {
    id: taskId,
    ...rest,
    totalItems: parts.reduce((sum, part) => sum + part.items, 0),
    hasOutputFile,
    ...(note === undefined ? {} : { note }),
    parts: lots.map(({ id, lines, items, slaMinutes }) => ({
      lotId: id,
      firstLine: 1,
      lines,
      items,
      slaMinutes,
    })),
    spans,
    ...(estimatedUsd > 0 ? { estimatedUsd } : {}),
  };
}
