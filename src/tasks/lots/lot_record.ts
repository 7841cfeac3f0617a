/**
 * The stored form of a lot: a file of lines that one run answers, of one task or of many small ones.
 *
 *   gathering -> sealed -> over        (`open_lot` until it is over, then `lot`: a start reads only the open ones)
 */
import type { Moment } from "../../clock.ts";
import type { SettledStatus } from "../../engine/journal/journal.ts";
import type { CostFloors } from "../../price/factor.ts";
import type { StoredRecord } from "../../store/records.ts";
import type { JsonObject } from "../../work/json.ts";
import type { Amount } from "../usage/backlog.ts";
import type { SpooledPart } from "./request_spool.ts";

export const OPEN_LOTS = "open_lot";
export const LOTS = "lot";

/** Written again when the lot is sealed and when it is over. */
export interface LotRecord {
  readonly id: string;
  readonly project: string;
  /** Null: its items run at once. */
  readonly slaMinutes: number | null;
  /** When its first item was accepted. */
  readonly acceptedWallMs: number;
  /** The same moment with the time since boot, to detect a jump of the wall clock; absent if an earlier version accepted it. */
  readonly acceptedAt?: Moment;
  /** The only task of the lot; absent if tasks share it. */
  readonly taskId?: string;
  /** The uploaded file that it reads; absent if it has its own file. */
  readonly fileId?: string;
  /** What answers to its lines must fit that say nothing themselves; only with an uploaded file. */
  readonly schema?: JsonObject | boolean;
  /** All its lines are on the disk. */
  readonly isSealed: boolean;
  /** All lines, including blank ones, and those that are items; 0 for a gathering lot. */
  readonly lines: number;
  readonly items: number;
  readonly volumeTokens: number;
  /** Bytes of its own lines; absent for an uploaded file. */
  readonly bytes?: number;
  readonly maxCostUsd?: number;
  /** The card (rate_cards.ts) that determined its promised price factors. */
  readonly rateCard?: string;
  /** Below which none of them lies. */
  readonly costFloors?: CostFloors;
  /** What an item gets back of its charge if it misses its deadline; absent: nothing. */
  readonly refundShare?: number;
  /** Its answers include the provider's body. */
  readonly keepsBodies?: boolean | undefined;
  /** How old answers from the operator's cache may be, such as `1h`; absent: it is not used. */
  readonly cacheTtl?: string | undefined;
  /** Line and byte offset of every 1,000th item; empty for shared lots. */
  readonly itemLines: readonly number[];
  readonly itemOffsets: readonly number[];
  /** Its counted items, for a large lot from its first thousand; in a shared lot only until it is over. */
  readonly works?: readonly LotWork[];
  /** For a sealed shared lot: the tasks on its lines, in order. */
  readonly members?: readonly LotMember[];
  /** Estimated cost of its tasks, in USD. */
  readonly estimatedUsd?: number;
  /** For a lot that runs lines of another lot again. */
  readonly again?: LotAgain;
  /** Its end, once it is over. */
  readonly over?: LotEnd;
}

/** The origin of lines that run again. */
export interface LotAgain {
  /** The lot of the part that they belong to, and that part's index in the task and first line in the lot. */
  readonly lotId: string;
  readonly part: number;
  readonly firstLine: number;
  /** The uploaded file that they were read from. */
  readonly fileId?: string;
  /** The part's lines to run (`line_bits.ts`); the others are blank in this lot. */
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
  /** Id of its run in the engine. */
  readonly runTaskId: string;
  /** Its items by how they ended. */
  readonly counts: Readonly<Record<SettledStatus, number>>;
  /** Of the failed items, those that could not be read as requests. */
  readonly unreadable: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly listUsd: number;
  readonly usd: number;
  /** Absent in records of older versions, like the next. */
  readonly billedUsd?: number;
  readonly ambiguousUsd?: number;
}

/** The name of its run in the engine. */
export function lotRunName(id: string): string {
  return `id:lot:${id}`;
}

/** Open lots have a separate collection, so that a start reads only those. */
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

/** Reads the result of `lotToRecord`. */
export function recordToLot({ id, project, body }: StoredRecord): LotRecord {
  const own = JSON.parse(body) as Omit<LotRecord, "id" | "project">; // written by this file
  return { id, project, ...own };
}

/** What complete lots add to the backlog. */
export function amountOf(lots: readonly LotRecord[]): Amount {
  return {
    items: lots.reduce((sum, { items }) => sum + items, 0),
    bytes: lots.reduce((sum, { bytes = 0 }) => sum + bytes, 0),
  };
}

/** The lot of a part of a large task. */
export function lotOf(
  { slaMinutes, fileId, schema, items, lines, bytes, itemLines, itemOffsets }: SpooledPart,
  {
    maxCostUsd,
    ...terms
  }: Pick<
    LotRecord,
    "id" | "project" | "acceptedWallMs" | "acceptedAt" | "volumeTokens" | "keepsBodies" | "cacheTtl"
  > & {
    readonly taskId: string;
    readonly maxCostUsd: number | undefined;
  },
): LotRecord {
  return {
    ...terms,
    slaMinutes,
    ...(fileId === undefined ? { bytes } : { fileId }),
    ...(schema === undefined ? {} : { schema }),
    isSealed: true,
    lines,
    items,
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
    itemLines,
    itemOffsets,
  };
}
