/**
 * When and how the log is cut at its old end, so that reading it takes as long as there is open work, and not history.
 *
 *   growing -> restating -> growing          a commit that restates the last task of the old entries deletes these
 *
 * Entries that say which tasks are final are kept until their owner has noted these (`ended_tasks.ts`).
 *
 * The log may take `cutFloorBytes`, or twice what open work takes if that is more. Then tasks that the oldest entries state are
 * stated again in the next commits: as many bytes in each as its new records have, and at least `restatedBytesMin`, so that the log
 * cannot grow faster than it is cut. The entries after the restating began stay: the log is at most twice the bound, and what
 * open work takes. Nothing is large at once but one task with millions of items (one bit each).
 */
import type { Moment } from "../clock.ts";
import type { OpenWork } from "./open_work.ts";
import { LogRecords } from "./records.ts";

export interface LogCutOptions {
  /** The log is not cut below so many bytes; default 8 MiB. */
  readonly cutFloorBytes?: number | undefined;
  /** At least so many bytes are stated again in a commit while the log is cut; default 64 KiB. */
  readonly restatedBytesMin?: number | undefined;
}

const CUT_FLOOR_BYTES = 8 << 20;
const RESTATED_BYTES_MIN = 64 << 10;
const LOG_PER_OPEN = 2;

/** What a commit says again. */
export interface Restated {
  readonly records: LogRecords;
  /** Entries up to this one are deleted with the commit; 0: no entry. */
  readonly cutTo: number;
}

export class LogCut {
  readonly #floorBytes: number;
  readonly #restatedBytesMin: number;
  /** Entries up to this one are being stated again; 0: no entry. */
  #restateTo = 0;
  #bytes = 0;
  /** Of the entries after `#restateTo`. */
  #newBytes = 0;
  #boundBytes: number;
  /** All of it is stated again, and the cut waits for notes. */
  #isStated = false;

  constructor({ cutFloorBytes = CUT_FLOOR_BYTES, restatedBytesMin = RESTATED_BYTES_MIN }: LogCutOptions) {
    this.#floorBytes = cutFloorBytes;
    this.#restatedBytesMin = restatedBytesMin;
    this.#boundBytes = cutFloorBytes;
  }

  /** Of all entries. */
  get logBytes(): number {
    return this.#bytes;
  }

  get isRestating(): boolean {
    return this.#restateTo > 0 && !this.#isStated;
  }

  /** What a commit with `newBytes` of records says again, after the entry of `lastSequence`. */
  plan(work: OpenWork, newBytes: number, lastSequence: number, moment: Moment): Restated {
    const records = new LogRecords();
    if (this.#restateTo === 0) this.#begin(work, lastSequence);
    if (this.#restateTo === 0) return { records, cutTo: 0 };
    const bytesMin = Math.max(newBytes, this.#restatedBytesMin);
    for (const task of work.tasks) {
      if (task.sequence > this.#restateTo) break;
      if (records.byteLength >= bytesMin) return { records, cutTo: 0 };
      work.state(task, records, moment);
    }
    this.#isStated = work.ended.firstSequence <= this.#restateTo;
    if (this.#isStated) return { records, cutTo: 0 };
    work.lanes.state(records, moment);
    return { records, cutTo: this.#restateTo };
  }

  /** An entry was committed, or read. */
  committed(work: OpenWork, entryBytes: number, cutTo: number): void {
    this.#bytes += entryBytes;
    this.#newBytes += entryBytes;
    if (cutTo === 0) return;
    this.#bytes = this.#newBytes;
    this.#restateTo = 0;
    this.#boundBytes = this.#floorBytes;
    work.lanes.forgetStated();
  }

  #begin(work: OpenWork, lastSequence: number): void {
    if (this.#bytes <= this.#boundBytes || lastSequence === 0) return;
    this.#boundBytes = Math.max(this.#floorBytes, LOG_PER_OPEN * work.statedBytes);
    if (this.#bytes <= this.#boundBytes) return;
    this.#restateTo = lastSequence;
    this.#newBytes = 0;
    work.lanes.divide();
  }
}
