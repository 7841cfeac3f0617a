/**
 * Reopens the open lots of a data folder in the next process.
 *
 *   own lot of a task whose caller has left with the last process -> the task is cancelled first
 *   own lot, sealed shared lot -> joined by the tasks that its record names -> begun
 *
 *   gathering lot              -> its tasks move to the work log (`adopted_tasks.ts`)
 *
 * The records of tasks in sealed lots are not read, so that a start with a million open tasks is fast.
 */
import { decodeBody } from "../../engine/files/task_body.ts";
import { countingEntries } from "../../engine/files/task_journal.ts";
import { readStep } from "../../engine/journal/journal.ts";
import { Replay } from "../../engine/journal/replay.ts";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { roundedMoney } from "../../price/money.ts";
import { EVERY_PROJECT, type RecordChange, type StoredRecord } from "../../store/records.ts";
import { stemOf } from "../../work/object_id.ts";
import type { Lot } from "../lots/lot.ts";
import { deadlineMsOf } from "../lots/lot_deadline.ts";
import { amountOf, LOTS, type LotRecord, lotRunName, OPEN_LOTS } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import { CANCELS, recordToTask, TASKS, type TaskRecord, taskToRecord } from "../lots/task_record.ts";
import type { Admission } from "../usage/admission.ts";
import type { Spending } from "../usage/spending.ts";

const PAGE = 500;

export interface ReopeningOptions {
  readonly storage: EngineStorage;
  readonly lots: Lots;
  readonly admission: Admission;
  readonly spending: Pick<Spending, "open">;
  /** Moves a task whose lot was never sent to the work log, with its request; durable when it resolves. */
  readonly adopt: (
    task: TaskRecord & { readonly deadlineWallMs: number | undefined },
    request: Uint8Array,
  ) => Promise<void>;
  /** Begins a task's own lot. */
  readonly begin: (lot: Lot, task: OwnLotTask) => void;
}

/** The fields of a task that its own lots need. */
export type OwnLotTask = Pick<TaskRecord, "id" | "isCancelled" | "cancelledParts" | "parts">;

/** Resolves when every open task can be found and continues. */
export async function reopenLots(options: ReopeningOptions): Promise<void> {
  await options.lots.cards.load();
  for await (const record of options.lots.stored()) {
    if (record.taskId !== undefined) await reopenOwn(options, record, record.taskId);
    else if (record.isSealed) await reopenSealed(options, record);
    else await adoptTasks(options, record);
  }
}

async function reopenOwn(options: ReopeningOptions, record: LotRecord, taskId: string): Promise<void> {
  const { storage, lots } = options;
  const found = await storage.store.record(EVERY_PROJECT, TASKS, stemOf(taskId));
  const task = found === undefined ? undefined : await withoutCaller(storage, found);
  const estimatedUsd = task?.parts[0]?.lotId === record.id ? task.estimatedUsd : undefined; // from an earlier version
  const lot = lots.add({ ...(estimatedUsd === undefined ? {} : { estimatedUsd }), ...record }, true);
  await restoreMoney(options, lot);
  lot.share?.grow(amountOf([record]));
  options.begin(lot, task ?? { id: taskId, parts: [] });
}

/** A task that nobody but its caller wants is cancelled, because the caller has left; others are as they were. */
async function withoutCaller(
  { clock, room, store }: EngineStorage,
  stored: StoredRecord,
): Promise<TaskRecord> {
  const task = recordToTask(stored);
  if (task.endsWithCaller !== true || task.isCancelled === true) return task;
  const cancelled: TaskRecord = {
    ...task,
    isCancelled: true,
    cancelledParts: task.parts.length,
    cancelledWallMs: clock.wallMs(),
  };
  const record = { ...taskToRecord(cancelled, stored.payload), parent: stored.parent };
  await room.waitFor(() => store.change([{ kind: "put", record }]));
  return cancelled;
}

async function reopenSealed(
  options: ReopeningOptions,
  { members = [], ...record }: LotRecord,
): Promise<void> {
  const { lots, storage } = options;
  const lot = lots.add(record, true);
  const cancelled = new Set<string>();
  for await (const { id } of recordsOf(storage, CANCELS, record.id)) cancelled.add(id);
  for (const { taskId, firstLine, lines } of members) {
    const isCancelled = cancelled.has(stemOf(taskId));
    lots.join(lot, { taskId, firstLine, lines, open: lines, isCancelled });
  }
  lot.share?.grow(amountOf([record]));
  await restoreMoney(options, lot);
  lots.sealed(lot);
}

/** For a lot that an earlier version gathered and never sent. */
async function adoptTasks({ storage, adopt }: ReopeningOptions, record: LotRecord): Promise<void> {
  const { clock, store } = storage;
  const leftMs = deadlineMsOf(record, clock) - clock.nowMs();
  const deadlineWallMs = record.slaMinutes === null ? undefined : clock.wallMs() + leftMs;
  const changes: RecordChange[] = [
    { kind: "delete", collection: OPEN_LOTS, id: record.id },
    { kind: "delete", collection: LOTS, id: record.id },
    { kind: "deleteOf", collection: CANCELS, parent: record.id },
  ];
  for await (const stored of recordsOf(storage, TASKS, record.id)) {
    await adopt({ ...recordToTask(stored), deadlineWallMs }, stored.payload ?? new Uint8Array());
    changes.push({ kind: "delete", collection: TASKS, id: stored.id });
  }
  await storage.room.waitFor(() => store.change(changes));
}

async function* recordsOf(
  { store }: EngineStorage,
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

/** Holds the money for its open items, and counts what it took so far. */
async function restoreMoney({ admission, storage, spending }: ReopeningOptions, lot: Lot): Promise<void> {
  const { id, project, estimatedUsd = 0 } = lot.record;
  if (estimatedUsd > 0) lot.hold = admission.again(project, estimatedUsd);
  const run = await storage.store.taskByName(lotRunName(id));
  if (run === undefined) return;
  const replay = new Replay();
  for await (const { sequence, records } of countingEntries(storage.store, run.id, decodeBody(run.body)))
    replay.apply(sequence, readStep(records));
  const { settled, inputTokens, outputTokens, listUsd, usd } = replay.totals;
  const money = roundedMoney({ listUsd, usd, ...replay.taken() });
  lot.countAs(spending.open, { items: settled, inputTokens, outputTokens, ...money });
}
