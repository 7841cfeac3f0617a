/**
 * What is stored of a lot: a file of lines that one run answers, of one task or of many small ones.
 *
 *   gathering -> sealed -> over        (`open_lot` until it is over, then `lot`: a start reads the open ones alone)
 */
import type { Moment } from "../../clock.ts";
import type { SettledStatus } from "../../engine/journal/journal.ts";
import type { StoredRecord } from "../../store/records.ts";
import type { Amount } from "../usage/backlog.ts";
import type { SpooledPart } from "./request_spool.ts";

export const OPEN_LOTS = "open_lot";
export const LOTS = "lot";

/** What is stored of it; written again when it is sealed and when it is over. */
export interface LotRecord {
  readonly id: string;
  readonly project: string;
  /** Null: its items wanted to run at once. */
  readonly slaMinutes: number | null;
  /** When the first of its items was accepted. */
  readonly acceptedWallMs: number;
  /** The same moment with the time since boot, by which a jump of the wall clock is found; absent if an earlier version accepted it. */
  readonly acceptedAt?: Moment;
  /** The task that it belongs to alone; absent when tasks share it. */
  readonly taskId?: string;
  /** The uploaded file that it reads; absent when it has a file of its own. */
  readonly fileId?: string;
  /** Its lines are all there and on the disk. */
  readonly isSealed: boolean;
  /** Lines, blank ones included, and those that are items; of a gathering lot 0. */
  readonly lines: number;
  readonly items: number;
  readonly volumeTokens: number;
  /** Of the lines that its tasks brought; absent for an uploaded file. */
  readonly bytes?: number;
  readonly maxCostUsd?: number;
  /** The card (rate_cards.ts) that its price factors were promised by. */
  readonly rateCard?: string;
  /** Its answers have the provider's body. */
  readonly keepsBodies?: boolean | undefined;
  /** Where every 1,000th item begins, by line and byte; empty for shared lots. */
  readonly itemLines: readonly number[];
  readonly itemOffsets: readonly number[];
  /** What its items were counted to be, those of a large lot by its first thousand; of a shared one until it is over. */
  readonly works?: readonly LotWork[];
  /** Of a sealed shared lot: the tasks on its lines, in their order. */
  readonly members?: readonly LotMember[];
  /** What its tasks were estimated to cost, in USD. */
  readonly estimatedUsd?: number;
  /** Of one that runs lines of another lot again. */
  readonly again?: LotAgain;
  /** Once it is over. */
  readonly over?: LotEnd;
}

/** Whose lines are run again. */
export interface LotAgain {
  /** The lot of the part that they belong to, and that part's number in the task and first line in the lot. */
  readonly lotId: string;
  readonly part: number;
  readonly firstLine: number;
  /** The uploaded file that they were read from. */
  readonly fileId?: string;
  /** Which of the part's lines (`line_bits.ts`); the others are blank in this lot. */
  readonly lines: string;
}

/** Items of one model. */
export interface LotWork {
  readonly model: string;
  readonly items: number;
  readonly inputTokens: number;
}

/** A task, and the lines of the lot that are its objects. Lines count from 1. */
export interface LotMember {
  readonly taskId: string;
  readonly firstLine: number;
  readonly lines: number;
}

/** How its run ended. Money in USD. */
export interface LotEnd {
  readonly finishedWallMs: number;
  /** Of its run, as the engine knows it. */
  readonly runTaskId: string;
  /** Its items by how they ended. */
  readonly counts: Readonly<Record<SettledStatus, number>>;
  /** Of those that failed, items that could not be read as requests. */
  readonly unreadable: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly listUsd: number;
  readonly usd: number;
  /** Absent in records of older versions, as is the next. */
  readonly billedUsd?: number;
  readonly ambiguousUsd?: number;
}

/** Under which the engine keeps its run. */
export function lotRunName(id: string): string {
  return `id:lot:${id}`;
}

/** Open ones have a collection of their own, so that a start reads those alone. */
export function lotToRecord(lot: LotRecord): StoredRecord {
  const { id, project, ...body } = lot;
  return {
    collection: lot.over === undefined ? OPEN_LOTS : LOTS,
    id,
    project,
    parent: "",
    createdWallMs: lot.acceptedWallMs,
    body: JSON.stringify(body),
  };
}

/** What `lotToRecord` made. */
export function recordToLot({ id, project, body }: StoredRecord): LotRecord {
  const own = JSON.parse(body) as Omit<LotRecord, "id" | "project">; // written by this file
  return { id, project, ...own };
}

/** What lots with all their lines bring into the backlog. */
export function amountOf(lots: readonly LotRecord[]): Amount {
  return {
    items: lots.reduce((sum, { items }) => sum + items, 0),
    bytes: lots.reduce((sum, { bytes = 0 }) => sum + bytes, 0),
  };
}

/** The lot of a part of a large task. */
export function lotOf(
  { slaMinutes, fileId, items, lines, bytes, itemLines, itemOffsets }: SpooledPart,
  {
    maxCostUsd,
    ...terms
  }: Pick<LotRecord, "id" | "project" | "acceptedWallMs" | "acceptedAt" | "volumeTokens" | "keepsBodies"> & {
    readonly taskId: string;
    readonly maxCostUsd: number | undefined;
  },
): LotRecord {
  return {
    ...terms,
    slaMinutes,
    ...(fileId === undefined ? { bytes } : { fileId }),
    isSealed: true,
    lines,
    items,
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
    itemLines,
    itemOffsets,
  };
}
