/**
 * How long runs that are over are kept. Pending ones stay: no sla is longer than 30 days.
 *
 * Outputs are those of executions, which go by themselves; what is left of a run without them has null in their place.
 */
import type { RecordStore } from "../../store/records.ts";
import type { KeptRecords } from "../../tasks/retention.ts";
import { CLUSTERS, recordToCluster, removalChanges } from "./run_record.ts";

/** They go so long after they have ended. */
export function keptClusters(store: RecordStore, keepMs: number): KeptRecords {
  return {
    collection: CLUSTERS,
    keepMs,
    remove: async (record, oldestWallMs) => {
      const { status, updatedWallMs } = recordToCluster(record);
      if (status === "pending" || updatedWallMs > oldestWallMs) return false;
      await store.change(removalChanges(record.id));
      return true;
    },
  };
}
