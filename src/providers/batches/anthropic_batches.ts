/**
 * Anthropic's message batches (`/v1/messages/batches`). Source: @anthropic-ai/sdk 1.11 and platform.claude.com/docs, batch processing.
 *
 *   in_progress -> ended,   in_progress -> canceling -> ended
 *
 * The requests are in the body of the create. Counts stay 0 until the batch has ended, and results show only then, at an address that
 * the batch names. A batch has no name and no metadata: it is found again by the ids of its requests and how many it has. It belongs to
 * the workspace of its key.
 *
 *   succeeded           answered 200 with the message
 *   errored             answered with the status that realtime has for the error's type, and its error as the body
 *   canceled, expired   unfinished
 *
 * Limits (documented): 100,000 requests or 256 MB; works 24 h; results are kept 29 days; ids `^[A-Za-z0-9_-]{1,64}$`.
 */
import { anthropicProvider } from "../codecs/anthropic.ts";
import { arrayOf, countOf, nameOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";
import type { ProviderSettings, WireAnswer } from "../provider.ts";
import { rfc3339Ms } from "../retry_after.ts";
import { failureOf } from "./batch_failure.ts";
import { type BatchHost, batchHost, remoteId } from "./batch_host.ts";
import { answered, lineOf, unreadable } from "./batch_json.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchEnd,
  BatchFailure,
  BatchLimits,
  BatchPage,
  BatchRequest,
  BatchResult,
  BatchSearch,
  BatchTraits,
  BatchWire,
  RemoteBatch,
} from "./batch_wire.ts";
import { successOf } from "./remote_batch.ts";

const LIMITS: BatchLimits = {
  itemsMax: 100_000,
  bytesMax: 256_000_000,
  windowMs: 86_400_000,
  keptMs: 29 * 86_400_000,
};
const TRAITS: BatchTraits = {
  endpoints: ["chat"],
  tag: "ids",
  canCancel: true,
  keepsOnCancel: true,
  showsFinished: false,
  showsProgress: false,
  mixesModels: true,
  takes: { tools: true, images: true, schemas: true },
};
const PAGE_BATCHES = "100";

