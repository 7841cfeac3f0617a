/**
 * The plug-in contract of a batch wire: a pure codec between perigee and one provider's asynchronous batches.
 *
 *   lines are written -> upload steps -> create (-> add steps) -> get ... get -> results -> delete
 *
 * Requests are data, and so is what an answer means: a wire never waits, sends, retries or reads a clock. The sender
 * decides when, records each step before it takes effect, and never repeats `create` before it has looked with `list`.
 * Every method is total: for any bytes, a decoder returns a value and never throws.
 *
 * A batch is a bag of requests under ids that perigee makes: `<tag>-<number>`, with the characters [A-Za-z0-9_-], at most 64.
 * Nothing is inferred from the order of results.
 */
import type { HeaderBag, ProviderSettings, WireAnswer } from "../provider.ts";

/** What the requests of a batch ask for; one a batch. Paths and kinds: batch_endpoints.ts. */
export const BATCH_ENDPOINTS = ["chat", "responses", "embeddings", "completions", "moderations"] as const;
export type BatchEndpoint = (typeof BATCH_ENDPOINTS)[number];

/** How a provider can be asked later which of its batches is ours. `ids`: only by the ids of its requests, and how many it has. */
export type BatchTag = "metadata" | "name" | "ids";

/** The kinds of lanes of what a provider works on without a connection: batches, and single requests that are asked for by their own ids. */
export type RemoteKind = "batch" | "deferred";

/** Bounds of one batch, and of the account; absent where none is known. Typical values: a provider's tiers differ. */
export interface BatchLimits {
  readonly itemsMax: number;
  /** Of the file, or of the body that creates the batch. */
  readonly bytesMax: number;
  /** Inputs of all requests of a batch for embeddings: a request may have several. */
  readonly inputsMax?: number;
  /** Batches that may be open at once. */
  readonly openMax?: number;
  /** Input tokens of all open batches of a model together. */
  readonly enqueuedTokensMax?: number;
  /** Bytes of one step that adds requests to an open batch. */
  readonly addBytesMax?: number;
  readonly addItemsMax?: number;
  /** How long it works on a batch before it ends it as expired. */
  readonly windowMs: number;
  /** How long results can be fetched after the batch was created. */
  readonly keptMs: number;
}

/** What a wire can do. */
export interface BatchTraits {
  readonly endpoints: readonly BatchEndpoint[];
  readonly tag: BatchTag;
  readonly canCancel: boolean;
  /** Whether what was finished before a cancel can be fetched afterwards; else it is paid and lost. */
  readonly keepsOnCancel: boolean;
  /** Whether finished results can be fetched while the batch runs. */
  readonly showsFinished: boolean;
  /** Whether counts say how many requests are finished while the batch runs. */
  readonly showsProgress: boolean;
  /** Whether a batch may hold requests for several models. */
  readonly mixesModels: boolean;
  /** Whether requests may hold tools, images, a schema of the answer; a request with others is sent another way. */
  readonly takes: { readonly tools: boolean; readonly images: boolean; readonly schemas: boolean };
}

/** What is to be sent as one batch, described. */
export interface BatchPayload {
  /** The tag of the batch: 8 to 40 characters of [A-Za-z0-9_-]; ids of its requests begin with it. */
  readonly tag: string;
  /** As the provider calls it, without the provider's name. */
  readonly model: string;
  readonly endpoint: BatchEndpoint;
  readonly items: number;
  /** Bytes of all lines, each with its newline. */
  readonly bytes: number;
}

/** A request as data. */
export interface BatchRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** `https://host:port`. */
  readonly origin: string;
  readonly path: string;
  /** Lower-case names; holds the credentials if `origin` is the provider's own, and only then. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: BatchBody;
}

/**
 * The body of a request. `lines`: the lines of the batch between two texts, streamed; every newline between two lines is replaced by
 * `separator`, and the last one by nothing (`"\n"`: a newline stays after each line, the last one too). `from` and `count` cut out
 * lines, for wires that add requests in several steps; absent: all. `rewritten` makes of a line (without its newline) what is sent of it,
 * for a wire that takes lines in one form in a file and in another in a body, and does not know which when it writes them (Gemini).
 */
