/**
 * The plug-in contract of a provider: a pure codec between perigee's request and one wire protocol.
 *
 * A codec never waits, sends, retries or reads a clock; it is the same value in every thread, built from plain
 * `ProviderSettings`. Wire facts carry their source beside them.
 */
import type { FailureCode } from "../errors.ts";
import type { LearntLimits } from "../work/limits.ts";
import type { AnswerMembers, FinishReason, Usage, WrittenOutput } from "../work/outcome.ts";
import type { EndpointKind, ModelRequest } from "../work/request.ts";
import type { Insert } from "./inserts.ts";

/**
 * Whose wire format a provider speaks; `echo` answers without a wire. `function` is a function in this process (function.ts);
 * `own` is the format of a codec that its user wrote.
 */
export type Protocol = "openai" | "anthropic" | "gemini" | "echo" | "function" | "own";

/** Plain data (it crosses threads) from which a codec is built. */
export interface ProviderSettings {
  /** The name before the colon of a model, such as `openai`. */
  readonly name: string;
  readonly protocol: Protocol;
  /** With the version path, without a trailing slash, e.g. `https://api.openai.com/v1`. Empty for echo. */
  readonly baseUrl: string;
  /** Another base URL, at which the same calls cost less and take longer (DashScope's Batch Chat); absent without one. */
  readonly batchChatUrl?: string;
  /** The API key; absent for servers without keys. Never logged, never stored. */
  readonly key?: string;
  /** Anthropic's `anthropic-version`, or Gemini's `v1beta`. */
  readonly apiVersion?: string;
  /** Sent as the output limit where the protocol demands one and the item does not have one. */
  readonly defaultMaxOutputTokens?: number;
  /**
   * What to do with settings that the model or provider does not take: leave them out with a warning, or fail the item.
   * Absent: what only shapes sampling is left out, all else fails the item.
   */
  readonly unsupportedConfig?: "drop" | "refuse";
  /** One request to it at most, in milliseconds; absent: as configured for all providers. */
  readonly timeoutMs?: number;
  /** Inputs of one request for embeddings at most, 1 to send each item by itself; default: by the provider (endpoints/joins.ts). */
  readonly embeddingInputsMax?: number;
  /** Input tokens of such a request at most; default: by the provider. */
  readonly embeddingTokensMax?: number;
  /** Bytes of a file that an item names, at most; default: 20 MiB (inserts.ts). */
  readonly mediaBytesMax?: number;
  /** Of OpenAI's protocol: whether streamed requests ask for the usage by `stream_options`; default: by the provider (streams/stream_form.ts). */
  readonly streamUsage?: boolean;
  /** Set by the engine: the provider is a function that embeds, too. */
  readonly embeds?: true;
  /** More headers for every request, lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Set by the engine: its codec was passed in, so threads pass requests on unchanged, and the main thread encodes them. */
  readonly hasOwnCodec?: true;
}

