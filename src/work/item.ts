/**
 * Items as callers give them: inline (interface 2.1), or with a key and a full request (interface 2.5).
 */

import type { ModelName } from "./model_name.ts";
import type { Output } from "./outcome.ts";
import type { GenerationConfig, JsonValue } from "./request.ts";
import type { Warning } from "./warning.ts";

/** What an item is besides its question. Settings may also have the interface's names (`max_output_tokens`). */
interface ItemMembers extends GenerationConfig {
  /** 1 to 512 bytes, once in a run. Default in `run`: the item's number, from 1. `submit` has ids instead. */
  readonly key?: string;
  /** `<provider>:<name>`. */
  readonly model: ModelName;
  /** Minutes, 1 to 43,200; absent: at once. For `submit`; in `run` it is an option of the run. */
  readonly sla?: number;
  /** System instruction. */
  readonly system?: string;
  /** Settings as in a file's line (interface 2.5), such as `{ "temperature": 0.6 }`. */
  readonly generation_config?: { readonly [name: string]: JsonValue };
  /** Output tokens at most, as `maxOutputTokens`. */
  readonly max_tokens?: number;
  /** The same. */
  readonly max_completion_tokens?: number;
  /** As `stopSequences`. */
  readonly stop?: string | readonly string[];
}

/** A prompt (interface 2.1). */
interface PromptItem extends ItemMembers {
  readonly input: string;
  readonly contents?: never;
  readonly messages?: never;
}

/** A conversation in the form of the interface's files (2.5). */
interface ContentsItem extends ItemMembers {
  readonly contents: readonly {
    /** Default `user`. */
    readonly role?: "user" | "model";
    readonly parts: readonly { readonly text: string }[];
  }[];
  readonly input?: never;
  readonly messages?: never;
}

/** A conversation in OpenAI's form; other members of OpenAI's body may stand beside it, under OpenAI's names. */
interface MessagesItem extends ItemMembers {
  readonly messages: readonly { readonly role: string; readonly [member: string]: JsonValue }[];
  readonly tools?: readonly JsonValue[];
  readonly tool_choice?: JsonValue;
  readonly parallel_tool_calls?: boolean;
  readonly response_format?: { readonly [name: string]: JsonValue };
  readonly reasoning_effort?: string;
  readonly service_tier?: string;
  readonly user?: string;
  readonly input?: never;
  readonly contents?: never;
}

/** One item: a model, a question (`input`, `contents` or `messages`), and settings. */
export type Item = PromptItem | ContentsItem | MessagesItem;

/** A keyed item: the interface's file line (2.5) or OpenAI's batch line, as an object. Checked when it is read. */
export type LineItem =
  | { readonly key: string; readonly request: { readonly [name: string]: JsonValue } }
  | { readonly custom_id: string; readonly body: { readonly [name: string]: JsonValue } };

/** One output line (interface 2.6, with the error of a failed item). */
export interface OutputLine {
  /** Null when the input line's key could not be read; `line` then tells which line it was. */
  readonly key: string | null;
  readonly line?: number;
  readonly output: Output | null;
  /** The model that answered, `<provider>:<name>`, where it was not the line's own (`model` of a run). */
  readonly model?: string;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly retryable: boolean;
    readonly attempts: number;
    readonly ambiguous_attempts: number;
    readonly provider?: string;
    readonly provider_status?: number;
    readonly reasoning?: string;
    readonly line?: number;
  };
  /** What was left out of the request, or changed in it. */
  readonly warnings?: readonly Warning[];
}