export type BatchBody =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | {
      readonly kind: "lines";
      readonly before: string;
      readonly separator: "\n" | ",";
      readonly after: string;
      readonly from?: number;
      readonly count?: number;
      rewritten?(line: Uint8Array): Uint8Array;
    };

/** Why a step failed, and what that means. */
export interface BatchFailure {
  readonly ok: false;
  /**
   * `refused`: it had no effect and may be repeated after a wait; `unknown`: it may have had its effect (5xx, lost); `permanent`: the
   * same request is always refused; `account`: the key, its money or its rights are at fault, until the account changes; `full`: as
   * many batches, tokens or bytes are with the provider as may be; `gone`: the batch or file does not exist; `too_large`: a smaller
   * payload may pass.
   */
  readonly is: "refused" | "unknown" | "permanent" | "account" | "full" | "gone" | "too_large";
  /** Our words and the provider's code; never its body. */
  readonly message: string;
  readonly status: number;
  readonly retryAfterMs?: number;
  /** Of `account`: the key may not do this, whatever money there is. */
  readonly isDenied?: true;
}

/** Steps that bring the lines to the provider before `create`: each next one is made from the answer to the one before. */
export interface UploadStep {
  readonly request: BatchRequest;
  read(answer: WireAnswer): { readonly ok: true; readonly next: UploadStep } | UploadedFile | BatchFailure;
}

export interface UploadedFile {
  readonly ok: true;
  /** The provider's name of the file. */
  readonly file: string;
}

/** How a batch has ended; undefined while it has not. Partial results may exist after each of them. */
export type BatchEnd = "completed" | "failed" | "expired" | "cancelled";

/** How many requests of a batch are where; absent numbers are not known. */
export interface BatchCounts {
  readonly total?: number;
  readonly succeeded?: number;
  readonly failed?: number;
  /** From 0 to 1: how much of the batch is finished, where the provider says only that. */
  readonly share?: number;
}

/** A fault of the whole batch or of one of its lines, found before it ran. */
export interface BatchFault {
  /** Of the payload, from 0; absent for a fault of the whole. */
  readonly line?: number;
  readonly code: string;
  readonly message: string;
  /** Whether it is the account's: its money, or what may be enqueued. */
  readonly is: "item" | "account" | "full" | "batch";
}

/** A batch as its provider shows it. */
export interface RemoteBatch {
  readonly id: string;
  /** As the provider wrote it; unknown ones mean that the batch is not at its end. */
  readonly rawState: string;
  readonly end: BatchEnd | undefined;
  readonly isCancelling: boolean;
  readonly counts: BatchCounts;
  /** Undefined where the wire has none, or the batch is another program's. */
  readonly tag: string | undefined;
  /** The file that `create` was sent, where the provider shows it: no other batch has it, so it tells ours like a tag. */
  readonly inputFile?: string;
  /** Unix time; undefined where the provider does not say. */
  readonly createdWallMs: number | undefined;
  readonly expiresWallMs: number | undefined;
  readonly faults: readonly BatchFault[];
  /** Where its results can be fetched now; all of them must be read. None for a batch that has nothing to show. */
  readonly results: readonly ResultSource[];
  /** Files at the provider that belong to it, to be deleted once all is fetched. */
  readonly files: readonly string[];
  /** What the provider says that it cost, in USD; absent where it does not say. */
  readonly billedUsd?: number;
}

/** Results to be fetched. */
export interface ResultSource {
  readonly request: BatchRequest;
  /**
   * `lines`: one result a line. `array`: the elements of the JSON array at `path` (names of members from the root) of the answer.
   * `page`: as `array`, and `next` reads from the page's other members where the next page is. `whole`: the answer is the only result.
   */
  readonly format: "lines" | "array" | "page" | "whole";
  readonly path?: readonly string[];
  next?(page: PageMembers): BatchRequest | undefined;
}

/** The members of a page beside its array: only strings, numbers and booleans of its root. */
export type PageMembers = Readonly<Record<string, string | number | boolean | null>>;

