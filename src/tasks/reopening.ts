/**
 * Reopening: the open lots of a data folder, taken up by the next process.
 *
 *   own lot, sealed shared lot -> joined by the tasks that its record names -> begun
 *   gathering lot              -> made again from the texts of its tasks -> sealed -> begun
 *
 * The records of tasks in sealed lots are not read, so that a million open tasks cost a start little.
 */
import type { EngineParts } from "../engine/parts.ts";
import { EVERY_PROJECT, type StoredRecord } from "../store/records.ts";
import { stemOf } from "../work/object_id.ts";
import type { Admission } from "./admission.ts";
import type { Gathering } from "./gathering.ts";
import type { Lot } from "./lot.ts";
import { amountOf, type LotRecord } from "./lot_record.ts";
import type { Lots } from "./lots.ts";
import { CANCELS, recordToTask, TASKS, type TaskRecord } from "./task_record.ts";

const PAGE = 500;

export interface ReopeningOptions {
  readonly parts: EngineParts;
  readonly lots: Lots;
  readonly gathering: Gathering;
  readonly admission: Admission;
  /** Begins a lot of its own. */
  readonly begin: (lot: Lot, task: OwnLotTask) => void;
}

/** What a task says of its own lots. */
export type OwnLotTask = Pick<TaskRecord, "id" | "isCancelled" | "cancelledParts" | "parts">;

/** Resolves when every open task can be found and goes on. */
export async function reopenLots(options: ReopeningOptions): Promise<void> {
  await options.lots.cards.load();
  for await (const record of options.lots.stored()) {
    if (record.taskId !== undefined) await reopenOwn(options, record, record.taskId);
    else if (record.isSealed) await reopenSealed(options, record);
    else await remake(options, record);
  }
}

async function reopenOwn(options: ReopeningOptions, record: LotRecord, taskId: string): Promise<void> {
  const { parts, lots } = options;
  const found = await parts.store.record(EVERY_PROJECT, TASKS, stemOf(taskId));
  const task = found === undefined ? undefined : recordToTask(found);
  const lot = lots.add(record, true);
  if (record.again !== undefined) hold(options, lot, record.estimatedUsd);
  else if (task?.parts[0]?.lotId === record.id) hold(options, lot, task.estimatedUsd);
  lot.share?.grow(amountOf([record]));
  options.begin(lot, task ?? { id: taskId, parts: [] });
}

async function reopenSealed(
  options: ReopeningOptions,
  { members = [], ...record }: LotRecord,
): Promise<void> {
  const { lots, parts } = options;
  const lot = lots.add(record, true);
  const cancelled = new Set<string>();
  for await (const { id } of recordsOf(parts, CANCELS, record.id)) cancelled.add(id);
  for (const { taskId, firstLine, lines } of members) {
    const isCancelled = cancelled.has(stemOf(taskId));
    lots.join(lot, { taskId, firstLine, lines, open: lines, isCancelled });
  }
  lot.share?.grow(amountOf([record]));
  hold(options, lot, record.estimatedUsd);
  lots.sealed(lot);
}

async function remake(options: ReopeningOptions, record: LotRecord): Promise<void> {
  const { lots, parts, gathering } = options;
  const lot = lots.add(record, true);
  const texts: (string | undefined)[] = [];
  for await (const stored of recordsOf(parts, TASKS, record.id)) {
    const task = recordToTask(stored);
    const [part] = task.parts;
    if (part === undefined) continue;
    const { firstLine, lines } = part;
    lots.join(lot, {
      taskId: task.id,
      firstLine,
      lines,
      open: lines,
      isCancelled: task.isCancelled === true,
    });
    lot.estimatedUsd += task.estimatedUsd ?? 0;
    const own = Buffer.from(stored.payload ?? []).toString();
    lot.share?.grow({ items: lines, bytes: own.length });
    for (const [index, text] of own.split("\n").entries()) {
      texts[firstLine - 1 + index] = text;
      lot.addWorks([{ model: modelOf(text), items: 1, inputTokens: task.inputTokens?.[index] ?? 0 }]);
    }
  }
  hold(options, lot, lot.estimatedUsd);
  await gathering.restore(lot, texts);
}

/** Of a line that the intake has made (jsonl/items.ts). */
function modelOf(text: string): string {
  return (JSON.parse(text) as { readonly request: { readonly model: string } }).request.model;
}

async function* recordsOf(
  { store }: EngineParts,
  collection: string,
  parent: string,
): AsyncGenerator<StoredRecord> {
  for (let after: string | undefined; ; ) {
    const query = { collection, parent, limit: PAGE, ...(after === undefined ? {} : { after }) };
    const page = await store.records(EVERY_PROJECT, query);
    yield* page;
    after = page.at(-1)?.id;
    if (page.length < PAGE) return;
  }
}

function hold({ admission }: ReopeningOptions, lot: Lot, estimatedUsd = 0): void {
  if (estimatedUsd > 0) lot.holds.push(admission.again(lot.record.project, estimatedUsd));
}