/** The wire for settings of Anthropic's protocol. `given`: limits that an account has. */
export function anthropicBatches(settings: ProviderSettings, given: BatchSettings = {}): BatchWire {
  const head = anthropicProvider(settings).head("");
  const [path = "", search] = head.path.split("?", 2);
  const host = batchHost({ ...head, search: search === undefined ? "" : `?${search}` });
  const batches = `${path}/batches`;
  const at = (id: string): string => `${batches}/${encodeURIComponent(id)}`;
  const page = (after: string | undefined): BatchRequest =>
    host.request("GET", batches, { query: { limit: PAGE_BATCHES, after_id: after } });
  return {
    settings,
    limits: { ...LIMITS, ...limitsIn(given) },
    traits: TRAITS,
    line: (id, body) => lineOf(`{"custom_id":"${id}","params":`, body, "}"),
    lineOverheadBytes: (_, idCharacters) => '{"custom_id":"","params":}\n'.length + idCharacters,
    upload: () => undefined,
    create: () =>
      host.request("POST", batches, {
        body: { kind: "lines", before: '{"requests":[', separator: ",", after: "]}" },
      }),
    read: (answer, what = "create") => {
      const batch = remoteBatch(successOf(answer), host, at);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get: (id) => host.request("GET", at(id)),
    cancel: (id) => host.request("POST", `${at(id)}/cancel`),
    list: () => page(undefined),
    readPage: (answer, search) => readPage(answer, search, (value) => remoteBatch(value, host, at), page),
    result,
    remove: ({ id }) => [host.request("DELETE", at(id))],
  };
}

function readPage(
  answer: WireAnswer,
  { sinceWallMs }: BatchSearch,
  read: (value: Unchecked | undefined) => RemoteBatch | undefined,
  page: (after: string) => BatchRequest,
): BatchPage | BatchFailure {
  const body = successOf(answer);
  const data = arrayOf(body?.["data"]);
  if (body === undefined || data === undefined) return failureOf(answer, "other");
  const batches = data.map((value) => read(objectOf(value))).filter((batch) => batch !== undefined);
  const last = batches.at(-1);
  // Newest first: what follows an older batch is older still.
  const isPast = last?.createdWallMs !== undefined && last.createdWallMs < sinceWallMs;
  const lastId = remoteId(body["last_id"]) ?? last?.id;
  const hasMore = body["has_more"] === true && data.length > 0;
  return { ok: true, batches, next: hasMore && !isPast && lastId !== undefined ? page(lastId) : undefined };
}

function remoteBatch(
  value: Unchecked | undefined,
  host: BatchHost,
  at: (id: string) => string,
): RemoteBatch | undefined {
  const id = remoteId(value?.["id"]);
  if (value === undefined || id === undefined) return undefined;
  const rawState = stringOf(value["processing_status"]) ?? "";
  const hasEnded = rawState === "ended";
  const { total, succeeded, errored, canceled, expired } = countsOf(value["request_counts"]);
  return {
    id,
    rawState,
    end: hasEnded ? endOf(value, expired) : undefined,
    isCancelling: rawState === "canceling",
    counts: {
      ...(total === undefined ? {} : { total }),
      // Before the end they are 0, whatever is finished.
      ...(hasEnded && succeeded !== undefined ? { succeeded } : {}),
      ...(hasEnded && errored !== undefined ? { failed: errored + (canceled ?? 0) + (expired ?? 0) } : {}),
    },
    tag: undefined,
    createdWallMs: rfc3339Ms(stringOf(value["created_at"])),
    expiresWallMs: rfc3339Ms(stringOf(value["expires_at"])),
    faults: [],
    results: hasEnded ? resultsOf(value["results_url"], host, `${at(id)}/results`) : [],
    files: [],
  };
}

function endOf(batch: Unchecked, expired: number | undefined): BatchEnd {
  if (stringOf(batch["cancel_initiated_at"]) !== undefined) return "cancelled";
  return expired !== undefined && expired > 0 ? "expired" : "completed";
}

/** Where the batch says; of an address that may not be followed, where Anthropic documents them, since they are paid. */
function resultsOf(address: unknown, host: BatchHost, documentedPath: string): RemoteBatch["results"] {
  if (typeof address !== "string") return [];
  const headers = { accept: "application/binary" };
  const request = host.named("GET", address, { headers }) ?? host.request("GET", documentedPath, { headers });
  return [{ request, format: "lines" }];
}

interface Counts {
  readonly total: number | undefined;
  readonly succeeded: number | undefined;
  readonly errored: number | undefined;
  readonly canceled: number | undefined;
  readonly expired: number | undefined;
}

function countsOf(value: unknown): Counts {
  const counts = objectOf(value) ?? {};
  const [processing, succeeded, errored, canceled, expired] = [
    "processing",
    "succeeded",
    "errored",
    "canceled",
    "expired",
  ].map((name) => countOf(counts[name]));
  const all = [processing, succeeded, errored, canceled, expired].filter((count) => count !== undefined);
  const total = all.length === 0 ? undefined : all.reduce((sum, count) => sum + count, 0);
  return { total, succeeded, errored, canceled, expired };
}

/** The status that realtime answers with for each type of error (docs, errors). */
const STATUS_OF_TYPE: ReadonlyMap<unknown, number> = new Map<unknown, number>([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["billing_error", 402],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["conflict_error", 409],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
  ["api_error", 500],
  ["timeout_error", 504],
  ["overloaded_error", 529],
]);

function result(element: Uint8Array): BatchResult {
  const line = objectOf(parseJson(element));
  const id = nameOf(line?.["custom_id"]);
  const outcome = objectOf(line?.["result"]);
  if (line === undefined || id === undefined || outcome === undefined)
    return unreadable("expected a line with custom_id and result");
  switch (outcome["type"]) {
    case "succeeded":
      return answered(id, 200, { element, line, path: ["result", "message"] });
    case "errored":
      return errored(id, element, line);
    case "canceled":
      return {
        is: "unfinished",
        id,
        code: "canceled",
        message: "the batch was cancelled before the request",
      };
    case "expired":
      return { is: "unfinished", id, code: "expired", message: "the batch expired before the request" };
    default:
      return {
        is: "unfinished",
        id,
        code: "unknown",
        message: "the batch ended the request in an unknown way",
      };
  }
}

function errored(id: string, element: Uint8Array, line: Unchecked): BatchResult {
  const answer = objectOf(objectOf(line["result"])?.["error"]);
  const error = objectOf(answer?.["error"]) ?? answer;
  const status = STATUS_OF_TYPE.get(error?.["type"]) ?? 500;
  const requestId = nameOf(answer?.["request_id"]);
  const headers = requestId === undefined ? {} : { "request-id": requestId };
  return answered(id, status, { element, line, path: ["result", "error"] }, headers);
}
