/**
 * How long final executions are kept. Pending ones stay: no sla is longer than 30 days.
 */
import type { RecordStore } from "../../store/records.ts";
import type { Kept } from "../../tasks/retention.ts";
import { EXECUTIONS, executionDeletes, recordToStatus } from "./execution_record.ts";

/** They go so long after they have ended. */
export function keptExecutions(store: RecordStore, keepMs: number): Kept {
  return {
    collection: EXECUTIONS,
    keepMs,
    remove: async (record, oldestWallMs) => {
      const { status, updatedWallMs } = recordToStatus(record);
      if (status === "pending" || updatedWallMs > oldestWallMs) return false;
      await store.change(executionDeletes(record.id));
      return true;
    },
  };
}