/** What precedes the body of every request for one model. */
export interface WireHead {
  /** `https://host:port`. */
  readonly origin: string;
  readonly path: string;
  /** Lower-case names; holds the credentials. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Lower-case names to values; a repeated header's values are joined by `, `. */
export type HeaderBag = Readonly<Record<string, string | undefined>>;

/** A request as JSON text, with the names of the settings that were left out; or why it cannot be sent. */
export type Encoded =
  | {
      readonly ok: true;
      readonly body: string;
      readonly dropped: readonly string[];
      /** The output limit that is sent, where it is not the request's own. */
      readonly outputLimit?: number;
      /** What is put in place of its markers in `body` before it is sent; absent for nothing. */
      readonly inserts?: readonly Insert[];
      /** How it is sent with others of which this is the same; absent if it is sent by itself. */
      readonly joins?: JoinedBodies | undefined;
      /** Of a request whose answer is checked here: its schema is not sent. */
      readonly leavesSchema?: true;
    }
  | {
      readonly ok: false;
      readonly code: "invalid_config" | "unsupported_request";
      readonly message: string;
      /** The first member that is not taken, by the name in the message. */
      readonly field?: string | undefined;
    };

/** Requests of one input each that may be sent as one: `open`, an input and `close` are the body of one. */
export interface JoinedBodies {
  readonly open: string;
  readonly close: string;
  /** Before and after the inputs of several, which have commas between them. */
  readonly listOpen: string;
  readonly listClose: string;
  /** Of one request. */
  readonly inputsMax: number;
  /** Input tokens of one request. */
  readonly tokensMax: number;
  /** Whether its answer has OpenAI's form. */
  readonly hasOpenaiAnswers: boolean;
}

/** How far a refusal reaches: this item, this model, or everything with this key. */
export type FailureScope = "item" | "model" | "provider";

/** A response, understood. `usage` is what the provider billed as far as it says so. */
export type Decoded =
  | {
      readonly class: "success";
      /** Empty only where `members` has tool calls or a refusal, or `output` the answer. */
      readonly text: string;
      /** Of an answer that is not a text. */
      readonly output?: WrittenOutput | undefined;
      readonly finish: FinishReason;
      readonly usage: Usage | undefined;
      /** The name of the model that answered, as the provider returned it. */
      readonly model?: string | undefined;
      /** The provider's id of this request, for questions to its support. */
      readonly requestId?: string | undefined;
      /** The tier that the provider says it used, which decides the price. */
      readonly servedTier?: string | undefined;
      /** What the answer holds besides its text. */
      readonly members?: AnswerMembers | undefined;
      /** The answer's bytes, from a provider that keeps them (kept_body.ts). */
      readonly body?: Uint8Array | undefined;
    }
  | {
      readonly class: "refused" | "ambiguous" | "permanent";
      readonly code: FailureCode;
      /** Our words and the provider's code; never its body. */
      readonly message: string;
      readonly scope: FailureScope;
      /** The wait that the provider asked for, already read from any of its forms. */
      readonly retryAfterMs?: number;
      /** Whether the refusal is a rate limit (lower the rate), as against overload or an error. */
      readonly isRateLimit?: boolean;
      /** Of a rate limit, whether it refuses the growth of use rather than the use. */
      readonly isRampLimit?: boolean;
      /** Of a rate limit, whether the provider named the limit; a tier without capacity answers 429, too. */
      readonly isLimitNamed?: boolean;
      /** Whether the provider says that it has too much to do, which no item is to blame for. */
      readonly isOverload?: boolean;
      /** The member of the body that the provider says is wrong. */
      readonly member?: string;
      readonly usage?: Usage;
      /** Of an answer without text: what the model thought. */
      readonly reasoning?: string;
      /** The tier that the provider says it used, which decides the price of its usage. */
      readonly servedTier?: string;
      /** The provider's id of this request. */
      readonly requestId?: string;
    };

/** A response as a codec sees it. */
export interface WireAnswer {
  readonly status: number;
  readonly headers: HeaderBag;
  readonly body: Uint8Array;
  /** What the body spells, where it was read before: a line of a batch was. */
  readonly value?: unknown;
  /** Unix time, for dates in headers. */
  readonly wallMs: number;
}

/** What follows a request whose answer does not fit. */
export interface FurtherTurns {
  /** The text of the model's answer. */
  readonly answer: string;
  /** What does not fit, and what to do, as the user's turn. */
  readonly reply: string;
}

/** Plug-in. Every method is pure and total: for any bytes, `decode` returns a class and never throws. */
export interface Provider {
  readonly settings: ProviderSettings;
  /** The endpoint that it is the codec of; absent: a chat's. */
  readonly kind?: EndpointKind;
  /** The head for a model; stable, so callers keep it. */
  head(model: string): WireHead;
  /**
   * The JSON body for a request, or why it cannot be put to this provider. With `isCheckOnly` the body may be empty; what
   * cannot be put is returned all the same.
   */
  encode(request: ModelRequest, model: string, isCheckOnly?: boolean): Encoded;
  decode(answer: WireAnswer): Decoded;
  /** Limits in response headers; undefined without any. */
  limits(headers: HeaderBag): LearntLimits | undefined;
  /** The codec of another endpoint of the same server; absent or undefined if requests for it cannot be sent there. */
  readonly endpoint?: (kind: EndpointKind) => Provider | undefined;
  /**
   * The body with the model's answer and a reply to it as two more turns, for an item whose answer does not fit its schema. For codecs with
   * a wire format of their own. Absent, or where it throws or adds more than twice the answer, the reply
   * (both as JSON) and 160 bytes: the same body is sent again.
   */
  readonly withTurns?: (body: string, turns: FurtherTurns) => string;
  /** Answers without a wire, for providers that are embedded; the body is one that `encode` made. */
  readonly answerLocally?: (body: Uint8Array) => { readonly status: number; readonly body: Uint8Array };
}
