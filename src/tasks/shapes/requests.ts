/**
 * What projects ask of the tasks room: items to answer, as the interface (2.1) gives them.
 */

import type { Item } from "../../work/item.ts";

/** Characters of what an item asks, its settings aside. */
export function questionChars({ input, contents, messages }: Item): number {
  return input?.length ?? JSON.stringify(contents ?? messages ?? "").length;
}

/** All lines of an uploaded file. */
export interface FileRequest {
  readonly file_id: string;
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
}

/** One member of a list that is submitted. */
export type RequestItem = Item | FileRequest;

/** A task to make. */
export interface TaskRequest {
  /** UUID chosen by the caller, so that a repeated call can be told; default: a fresh one. Throws `conflict` when taken. */
  readonly id?: string;
  /** In order. Errors of the iterable pass through, and then there is no task. */
  readonly items: Iterable<RequestItem> | AsyncIterable<RequestItem>;
  /** Whether the answers are wanted as a file (`Output-Format: jsonl`). */
  readonly hasOutputFile: boolean;
  /** Stored with the task and given back, such as what the OpenAI front knows of its batch. JSON, at most 16 KiB. */
  readonly note?: string;
  /** Hard cap in USD on what the providers may charge. */
  readonly maxCostUsd?: number;
  /** Whether `answers` give the provider's bodies of the lines of its files. Default false. */
  readonly keepsBodies?: boolean;
  /** Aborting rejects with its reason; a task that is stored by then goes on. */
  readonly signal?: AbortSignal;
}
