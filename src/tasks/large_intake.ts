/**
 * The intake of large tasks: each has lots of its own, one for each sla or file, whose lines are on the disk already.
 *
 *   spooled -> counted (the first thousand items of each lot) -> admitted -> stored in one commit -> accepted
 *                 \-> refused, or not stored: its files of lines are removed and its money is free
 *
 * A lot names the rate card of its day: a service that starts again with another one still charges what it has promised.
 */
import type { EngineParts } from "../engine/parts.ts";
import { hasCode } from "../errors.ts";
import type { RecordChange } from "../store/records.ts";
import type { Admission, Admitted, Work } from "./admission.ts";
import type { Lot } from "./lot.ts";
import { amountOf, type LotRecord, type LotWork, lotOf, lotToRecord } from "./lot_record.ts";
import type { Lots } from "./lots.ts";
import { type SpooledRequest, volumeOf } from "./request_spool.ts";
import type { TaskRequest } from "./requests.ts";
import type { TaskObjects } from "./task_objects.ts";
import { type TaskRecord, taskToRecord } from "./task_record.ts";

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
    const { lots, parts } = this.#options;
    const createdWallMs = parts.clock.wallMs();
    const volumeTokens = volumeOf(spooled.parts);
    const records = spooled.parts.map((part, index) =>
      lotOf(part, {
        id: `${spooled.taskId}-${index}`,
        project,
        acceptedWallMs: createdWallMs,
        taskId: spooled.taskId,
        volumeTokens,
        maxCostUsd: request.maxCostUsd,
      }),
    );
    let admitted: Admitted | undefined;
    const opened: Lot[] = [];
    try {
      const works: Work[][] = [];
      for (const record of records) works.push(await this.#worksOf(record));
      admitted = await this.#options.admission.admit(project, works.flat(), amountOf(records));
      // Only now: a lot that is open counts as waiting, and none waits behind itself.
      for (const [index, record] of records.entries())
        opened.push(
          lots.add({ ...record, rateCard: lots.cards.current, works: sizesOf(works[index] ?? []) }),
        );
      for (const { share, record } of opened) share?.grow(amountOf([record]));
      admitted.room.release(); // counted with its lots from here on
      const terms = { project, createdWallMs, volumeTokens, estimatedUsd: admitted.estimatedUsd };
      const task = taskOf(spooled, request, records, terms);
      const changes: RecordChange[] = opened.map((lot) => ({ kind: "put", record: lotToRecord(lot.record) }));
      await parts.room.waitFor(() =>
        parts.store.change([
          { kind: "insert", record: taskToRecord(task) },
          ...lots.cards.unstored(),
          ...changes,
        ]),
      );
      lots.cards.stored();
      opened[0]?.holds.push(admitted.hold);
      return { task, lots: opened };
    } catch (error) {
      admitted?.hold.release();
      for (const lot of opened) lots.drop(lot);
      if (admitted === undefined || isNotStored(error)) await this.#removeLines(records);
      throw error;
    } finally {
      admitted?.room.release();
    }
  }

  async #worksOf(record: LotRecord): Promise<Work[]> {
    const { lots, objects } = this.#options;
    return objects.worksOf({ record, path: lots.pathOf(record) });
  }

  async #removeLines(records: readonly LotRecord[]): Promise<void> {
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
