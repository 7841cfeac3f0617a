/**
 * OpenRouter's batches (`/api/v1/batches`). Source: openrouter.ai/docs, batch quickstart and API reference, 2026-11.
 *
 *   validating -> in_progress -> finalizing -> completed,   any of them -> failed | expired | cancelled
 *
 * The requests are in the body of the create, which is answered with 202 before anything was checked; `endpoint` and `model` must come
 * before `requests` in its text, or it is refused. Results are in the answer to a get of a batch that has ended, and in pages of
 * `/results` where a get leaves them out. A batch cannot be cancelled. Whether its metadata is kept is not documented: it is found again
 * by the ids of its requests.
 *
 * Limits (documented): 5,000 requests, 200 MB, text only; a window of 24 h, which some venues exceed (`expires_at` says it); results are
 * kept 30 days.
 */

import { wireAddress } from "../address.ts";
import { arrayOf, countOf, nameOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";
import type { ProviderSettings, WireAnswer } from "../provider.ts";
import { ENDPOINT_PATHS } from "./batch_endpoints.ts";
import { failureOf, faultOf } from "./batch_failure.ts";
import { type BatchHost, batchHost, remoteId } from "./batch_host.ts";
import { amountOf, answered, answeredError, lineOf, nothingOf, tokenOf, unreadable } from "./batch_json.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchEnd,
  BatchFailure,
  BatchLimits,
  BatchPage,
  BatchRequest,
  BatchResult,
  BatchTraits,
  BatchWire,
  RemoteBatch,
  ResultSource,
} from "./batch_wire.ts";
import { successOf } from "./remote_batch.ts";

const LIMITS: BatchLimits = {
  itemsMax: 5_000,
  bytesMax: 200_000_000,
  windowMs: 86_400_000,
  keptMs: 30 * 86_400_000,
};
const TRAITS: BatchTraits = {
  endpoints: ["chat", "responses", "embeddings"],
  tag: "ids",
  canCancel: false,
  keepsOnCancel: false,
  showsFinished: false,
  showsProgress: true,
  mixesModels: false,
  takes: { tools: true, images: false, schemas: true },
};
const PAGE_BATCHES = "100";

