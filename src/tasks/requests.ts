/**
 * What projects ask of the tasks room: items to answer, as the interface (2.1) gives them.
 */

import type { JsonValue } from "../work/request.ts";

/** A prompt of its own. */
export interface InlineRequest {
  /** `<provider>:<name>`. */
  readonly model: string;
  readonly input: string;
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
  /** Settings as in a file's line (interface 2.5). */
  readonly generation_config?: { readonly [name: string]: JsonValue };
  /** System instruction. */
  readonly system?: string;
  /** As `generation_config.max_output_tokens`. */
  readonly max_tokens?: number;
  /** The same. */
  readonly max_completion_tokens?: number;
  /** As `generation_config.stop_sequences`. */
  readonly stop?: string | readonly string[];
}

/** All lines of an uploaded file. */
export interface FileRequest {
  readonly file_id: string;
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
}

/** One member of a list that is submitted. */
export type RequestItem = InlineRequest | FileRequest;

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
  /** Aborting rejects with its reason; a task that is stored by then goes on. */
  readonly signal?: AbortSignal;
}
