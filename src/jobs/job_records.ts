/**
 * Jobs as records of the store.
 *
 *   collection `<shown>`   every job; body: what lists show; payload: what was given while it is pending, its output once it is
 *                          completed
 *   collection `<open>`    each pending job and nothing else, so that a start reads those only; body: its facts and progress
 *   collection `<notes>`   of pending jobs that have kept some; payload: the notes
 *
 * What was given goes when a job is final: only its outcome is kept.
 */
import { EVERY_PROJECT, type RecordChange, type RecordStore, type StoredRecord } from "../store/records.ts";
import type { JobEnd, JobFacts, JobProgress, LastFailure } from "./job.ts";
import type { JobLog } from "./job_log.ts";

const OPEN_PAGE = 1_000;
const text = new TextEncoder();

/** How one kind of jobs is stored. */
export interface JobForm<F extends JobFacts> {
  /** Of each record, the collection that it is in. */
  readonly collections: JobCollections;
  /** What both records of a job are found by; empty when nothing asks for it. */
  readonly parentOf: (facts: F) => { readonly shown: string; readonly open: string };
  /** The body of the shown record: `status`, and `updatedWallMs` once it is final, are read for retention. */
  readonly bodyOf: (facts: F, end: JobEnd | undefined) => JobBody;
  /** Whether its output is kept as the payload. */
  readonly keepsOutput: boolean;
  /** Reads an open record that an earlier version wrote; undefined when it is as this version writes it. */
  readonly older?: (record: StoredRecord, store: RecordStore) => Promise<OpenJob<F> | undefined>;
}

export interface JobCollections {
  readonly shown: string;
  readonly open: string;
  readonly notes: string | undefined;
}

/** Of a shown record. */
export interface JobBody {
  readonly status: string;
  readonly updatedWallMs?: number | undefined;
}

export interface OpenJob<F extends JobFacts> {
  readonly facts: F;
  readonly progress: JobProgress;
}

/** Of kinds whose functions keep no notes, `notes` are never stored. */
export class JobRecords<F extends JobFacts> implements JobLog<F> {
  readonly #store: RecordStore;
  readonly #form: JobForm<F>;

  constructor(store: RecordStore, form: JobForm<F>) {
    this.#store = store;
    this.#form = form;
  }

  accept(facts: F, progress: JobProgress, given: Uint8Array): Promise<void> {
    return this.#store.change([
      { kind: "insert", record: shownRecord(this.#form, facts, undefined, given) },
      { kind: "insert", record: this.#open(facts, progress) },
    ]);
  }

  progress(facts: F, progress: JobProgress): Promise<void> {
    return this.#store.change([{ kind: "put", record: this.#open(facts, progress) }]);
  }

  keepNotes({ id, project, createdWallMs }: F, payload: Uint8Array): Promise<void> {
    const collection = this.#form.collections.notes ?? "";
    const record = { collection, id, project, parent: "", createdWallMs, body: "{}", payload };
    return this.#store.change([{ kind: "put", record }]);
  }

  end(facts: F, end: JobEnd, hasNotes: boolean): Promise<void> {
    return this.#store.change(endChanges(this.#form, facts, end, hasNotes));
  }

  async given({ project, id }: F): Promise<Uint8Array | undefined> {
    return (await this.#store.record(project, this.#form.collections.shown, id))?.payload;
  }

  async notes({ project, id }: F): Promise<Uint8Array | undefined> {
    const { notes } = this.#form.collections;
    return notes === undefined ? undefined : (await this.#store.record(project, notes, id))?.payload;
  }

  async pending(): Promise<readonly OpenJob<F>[]> {
    const open: OpenJob<F>[] = [];
    for (let after: string | undefined; ; ) {
      const place = after === undefined ? {} : { after };
      const query = { collection: this.#form.collections.open, limit: OPEN_PAGE, ...place };
      const records = await this.#store.records(EVERY_PROJECT, query);
      for (const record of records)
        open.push((await this.#form.older?.(record, this.#store)) ?? openJob<F>(record));
      if (records.length < OPEN_PAGE) return open;
      after = records.at(-1)?.id;
    }
  }

  #open(facts: F, progress: JobProgress): StoredRecord {
    const { id, project, createdWallMs, ...rest } = facts;
    const body = JSON.stringify({ ...rest, progress });
    const { collections, parentOf } = this.#form;
    return { collection: collections.open, id, project, parent: parentOf(facts).open, createdWallMs, body };
  }
}

/** The record that lists show; `payload` only while it is pending. */
function shownRecord<F extends JobFacts>(
  { collections, parentOf, bodyOf, keepsOutput }: JobForm<F>,
  facts: F,
  end: JobEnd | undefined,
  given?: Uint8Array,
): StoredRecord {
  const { id, project, createdWallMs } = facts;
  const output = keepsOutput ? (end?.output ?? null) : null;
  const payload = output === null ? given : text.encode(JSON.stringify(output));
  const body = JSON.stringify(bodyOf(facts, end));
  const parent = parentOf(facts).shown;
  return { collection: collections.shown, id, project, parent, createdWallMs, body, payload };
}

/** A job is final: what was given is replaced by what came of it. */
export function endChanges<F extends JobFacts>(
  form: JobForm<F>,
  facts: F,
  end: JobEnd,
  hasNotes: boolean,
): readonly RecordChange[] {
  const { open, notes } = form.collections;
  const changes: RecordChange[] = [
    { kind: "put", record: shownRecord(form, facts, end) },
    { kind: "delete", collection: open, id: facts.id },
  ];
  if (hasNotes && notes !== undefined) changes.push({ kind: "delete", collection: notes, id: facts.id });
  return changes;
}

/** Jobs are removed so long after they have ended; pending ones stay. */
export function keptJobs(
  store: RecordStore,
  { shown, open, notes }: JobCollections,
  keepMs: number,
): {
  readonly collection: string;
  readonly keepMs: number;
  readonly remove: (record: StoredRecord, oldestWallMs: number) => Promise<boolean>;
} {
  const collections = [shown, open, ...(notes === undefined ? [] : [notes])];
  return {
    ...{ collection: shown, keepMs },
    remove: async ({ id, createdWallMs, body }, oldestWallMs) => {
      const { status, updatedWallMs = createdWallMs } = JSON.parse(body) as JobBody; // written by a form
      if (status === "pending" || status === "waiting" || updatedWallMs > oldestWallMs) return false;
      await store.change(collections.map((collection) => ({ kind: "delete", collection, id })));
      return true;
    },
  };
}

/** Progress as versions before 2026-11-23 wrote it: with `held` in place of `last`. */
type StoredProgress = JobProgress & {
  readonly held?: Omit<LastFailure, "failure"> & { readonly reason: string };
};

function openJob<F extends JobFacts>({ id, project, createdWallMs, body }: StoredRecord): OpenJob<F> {
  const { progress, ...rest } = JSON.parse(body) as { readonly progress: StoredProgress }; // written by this file
  const { held, ...own } = progress;
  const facts = { ...rest, id, project, createdWallMs } as unknown as F; // as above
  if (held === undefined) return { facts, progress: own };
  const { reason, code, message, sinceWallMs } = held;
  const failure = reason === "outage" ? "not_sent" : "refused";
  return { facts, progress: { ...own, last: { failure, code, message, sinceWallMs } } };
}
