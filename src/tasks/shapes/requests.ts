/**
 * What projects submit as tasks: items to answer, in the form of the interface (2.1).
 */

import type { AnswerTap } from "../../dispatch/answer_tap.ts";
import type { Item } from "../../work/item.ts";
import type { JsonObject } from "../../work/json.ts";

/** All lines of an uploaded file. */
export interface FileRequest {
  readonly file_id: string;
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
  /** What answers to its lines must fit that say nothing themselves. */
  readonly schema?: JsonObject | boolean;
}

/** A member of a submitted list. */
export type RequestItem = Item | FileRequest;

/** A task to make. */
export interface TaskRequest {
  /** UUID chosen by the caller, to recognise a repeated call; default: a new one. Throws `conflict` if it is in use. */
  readonly id?: string;
  /** Whether the id was made for this call, so that no task has it: it is not looked up, which takes two reads of the store. */
  readonly isNewId?: boolean;
  /** In order. If the iterable throws, the error passes through, and no task is made. */
  readonly items: Iterable<RequestItem> | AsyncIterable<RequestItem>;
  /** Whether the caller requests the answers as a file (`Output-Format: jsonl`). */
  readonly hasOutputFile: boolean;
  /** Stored with the task and returned, such as the batch data of the OpenAI front. JSON, at most 16 KiB. */
  readonly note?: string;
  /** What answers to its chats must fit that say nothing themselves. Throws `usage` for one that cannot be used. */
  readonly schema?: JsonObject | boolean | undefined;
  /** Hard cap in USD on what the providers may charge. */
  readonly maxCostUsd?: number;
  /** How old answers from the operator's cache may be, such as `1h`; absent: it is not used. */
  readonly cacheTtl?: string | undefined;
  /** Whether `answers` include the provider's bodies for the lines of its files. Default false. */
  readonly keepsBodies?: boolean;
  /**
   * Reads the answer of the only item while it arrives. Not called where the provider does not stream, for a large item (1 MiB), and after a
   * restart: the answer is then whole when the task ends. What ends the item in the middle is its error.
   */
  readonly tap?: AnswerTap;
  /**
   * Whether only this call reads the answer, such as that of a stream. If its process ends before, the next one cancels what is not
   * answered, because the caller has left; what was under way counts as in doubt. Only for items without sla.
   */
  readonly endsWithCaller?: boolean;
  /** Aborting rejects with its reason; a task that is already stored continues. */
  readonly signal?: AbortSignal;
}
