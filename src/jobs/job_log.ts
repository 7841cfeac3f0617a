/**
 * What is durable of one kind of jobs.
 *
 *   accept -> progress (intent, attempt ended), notes -> end
 *                                    \-> removed with its parent
 *
 * Each call is durable when it resolves, and calls on one job take effect in their order. All reject with `disk_full` if the disk is full.
 * Implementation on records: `job_records.ts`.
 */
import type { JobEnd, JobFacts, JobProgress } from "./job.ts";

export interface JobLog<F extends JobFacts> {
  /** Throws `conflict` when the id is taken. */
  accept(facts: F, progress: JobProgress, given: Uint8Array): Promise<void>;
  /** Replaces how far a pending job is. */
  progress(facts: F, progress: JobProgress): Promise<void>;
  /** Replaces what its attempts have kept. */
  keepNotes(facts: F, notes: Uint8Array): Promise<void>;
  /** Replaces what was given by what came of it; `hasNotes`: notes may have been kept. */
  end(facts: F, end: JobEnd, hasNotes: boolean): Promise<void>;
  /** What the job was accepted with; undefined once it is final. */
  given(facts: F): Promise<Uint8Array | undefined>;
  notes(facts: F): Promise<Uint8Array | undefined>;
  /** All pending jobs, for the start. */
  pending(): Promise<readonly { readonly facts: F; readonly progress: JobProgress }[]>;
}
