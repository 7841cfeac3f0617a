/**
 * Moves the jobs of versions before 2026-11-24 into the work log: they were records, each in up to three collections.
 *
 *   records -> jobs of the log, durably -> records deleted       a page at a time; a crash between the two leaves some of a page twice
 *
 * Limit: 100 jobs at a time.
 */
import { EVERY_PROJECT, type RecordStore, type StoredRecord } from "../store/records.ts";
import type { JobEnd, JobFacts, JobProgress, LastFailure } from "./job.ts";
import type { JobLog } from "./job_log.ts";

const PAGE = 100;

/** How one kind of jobs was stored. */
export interface RecordedJobs<F extends JobFacts> {
  /** Of every job; payload: its input while it was pending, its output once it was completed. */
  readonly shown: string;
  /** Of each pending one; body: facts and progress. */
  readonly open: string;
  /** Of pending ones that had kept some; payload: the notes. */
  readonly notes?: string;
  readonly endOf: (shown: StoredRecord) => { readonly facts: F; readonly end: JobEnd };
  /** Reads an open record that has not its form. */
  readonly older?: (open: StoredRecord, shown: StoredRecord) => RecordedJob<F> | undefined;
}

export interface RecordedJob<F extends JobFacts> {
  readonly facts: F;
  readonly progress: JobProgress;
}

/** Nothing is left of them when it resolves. */
export async function moveRecordedJobs<F extends JobFacts>(
  store: RecordStore,
  jobs: JobLog<F>,
  recorded: RecordedJobs<F>,
): Promise<void> {
  const { shown, open, notes = "" } = recorded;
  for (;;) {
    const records = await store.records(EVERY_PROJECT, { collection: shown, limit: PAGE });
    if (records.length === 0) return;
    const found = records.map(async (record) => ({
      record,
      open: await store.record(EVERY_PROJECT, open, record.id),
      notes: notes === "" ? undefined : await store.record(EVERY_PROJECT, notes, record.id),
      isMoved: await jobs.isTaken(record.id),
    }));
    const moves = (await Promise.all(found)).filter(({ isMoved }) => !isMoved);
    await Promise.all(moves.map((move) => moved(jobs, recorded, move)));
    const collections = [shown, open, notes];
    const gone = records.flatMap(({ id }) =>
      collections.map((collection) => ({ kind: "delete" as const, collection, id })),
    );
    await store.change(gone);
  }
}

interface Move {
  readonly record: StoredRecord;
  readonly open: StoredRecord | undefined;
  readonly notes: StoredRecord | undefined;
}

/** All calls of one job are in one turn, and so in one commit. */
function moved<F extends JobFacts>(
  jobs: JobLog<F>,
  { endOf, older }: RecordedJobs<F>,
  { record, open, notes }: Move,
): Promise<void> {
  if (open === undefined) {
    const { facts, end } = endOf(record);
    return jobs.acceptEnded(facts, end);
  }
  const { facts, progress } = older?.(open, record) ?? pendingJob<F>(open);
  const { attempts, isUnderWay } = progress;
  const before = isUnderWay ? { ...progress, attempts: attempts - 1, isUnderWay: false } : progress;
  const { task, durable } = jobs.accept(facts, before, record.payload ?? new Uint8Array());
  const job = { task, facts, progress };
  if (isUnderWay) void jobs.progress(job, progress);
  if (notes?.payload !== undefined) void jobs.keepNotes(job, notes.payload);
  return durable;
}

/** Progress as versions before 2026-11-23 wrote it: with `held` in place of `last`. */
type StoredProgress = JobProgress & {
  readonly held?: Omit<LastFailure, "failure"> & { readonly reason: string };
};

function pendingJob<F extends JobFacts>({ id, project, createdWallMs, body }: StoredRecord): RecordedJob<F> {
  const { progress, ...rest } = JSON.parse(body) as { readonly progress: StoredProgress }; // as `RecordedJobs` says
  const { held, ...own } = progress;
  const facts = { ...rest, id, project, createdWallMs } as unknown as F; // as above
  if (held === undefined) return { facts, progress: own };
  const { reason, code, message, sinceWallMs } = held;
  const failure = reason === "outage" ? "not_sent" : "refused";
  return { facts, progress: { ...own, last: { failure, code, message, sinceWallMs } } };
}
