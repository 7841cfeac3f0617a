/**
 * Items as callers give them: inline (interface 2.1), or with a key and a full request (interface 2.5).
 */
import type { Output } from "./outcome.ts";
import type { JsonValue } from "./request.ts";
import type { Warning } from "./warning.ts";

/** An inline item (interface 2.1). */
export interface InlineItem {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** Prompt text. */
  readonly input: string;
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
  /** Settings as in a file's line (interface 2.5), such as `{ "temperature": 0.6 }`. */
  readonly generation_config?: { readonly [name: string]: JsonValue };
  /** System instruction. */
  readonly system?: string;
  /** Output tokens at most, as `generation_config.max_output_tokens`. */
  readonly max_tokens?: number;
  /** The same. */
  readonly max_completion_tokens?: number;
  /** As `generation_config.stop_sequences`. */
  readonly stop?: string | readonly string[];
}

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
