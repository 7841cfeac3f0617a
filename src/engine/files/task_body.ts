/**
 * What the engine stores of a task besides its journal: its terms, frozen when it was accepted, and how it ended.
 */
import type { Moment } from "../../clock.ts";
import type { KeptQuote } from "../../price/planned_quote.ts";
import { checkVersion } from "../../store/folder/known_version.ts";
import { completeSummary, type StoredSummary } from "../items/earlier_summary.ts";
import type { Summary } from "../items/progress.ts";
import type { InputIdentity } from "./input.ts";
import type { KeptCall } from "./kept_call.ts";

const VERSION = 1;

/** Steps of a restatement, by their sequences; `to` is before `from` when there was nothing to state. */
export interface RestatedSteps {
  readonly from: number;
  readonly to: number;
}

/** JSON in `StoredTask.body`. */
export interface TaskBody {
  readonly version: 1;
  /** Absent for streams. */
  readonly input?: InputIdentity;
  /** Of the bytes read when keys were checked, also when a replacement of lost lines is the input; absent for streams. */
  readonly inputChecksum?: string;
  /** Of a stream's lines, once the run has finished: its copy is deleted then. */
  readonly streamChecksum?: string;
  /** Lines of the input, blank ones included; absent for streams until they were read to their end. */
  readonly lines?: number;
  /** Of the lines, those with nothing on them; absent where `lines` is, and for tasks of earlier versions. */
  readonly blankLines?: number;
  /** Lines of the output whose keys are no longer in the input; their numbers follow those of the input. */
  readonly keptLines?: number;
  readonly out: string;
  readonly isOrdered: boolean;
  /** Of its output lines; absent for perigee's own. */
  readonly format?: "openai" | "raw";
  readonly slaMinutes?: number;
  readonly acceptedWallMs: number;
  /** When it was last opened; absent where an earlier version opened it. */
  readonly seen?: Moment;
  /** Tokens that the price factor counts as this task's volume: a quarter of the input's bytes. */
  readonly volumeTokens: number;
  readonly model?: string;
  /** Its caller has agreed to continue after the pilot. */
  readonly isPiloted?: true;
  /** What the rest was quoted then; absent where an earlier version quoted it. */
  readonly quoted?: KeptQuote;
  /** What was not sent ends as cancelled, in any process; a stream's copy is its whole input then. */
  readonly isCancelled?: true;
  /** Steps of the journal that state it again; those before them count no more. */
  readonly restated?: RestatedSteps;
  /** A restatement that is decided; its output may not be in its place yet. */
  readonly restating?: RestatedSteps & {
    readonly outBytes: number;
    /** Of all its bytes. */
    readonly outCrc32: number;
    /** The task once it is. */
    readonly next: TaskBody;
    /** A file that is moved before it is. */
    readonly aside?: { readonly from: string; readonly to: string };
  };
  /** After a repair: a file beside the output that may have answers of open lines. The next recovery reads it. */
  readonly alsoIn?: string;
  /**
   * Number of the journal's last entry when a retry or an update last opened lines or gave them new numbers: an answer that was
   * recorded up to it, and not restated since, no longer counts.
   */
  readonly staleUntil?: number;
  /** Of its last call; absent where that had nothing to keep, or an earlier version opened it. */
  readonly call?: KeptCall;
  readonly status: "open" | "completed" | "failed";
  /** Size of the finished output. */
  readonly outBytes?: number;
  /** Of the finished output; absent where an earlier version finished it. */
  readonly outChecksum?: string;
  /** The output was found changed, and the caller has been notified: the next call rewrites it. */
  readonly isOutputChanged?: true;
  readonly summary?: Summary;
}

/** Whether a line of the output answers a line of the input; otherwise its key is no longer there. */
export function isOfInput({ lines, keptLines = 0 }: TaskBody, line: number): boolean {
  return keptLines === 0 || lines === undefined || line <= lines;
}

/** When the sla of a task ends, Unix time on the clock of its body; null without one. */
export function deadlineOf({ acceptedWallMs, slaMinutes }: TaskBody): number | null {
  return slaMinutes === undefined ? null : acceptedWallMs + slaMinutes * 60_000;
}

export function encodeBody(body: TaskBody): string {
  return JSON.stringify(body);
}

/** The store returns what `encodeBody` made; its own checks guard the bytes. Throws `data_dir_newer`, `data_dir_older`. */
export function decodeBody(text: string): TaskBody {
  const { summary, ...body } = JSON.parse(text) as Omit<TaskBody, "summary"> & {
    readonly summary?: StoredSummary;
  };
  if (body.version !== VERSION)
    checkVersion("a task of the data folder has version", body.version, { oldest: VERSION, newest: VERSION });
  return summary === undefined ? body : { ...body, summary: completeSummary(summary) };
}
