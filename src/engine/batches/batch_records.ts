/**
 * The durable records of batches, found again: those of one task, and those of all.
 */
import { EVERY_PROJECT, type ProjectScope } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { BATCHES, type BatchRecord, readBatch } from "./batch_record.ts";

const PAGE = 100;

/** In no order. `taskId` absent: of all tasks of all projects. */
export async function* batchRecords(
  store: Pick<Store, "records">,
  taskId?: string,
): AsyncGenerator<BatchRecord> {
  const scope: ProjectScope = EVERY_PROJECT;
  for (let after: string | undefined; ; ) {
    const page = await store.records(scope, {
      ...{ collection: BATCHES, limit: PAGE },
      ...(taskId === undefined ? {} : { parent: taskId }),
      ...(after === undefined ? {} : { after }),
    });
    yield* page.map(readBatch);
    after = page.at(-1)?.id;
    if (page.length < PAGE) return;
  }
}
