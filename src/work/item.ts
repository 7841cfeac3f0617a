/**
 * Items as callers give them: inline (interface 2.1), or with a key and a full request (interface 2.5).
 */
import type { JsonValue } from "./request.ts";

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
  readonly output: { readonly type: "text"; readonly text: string; readonly finish_reason?: "length" } | null;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly retryable: boolean;
    readonly attempts: number;
    readonly ambiguous_attempts: number;
    readonly provider?: string;
    readonly provider_status?: number;
    readonly line?: number;
  };
}
