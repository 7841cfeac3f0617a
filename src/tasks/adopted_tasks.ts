/**
 * Small tasks that an earlier version accepted and never sent: they shared a lot that was still gathering lines. They move to the work
 * log with their ids, times and prices, and the lot is deleted.
 *
 *   gathering lot -> its tasks in the work log, durably -> its records deleted; after a crash in between, the tasks are found there
 */
import type { EngineStorage } from "../engine/journal/storage.ts";
import { bodyOf, type PostedBody, rowIdOf } from "../engine/posted/posted_record.ts";
import { WORK_KINDS } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import { numberOfCode } from "../work/failure_numbers.ts";
import type { TaskRecord } from "./lots/task_record.ts";

/** Resolves when it is durable. `request`: its lines, as in its record. `deadlineWallMs`: the deadline of its lot. */
export async function adoptTask(
  { storage, workLog }: { readonly storage: Pick<EngineStorage, "room">; readonly workLog: WorkLog },
  task: TaskRecord & { readonly deadlineWallMs: number | undefined },
  request: Uint8Array,
): Promise<void> {
  const id = rowIdOf(task.id);
  if ((await workLog.rows.loggedTask(id)) !== undefined) return;
  const { project, createdWallMs, deadlineWallMs: deadlineMs, totalItems: items } = task;
  await storage.room.waitFor(async () => {
    const row = { id, project, kind: WORK_KINDS.posted, items, deadlineMs, createdWallMs };
    const { task: number, durable } = workLog.accept({
      ...row,
      body: bodyOf(bodyFrom(task, request)),
      request,
    });
    if (task.isCancelled === true) void workLog.endRest(number, "cancelled", numberOfCode("cancelled"));
    await durable;
  });
}

function bodyFrom(task: TaskRecord, request: Uint8Array): PostedBody {
  const { id, totalItems, hasOutputFile, note, estimatedUsd, isCancelled, cancelledWallMs } = task;
  const { inputTokens = [], factors = 1, parts } = task;
  return {
    ...{ id, totalItems, hasOutputFile, inputTokens, factors },
    slaMinutes: parts[0]?.slaMinutes ?? null,
    works: worksOf(request, inputTokens),
    ...(note === undefined ? {} : { note }),
    ...(estimatedUsd === undefined ? {} : { estimatedUsd }),
    ...(isCancelled === undefined ? {} : { isCancelled }),
    ...(cancelledWallMs === undefined ? {} : { cancelledWallMs }),
  };
}

function worksOf(request: Uint8Array, inputTokens: readonly number[]): PostedBody["works"] {
  const works = new Map<string, [items: number, tokens: number]>();
  for (const [index, line] of Buffer.from(request).toString().split("\n").entries()) {
    const { model } = (JSON.parse(line) as { readonly request: { readonly model: string } }).request; // made by jsonl/items.ts
    const [items, tokens] = works.get(model) ?? [0, 0];
    works.set(model, [items + 1, tokens + (inputTokens[index] ?? 0)]);
  }
  return [...works].map(([model, [items, tokens]]) => [model, items, tokens]);
}
