/**
 * Items as callers pass them: inline (interface 2.1), or with a key and a full request (interface 2.5).
 */

import type { ModelName } from "./model_name.ts";
import type { AnswerMembers, Failure, FinishReason, Output } from "./outcome.ts";
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
  /** The caller's own, sent nowhere and given back with the answer. */
  readonly metadata?: ItemMetadata;
  /** JSON Schema that the answer must fit, instead of the schema of its work; null: it is not checked. */
  readonly schema?: JsonValue;
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
  /** Functions, in the form of Gemini, OpenAI or Anthropic. */
  readonly tools?: readonly JsonValue[];
  /** OpenAI's or Anthropic's form; with `contents` also Gemini's as `tool_config`. */
  readonly tool_choice?: JsonValue;
  readonly tool_config?: JsonValue;
  readonly parallel_tool_calls?: boolean;
  /** Gemini's. */
  readonly safety_settings?: readonly JsonValue[];
  /** The name of a cached content at Gemini. */
  readonly cached_content?: string;
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
    /** Texts, media, calls and results, as Gemini has them. */
    readonly parts: readonly { readonly [member: string]: JsonValue }[];
  }[];
  readonly input?: never;
  readonly messages?: never;
}

/** A conversation in OpenAI's form; other members of OpenAI's body may be beside it, under OpenAI's names. */
interface MessagesItem extends ItemMembers {
  readonly messages: readonly { readonly role: string; readonly [member: string]: JsonValue }[];
  readonly response_format?: { readonly [name: string]: JsonValue };
  readonly reasoning_effort?: string;
  readonly service_tier?: string;
  readonly user?: string;
  readonly input?: never;
  readonly contents?: never;
}

/** What every item of another endpoint than a chat's is. */
interface EndpointMembers {
  /** As of every item. */
  readonly key?: string;
  readonly model: ModelName;
  readonly sla?: number;
  readonly metadata?: ItemMetadata;
  readonly contents?: never;
  readonly messages?: never;
  readonly generation_config?: never;
}

/** Members of OpenAI's body for an endpoint; those that only other servers have are written in a `LineItem`. */
type BodyMembers<Name extends string> = { readonly [name in Name]?: JsonValue };

/** One input or several for an embedding model. */
interface EmbeddingItem extends EndpointMembers, BodyMembers<"user"> {
  readonly kind: "embedding";
  /** A text, a list of texts, the token ids of one input, or a list of such lists. */
  readonly input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /** Numbers of each embedding; default: the model's. */
  readonly dimensions?: number;
  /** Default `float`. */
  readonly encoding_format?: "float" | "base64";
}

/** A request of OpenAI's `/v1/responses`, without anything that is stored there. */
interface ResponseItem
  extends EndpointMembers,
    BodyMembers<
      | ("include" | "max_tool_calls" | "parallel_tool_calls" | "prompt" | "prompt_cache_key" | "reasoning")
      | ("safety_identifier" | "service_tier" | "store" | "temperature" | "text" | "tool_choice" | "tools")
      | ("top_logprobs" | "top_p" | "truncation" | "user")
    > {
  readonly kind: "response";
  readonly input: string | readonly JsonValue[];
  readonly instructions?: string;
  readonly max_output_tokens?: number;
}

/** A text to be continued, by `/v1/completions`. */
interface CompletionItem
  extends EndpointMembers,
    BodyMembers<
      | ("echo" | "frequency_penalty" | "logit_bias" | "logprobs" | "presence_penalty" | "seed" | "stop")
      | ("suffix" | "temperature" | "top_p" | "user")
    > {
  readonly kind: "completion";
  readonly prompt: string | readonly number[];
  readonly input?: never;
  readonly max_tokens?: number;
}

/** What is to be judged by `/v1/moderations`. */
interface ModerationItem extends EndpointMembers {
  readonly kind: "moderation";
  /** A text, a list of texts, or OpenAI's parts (text, image_url). */
  readonly input: string | readonly string[] | readonly JsonValue[];
}

/** One item of another endpoint than a chat's. */
export type EndpointItem = EmbeddingItem | ResponseItem | CompletionItem | ModerationItem;

/** A chat: a model, a question (`input`, `contents` or `messages`), and settings. */
type ChatItem = (PromptItem | ContentsItem | MessagesItem) & { readonly kind?: "chat" };

