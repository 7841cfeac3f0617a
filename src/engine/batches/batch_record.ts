/**
 * The durable record of one batch at a provider: what is in it, and how far it has come.
 *
 *   spooled -> uploading -> uploaded -> creating -> running -> ended -> collecting -> ingested -> (deleted: no record)
 *                 |                        |           \-> cancelling -> ended
 *                 |                        \-> creating again, after a search that found nothing
 *                 \-> uploading again, after a search for the file
 *
 * Each state is durable before the effect that follows it: a process that finds `creating` does not know whether the batch
 * exists, and searches for it before it creates one (docs/decisions/0032-remote-batches.md). Wires without an upload go from
 * `spooled` to `creating`.
 *
 * It belongs to one task, and names its lines as ranges. They are *with the batch*: neither fresh nor in doubt.
 */
import { createHash } from "node:crypto";
import type {
  BatchEnd,
  BatchEndpoint,
  BatchFailure,
  RemoteKind,
} from "../../providers/batches/batch_wire.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import type { StoredRecord } from "../../store/records.ts";

/** The collection of the store. */
export const BATCHES = "remote_batch";

export const BATCH_STATES = [
  "spooled",
  "uploading",
  "uploaded",
  "creating",
  "running",
  "cancelling",
  "ended",
  "collecting",
  "ingested",
] as const;
export type BatchState = (typeof BATCH_STATES)[number];

/** From the first line to the last. */
export type LineRange = readonly [first: number, last: number];

/** Why a batch waits. */
export interface BatchReason {
  /** Its account, what its provider takes at once, or an answer that did not come; see `BatchFailure`. */
  readonly is: BatchFailure["is"];
  /** With the provider's words where a batch failed as a whole. */
  readonly message: string;
}

/** What is in a batch, which never changes. */
export interface BatchContent {
  /** Names it at the provider, and begins the ids of its requests. */
  readonly tag: string;
  readonly taskId: string;
  readonly project: string;
  /** The lane that its items came from. */
  readonly lane: string;
  /** `<provider>:<name>`. */
  readonly model: string;
  readonly endpoint: BatchEndpoint;
  /** Absent: `batch`. A deferred request is a batch of one. */
  readonly kind?: RemoteKind;
  /** Of the address and the key with which it is made; only they may ask for it. */
  readonly keyPrint: string;
  /** Of the bytes of its lines. */
  readonly sha256: string;
  readonly lines: readonly LineRange[];
  readonly items: number;
  readonly bytes: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The most that it may cost. */
  readonly mostUsd: number;
  readonly spooledWallMs: number;
}

/** How far it has come. */
export interface BatchRecord extends BatchContent {
  readonly state: BatchState;
  /** The provider's name of the uploaded lines. */
  readonly file?: string;
  /** Unix time: the batch was not created before; of the first attempt that may have created it. */
  readonly createdFromWallMs?: number;
  /** Unix time of the last attempt to create it. */
  readonly createdWallMs?: number;
  readonly batchId?: string;
  /** It has as many requests as this one, and no result has shown yet whose they are. */
  readonly isUnconfirmed?: true;
  /** It was created again after a search that found nothing: the first one may have been listed too late. */
  readonly mayHaveTwin?: boolean;
  /** It was created twice: the other one is cancelled, and what it may have cost is in doubt. */
  readonly hasTwin?: boolean;
  /** Ids of batches that were found to be another's. */
  readonly passedOver?: readonly string[];
  readonly end?: BatchEnd;
  /** Why its last batch failed as a whole, or why it waits to be created. */
  readonly failed?: BatchReason;
  /** Items that it had finished by the provider's word, within a hundredth of them; absent before its first poll. */
  readonly finished?: number;
  /** Bytes of each of its results that are settled. */
  readonly collectedBytes?: readonly number[];
}

/** Why a batch waits to be created, also in the eyes of another process; undefined where it does not. */
export function waitingReason({ state, failed }: BatchRecord): BatchReason | undefined {
  return state === "spooled" || state === "uploaded" ? failed : undefined;
}

/** As it is stored. */
export function storedBatch(record: BatchRecord): StoredRecord {
  const { tag, taskId, project, spooledWallMs } = record;
  return {
    collection: BATCHES,
    id: tag,
    project,
    parent: taskId,
    createdWallMs: spooledWallMs,
    body: JSON.stringify(record),
  };
}

/** What `storedBatch` has stored. */
export function readBatch({ body }: Pick<StoredRecord, "body">): BatchRecord {
  return JSON.parse(body) as BatchRecord; // written by `storedBatch` only
}

/** The address and the key that a batch belongs to, not readable. */
export function keyPrintOf({ name, baseUrl, key = "" }: ProviderSettings): string {
  return createHash("sha256")
    .update(JSON.stringify([name, baseUrl, key]))
    .digest("hex")
    .slice(0, 32);
}

/** Lines as ranges. They need not be in order. */
export function rangesOf(lines: Iterable<number>): LineRange[] {
  const ranges: [number, number][] = [];
  for (const line of [...lines].sort((left, right) => left - right)) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === line - 1) last[1] = line;
    else ranges.push([line, line]);
  }
  return ranges;
}

/** The lines of ranges. */
export function* linesIn(ranges: readonly LineRange[]): Generator<number> {
  for (const [first, last] of ranges) for (let line = first; line <= last; line += 1) yield line;
}