/** The wire for settings of OpenRouter. `given`: limits that an account has. */
export function openrouterBatches(settings: ProviderSettings, given: BatchSettings = {}): BatchWire {
  const address = wireAddress(
    settings,
    settings.key === undefined ? {} : { authorization: `Bearer ${settings.key}` },
  );
  const host = batchHost(address);
  const batches = `${address.path}/batches`;
  const at = (id: string): string => `${batches}/${encodeURIComponent(id)}`;
  const page = (query: Readonly<Record<string, string>>): BatchRequest =>
    host.request("GET", batches, { query: { limit: PAGE_BATCHES, ...query } });
  return {
    settings,
    limits: { ...LIMITS, ...limitsIn(given) },
    traits: TRAITS,
    line: (id, body) => lineOf(`{"custom_id":"${id}","body":`, body, "}"),
    lineOverheadBytes: (_, idCharacters) => '{"custom_id":"","body":}\n'.length + idCharacters,
    upload: () => undefined,
    create: ({ endpoint, model }) => {
      const before = `{"endpoint":${JSON.stringify(ENDPOINT_PATHS[endpoint])},"model":${JSON.stringify(model)},"requests":[`;
      return host.request("POST", batches, { body: { kind: "lines", before, separator: ",", after: "]}" } });
    },
    read: (answer, what = "create") => {
      const batch = remoteBatch(successOf(answer), host, at);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get: (id) => host.request("GET", at(id)),
    cancel: () => undefined,
    list: () => page({}),
    readPage: (answer) => readPage(answer, (value) => remoteBatch(value, host, at), page),
    result,
    remove: ({ id }) => [host.request("DELETE", at(id))],
  };
}

function readPage(
  answer: WireAnswer,
  read: (value: Unchecked | undefined) => RemoteBatch | undefined,
  page: (query: Readonly<Record<string, string>>) => BatchRequest,
): BatchPage | BatchFailure {
  const body = successOf(answer);
  const data = arrayOf(body?.["data"]);
  if (body === undefined || data === undefined) return failureOf(answer, "other");
  const batches = data.map((value) => read(objectOf(value))).filter((batch) => batch !== undefined);
  return { ok: true, batches, next: data.length > 0 ? nextOf(body, page) : undefined };
}

/** `next_cursor` as its pages of results have it, or OpenAI's way. */
function nextOf(
  body: Unchecked,
  page: (query: Readonly<Record<string, string>>) => BatchRequest,
): BatchRequest | undefined {
  const cursor = tokenOf(body["next_cursor"]);
  if (cursor !== undefined) return page({ cursor });
  const last = remoteId(body["last_id"]);
  return body["has_more"] === true && last !== undefined ? page({ after: last }) : undefined;
}

const ENDS: ReadonlyMap<string, BatchEnd> = new Map<string, BatchEnd>([
  ["completed", "completed"],
  ["failed", "failed"],
  ["expired", "expired"],
  ["cancelled", "cancelled"],
  ["canceled", "cancelled"],
]);

function remoteBatch(
  value: Unchecked | undefined,
  host: BatchHost,
  at: (id: string) => string,
): RemoteBatch | undefined {
  const id = remoteId(value?.["id"]);
  if (value === undefined || id === undefined) return undefined;
  const rawState = stringOf(value["status"]) ?? "";
  const end = ENDS.get(rawState);
  const counts = objectOf(value["request_counts"]);
  const total = countOf(counts?.["total"]);
  const succeeded = countOf(counts?.["completed"]);
  const failed = countOf(counts?.["failed"]);
  const billedUsd = amountOf(objectOf(value["usage"])?.["cost"]);
  const error = value["error"] ?? undefined;
  const hasNone = succeeded === 0 && (failed ?? 0) === 0;
  return {
    id,
    rawState,
    end,
    isCancelling: rawState === "cancelling" || rawState === "canceling",
    counts: {
      ...(total === undefined ? {} : { total }),
      ...(succeeded === undefined ? {} : { succeeded }),
      ...(failed === undefined ? {} : { failed }),
    },
    tag: undefined,
    createdWallMs: secondsMs(value["created_at"]),
    expiresWallMs: secondsMs(value["expires_at"]),
    faults: error === undefined ? [] : [faultOf(error)],
    results: end === undefined || hasNone ? [] : resultsOf(value["results"], end, host, at(id)),
    files: [],
    ...(billedUsd === undefined ? {} : { billedUsd }),
  };
}

/** In the batch itself if it shows them, else in pages; a batch that failed its checks has none. */
function resultsOf(inline: unknown, end: BatchEnd, host: BatchHost, path: string): readonly ResultSource[] {
  const results = arrayOf(inline);
  if (results === undefined ? end === "failed" : results.length === 0) return [];
  if (results !== undefined)
    return [{ request: host.request("GET", path), format: "array", path: ["results"] }];
  const page = (cursor?: string): BatchRequest =>
    host.request("GET", `${path}/results`, { query: { cursor } });
  const next = (members: Readonly<Record<string, unknown>>): BatchRequest | undefined => {
    const cursor = tokenOf(members["next_cursor"]);
    return cursor === undefined || members["has_more"] === false ? undefined : page(cursor);
  };
  return [{ request: page(), format: "page", path: ["data"], next }];
}

/** Unix time in seconds as milliseconds. */
function secondsMs(value: unknown): number | undefined {
  const seconds = countOf(value);
  return seconds === undefined ? undefined : seconds * 1_000;
}

const UNFINISHED: ReadonlySet<unknown> = new Set([
  "batch_expired",
  "batch_cancelled",
  "batch_canceled",
  "expired",
  "cancelled",
  "canceled",
]);

function result(element: Uint8Array): BatchResult {
  const line = objectOf(parseJson(element));
  const id = nameOf(line?.["custom_id"]);
  if (line === undefined || id === undefined) return unreadable("expected an object with custom_id");
  const response = objectOf(line["response"]);
  if (response !== undefined) {
    const requestId = nameOf(response["request_id"]);
    const headers = requestId === undefined ? {} : { "x-request-id": requestId };
    const status = statusOf(response["status_code"], 200);
    return answered(id, status, { element, line, path: ["response", "body"] }, headers);
  }
  if ((line["error"] ?? undefined) === undefined) return nothingOf(id);
  const error = objectOf(line["error"]);
  const code = [error?.["code"], error?.["type"]].find((each) => UNFINISHED.has(each));
  if (typeof code === "string")
    return { is: "unfinished", id, code, message: "the batch ended before the request" };
  // A success with an error in it, as OpenRouter answers in realtime: its own code says what it means.
  return answeredError(id, statusOf(error?.["code"], 400), { element, path: ["error"] });
}

/** An HTTP status from `from` to 599; 200 for anything else. */
function statusOf(value: unknown, from: number): number {
  const status = countOf(value) ?? 200;
  return status >= from && status <= 599 ? status : 200;
}