/** One item: a chat unless its `kind` says otherwise. */
export type Item = ChatItem | EndpointItem;

/** A caller's own words for an item. */
type ItemMetadata = { readonly [name: string]: JsonValue };

/** A keyed item: the interface's file line (2.5) or OpenAI's batch line, as an object. Checked when it is read. */
export type LineItem =
  | {
      readonly key: string;
      readonly request: { readonly [name: string]: JsonValue };
      readonly metadata?: ItemMetadata;
    }
  | {
      readonly custom_id: string;
      readonly body: { readonly [name: string]: JsonValue };
      readonly metadata?: ItemMetadata;
    };

/** What all requests for an item took. Counts are whole tokens. */
export interface ItemUsage {
  /** Cached and written ones included. */
  readonly input_tokens: number;
  /** Read from the provider's cache. */
  readonly cached_tokens: number;
  /** Written to the provider's cache. */
  readonly cache_write_tokens: number;
  /** Reasoning included. */
  readonly output_tokens: number;
  readonly reasoning_tokens: number;
}

/** What they cost, in USD. */
export interface ItemCost {
  /** At list price; 0 when the model has no known price. */
  readonly list_usd: number;
  /** What the provider bills. */
  readonly billed_usd: number;
  /** The most that requests without a known result may have cost besides. */
  readonly ambiguous_usd: number;
  /** The tier that the provider says it served; null when it says nothing. */
  readonly tier: string | null;
  /** The source of the price, such as `genai-prices 0.1.8`; null when it is not known. */
  readonly price_version: string | null;
  /** The provider did not count the tokens, so perigee did; no exact price is known; or `ambiguous_usd` is above 0. */
  readonly is_estimated?: true;
}

/** What is known of an item besides its output, once it has ended. */
export interface ItemFacts extends AnswerMembers {
  /** The answer as a value, if it was checked against a schema and fits. */
  readonly parsed?: JsonValue;
  /** How the answer ended; absent without one. */
  readonly finish_reason?: FinishReason;
  /** The model that answered: `<provider>:` and the name that the provider returned, or else the one requested. Of an error, the one requested; absent where it was neither sent nor held. */
  readonly model?: string;
  /** Absent when no request was sent. */
  readonly usage?: ItemUsage;
  /** The same. */
  readonly cost?: ItemCost;
  /** Of the last request, in milliseconds. */
  readonly latency_ms?: number;
  /** Its answer was in a batch that had ended, and was collected after the deadline; absent otherwise. */
  readonly late?: true;
  /** How often it was tried, also where no request left this machine; of an item that failed, in `error`. */
  readonly attempts?: number;
  /** Its answer is an earlier one to the same request, from the cache: `usage` is what that took, and `cost` is 0; absent otherwise. */
  readonly cached?: true;
  /** The provider's id of the last request. */
  readonly provider_request_id?: string;
  /** The item's own, unchanged. */
  readonly metadata?: ItemMetadata;
  /** What was left out of the request, or changed in it. */
  readonly warnings?: readonly Warning[];
}

/** The provider's own body of an answer, in lines of a run whose `fields` name it. */
interface KeptBody {
  readonly body?: JsonValue;
}

/** One output line (interface 2.6, with the error of a failed item). */
export interface OutputLine extends ItemFacts, KeptBody {
  /** Null when the input line's key could not be read; `line` then says which line it was. */
  readonly key: string | null;
  readonly line?: number;
  readonly output: Output | null;
  readonly error?: Failure;
}

/** An output line as a run yields it: `status` says what it holds. */
export type ResultLine = OutputLine &
  (
    | { readonly status: "completed"; readonly output: Output; readonly error?: never }
    | {
        readonly status: "failed" | "expired" | "cancelled";
        readonly output: null;
        readonly error: Failure;
      }
  );

/** The line with its status, which its error's code names. */
export function resultOf(line: OutputLine): ResultLine {
  const { error } = line;
  // A line has an output or an error; that of an answer in OpenAI's layout is null.
  if (error === undefined || error === null) return { ...line, status: "completed" } as ResultLine;
  const { code } = error;
  const status = code === "expired" || code === "cancelled" ? code : "failed";
  return { ...line, status, output: null, error };
}