/** One result, understood as far as the batch goes. */
export type BatchResult =
  /**
   * Answered by the model's endpoint with a status and a body, as in realtime; `body` is the JSON text of that answer, and `value` what it
   * spells, where that is known. `body` may be made when it is read: few need it.
   */
  | {
      readonly is: "answered";
      readonly id: string;
      readonly status: number;
      readonly headers: HeaderBag;
      readonly body: Uint8Array;
      readonly value?: unknown;
    }
  /** Not run to its end, for no reason of its own: it may be sent again. Not billed, as far as is known. */
  | { readonly is: "unfinished"; readonly id: string; readonly code: string; readonly message: string }
  /** A line that cannot be read: torn, or not a result. */
  | { readonly is: "unreadable"; readonly message: string };

/** A page of the list of batches, newest first where the provider has an order. */
export interface BatchPage {
  readonly ok: true;
  readonly batches: readonly RemoteBatch[];
  /** Undefined after the last page. */
  readonly next: BatchRequest | undefined;
}

/** How a batch is found again that may have been created. */
export interface BatchSearch {
  readonly payload: BatchPayload;
  /** Unix time before which it was not created. */
  readonly sinceWallMs: number;
}

export interface BatchWire {
  readonly settings: ProviderSettings;
  readonly limits: BatchLimits;
  readonly traits: BatchTraits;
  /** One request as a line of a batch, without a newline. `body` is what the realtime codec made, UTF-8 JSON without newlines. */
  line(id: string, body: Uint8Array, payload: Pick<BatchPayload, "model" | "endpoint">): Uint8Array;
  /** Bytes that `line` adds to the body, newline included, at most; for an id of so many characters. */
  lineOverheadBytes(payload: Pick<BatchPayload, "model" | "endpoint">, idCharacters: number): number;
  /** Undefined where lines are part of `create` or added after it. */
  upload(payload: BatchPayload): UploadStep | undefined;
  /** Where an uploaded file is found again whose answer was lost: a page of files, and which of them has the payload's name. */
  findFile?(payload: BatchPayload): {
    readonly request: BatchRequest;
    read(answer: WireAnswer): (Partial<UploadedFile> & { readonly ok: true }) | BatchFailure;
  };
  /** `file`: what `upload` ended with. */
  create(payload: BatchPayload, file: string | undefined): BatchRequest;
  /**
   * A batch, from the answer to `create`, `get` or `cancel`. `what`: of which; doubt about a create means `unknown`, and about the others,
   * which may be repeated, `refused`. Absent: `create`.
   */
  read(
    answer: WireAnswer,
    what?: "create" | "other",
  ): { readonly ok: true; readonly batch: RemoteBatch } | BatchFailure;
  /** Steps that add lines to a batch that was created empty; each may be repeated. Absent where nothing is added. */
  add?(payload: BatchPayload, batchId: string, from: number, count: number): BatchRequest;
  readAdded?(answer: WireAnswer): { readonly ok: true } | BatchFailure;
  get(batchId: string): BatchRequest;
  /** Undefined where the provider cannot cancel. */
  cancel(batchId: string): BatchRequest | undefined;
  list(search: BatchSearch): BatchRequest;
  /** `asked`: the request that was answered, for wires that number their pages; absent: `list`. */
  readPage(answer: WireAnswer, search: BatchSearch, asked?: BatchRequest): BatchPage | BatchFailure;
  result(element: Uint8Array): BatchResult;
  /** What is deleted at the provider once all results are stored here; a failure of these changes nothing. */
  remove(batch: Pick<RemoteBatch, "id" | "files">): readonly BatchRequest[];
}

/**
 * What a batch of a kind is worked on by. A wire of the kind `deferred` has one request a batch, whose id is the batch's, so that its
 * result needs no id; and nothing may list what was submitted.
 */
export interface RemoteWire
  extends Omit<BatchWire, "list" | "readPage">,
    Partial<Pick<BatchWire, "list" | "readPage">> {
  /** Absent: `batch`. */
  readonly kind?: RemoteKind;
  /** Whether a request can be expressed on it, besides what `traits.takes` says; absent: each can. `body`: what the realtime codec made. */
  takesBody?(body: Uint8Array): boolean;
}
