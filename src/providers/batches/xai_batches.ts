/**
 * xAI's batches (`/v1/batches`). Source: docs.x.ai, batch API, and @ai-sdk/xai 5.0, 2026-11.
 *
 *   created empty and named -> requests are added under own ids -> pending ... 0 pending
 *
 * A batch has no state but its counts: it has ended when it holds requests and none is pending, was cancelled and none is pending, or
 * its time is over. A batch that is still being filled may look ended, so all is added before its end is asked for: `counts.total` says
 * how many it has. Adding a request again under its id changes nothing, so a step that was lost is repeated. Results are shown in pages
 * while it runs.
 *
 * Limits: 25 MB an add, 100 adds in 30 s (documented); 100,000 requests, results kept for 7 days: not documented for all accounts, so
 * they are to be configured where an account's differ.
 */
import { wireAddress } from "../address.ts";
import { arrayOf, nameOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";
import type { ProviderSettings, WireAnswer } from "../provider.ts";
import { rfc3339Ms } from "../retry_after.ts";
import { failureOf, faultOf } from "./batch_failure.ts";
import { type BatchHost, batchHost, jsonBody, remoteId } from "./batch_host.ts";
import {
  amountOf,
  answered,
  answeredError,
  lineOf,
  nothingOf,
  requestsOf,
  tokenOf,
  unreadable,
} from "./batch_json.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchEnd,
  BatchLimits,
  BatchRequest,
  BatchResult,
  BatchTraits,
  BatchWire,
  RemoteBatch,
  ResultSource,
} from "./batch_wire.ts";
import { successOf } from "./remote_batch.ts";
import { RPC_CANCELLED, rpcCodeOf, rpcHttpStatus } from "./rpc_status.ts";

const LIMITS: BatchLimits = {
  itemsMax: 100_000,
  bytesMax: 2_500_000_000,
  addBytesMax: 25_000_000,
  windowMs: 86_400_000,
  keptMs: 7 * 86_400_000,
};
const TRAITS: BatchTraits = {
  endpoints: ["chat"],
  tag: "name",
  canCancel: true,
  keepsOnCancel: true,
  showsFinished: true,
  showsProgress: true,
  mixesModels: true,
  takes: { tools: true, images: true, schemas: true },
};
/** Read from client code, not from xAI's pages. */
const TICKS_PER_USD = 1e10;
const PAGE_BATCHES = "100";
const PAGE_RESULTS = "1000";

/** The wire for settings of xAI. */
export function xaiBatches(settings: ProviderSettings, given: BatchSettings = {}): BatchWire {
  const { ticksPerUsd = TICKS_PER_USD } = given;
  const address = wireAddress(
    settings,
    settings.key === undefined ? {} : { authorization: `Bearer ${settings.key}` },
  );
  const host = batchHost(address);
  const batches = `${address.path}/batches`;
  const at = (id: string): string => `${batches}/${encodeURIComponent(id)}`;
  const read = (value: Unchecked | undefined, wallMs: number): RemoteBatch | undefined =>
    remoteBatch(value, wallMs, ticksPerUsd, (id) => resultPages(host, at(id)));
  const page = (token: string | undefined): BatchRequest =>
    host.request("GET", batches, { query: { limit: PAGE_BATCHES, pagination_token: token } });
  return {
    settings,
    limits: { ...LIMITS, ...limitsIn(given) },
    traits: TRAITS,
    line: (id, body) => lineOf(`${LINE_START}${id}${LINE_MIDDLE}`, body, LINE_END),
    lineOverheadBytes: (_, idCharacters) =>
      LINE_START.length + LINE_MIDDLE.length + LINE_END.length + 1 + idCharacters,
    upload: () => undefined,
    create: ({ tag }) => host.request("POST", batches, { body: jsonBody({ name: tag }) }),
    read: (answer, what = "create") => {
      const batch = read(successOf(answer), answer.wallMs);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    add: (_, id, from, count) =>
      host.request("POST", `${at(id)}/requests`, {
        body: { kind: "lines", before: '{"batch_requests":[', separator: ",", after: "]}", from, count },
      }),
    readAdded: (answer) => (isAdded(answer) ? { ok: true } : failureOf(answer, "other")),
    get: (id) => host.request("GET", at(id)),
    cancel: (id) => host.request("POST", `${at(id)}:cancel`, { body: jsonBody({}) }),
    list: () => page(undefined),
    readPage: (answer) => {
      const body = successOf(answer);
      const data = arrayOf(body?.["batches"]);
      if (body === undefined || data === undefined) return failureOf(answer, "other");
      const token = tokenOf(body["pagination_token"]);
      return {
        ok: true,
        batches: data
          .map((value) => read(objectOf(value), answer.wallMs))
          .filter((batch) => batch !== undefined),
        next: token === undefined || data.length === 0 ? undefined : page(token),
      };
    },
    result,
    remove: () => [],
  };
}

const LINE_START = '{"batch_request_id":"';
const LINE_MIDDLE = '","batch_request":{"chat_get_completion":';
const LINE_END = "}}";

/** A success may have no body. */
function isAdded(answer: WireAnswer): boolean {
  if (answer.status < 200 || answer.status > 299) return false;
  const error = objectOf(parseJson(answer.body))?.["error"];
  return error === undefined || error === null;
}

function remoteBatch(
  value: Unchecked | undefined,
  wallMs: number,
  ticksPerUsd: number,
  pages: (id: string) => ResultSource,
): RemoteBatch | undefined {
  const id = remoteId(value?.["batch_id"]);
  if (value === undefined || id === undefined) return undefined;
  const counts = countsOf(value["state"]);
  const expiresWallMs = rfc3339Ms(stringOf(value["expire_time"]));
  const stopped = stringOf(value["cancel_by_xai_message"]) ?? "";
  const isCancelled = stringOf(value["cancel_time"]) !== undefined || stopped !== "";
  const isOver = expiresWallMs !== undefined && expiresWallMs <= wallMs;
  const end = endOf(counts, isCancelled, isOver);
  const ticks = amountOf(objectOf(value["cost_breakdown"])?.["total_cost_usd_ticks"]);
  const { total, success, error, cancelled } = counts;
  const isShown = (success ?? 0) + (error ?? 0) + (cancelled ?? 0) > 0;
  return {
    id,
    rawState: end ?? (isCancelled ? "cancelling" : "pending"), // xAI has no word for it
    end,
    isCancelling: isCancelled && end === undefined,
    counts: {
      ...(total === undefined ? {} : { total }),
      ...(success === undefined ? {} : { succeeded: success }),
      ...(error === undefined && cancelled === undefined ? {} : { failed: (error ?? 0) + (cancelled ?? 0) }),
    },
    tag: stringOf(value["name"]),
    createdWallMs: rfc3339Ms(stringOf(value["create_time"])),
    expiresWallMs,
    faults: stopped === "" ? [] : [faultOf(stopped)],
    results: isShown ? [pages(id)] : [],
    files: [],
    ...(ticks === undefined ? {} : { billedUsd: ticks / ticksPerUsd }),
  };
}

interface Counts {
  readonly total: number | undefined;
  readonly pending: number | undefined;
  readonly success: number | undefined;
  readonly error: number | undefined;
  readonly cancelled: number | undefined;
}

/** Counts that are 0 may be left out, as in proto3 JSON: what is pending follows from the others. */
function countsOf(value: unknown): Counts {
  const state = objectOf(value);
  const total = requestsOf(state?.["num_requests"]);
  const success = requestsOf(state?.["num_success"]);
  const error = requestsOf(state?.["num_error"]);
  const cancelled = requestsOf(state?.["num_cancelled"]);
  const done = (success ?? 0) + (error ?? 0) + (cancelled ?? 0);
  const pending =
    requestsOf(state?.["num_pending"]) ?? (total === undefined ? undefined : Math.max(0, total - done));
  return { total, pending, success, error, cancelled };
}

function endOf({ total, pending }: Counts, isCancelled: boolean, isOver: boolean): BatchEnd | undefined {
  if (pending === 0 && isCancelled) return "cancelled";
  if (pending === 0 && total !== undefined && total > 0) return "completed";
  return isOver ? "expired" : undefined;
}

function resultPages(host: BatchHost, path: string): ResultSource {
  const page = (token: string | undefined): BatchRequest =>
    host.request("GET", `${path}/results`, { query: { limit: PAGE_RESULTS, pagination_token: token } });
  return {
    request: page(undefined),
    format: "page",
    path: ["results"],
    next: (members) => {
      const token = tokenOf(members["pagination_token"]);
      return token === undefined ? undefined : page(token);
    },
  };
}

const COMPLETION = ["batch_result", "response", "chat_get_completion"] as const;
const ERROR = ["batch_result", "error"] as const;

function result(element: Uint8Array): BatchResult {
  const line = objectOf(parseJson(element));
  const id = nameOf(line?.["batch_request_id"]);
  if (line === undefined || id === undefined) return unreadable("expected an object with batch_request_id");
  const outcome = objectOf(line["batch_result"]);
  const error = objectOf(outcome?.["error"]);
  const said = stringOf(line["error_message"]) ?? "";
  const code = error?.["code"];
  const hasError = isError(code) || (code === undefined && (stringOf(error?.["message"]) ?? "") !== "");
  if (rpcCodeOf(code) === RPC_CANCELLED || code === "batch_cancelled")
    return { is: "unfinished", id, code: "cancelled", message: "the batch was cancelled before the request" };
  if (hasError) return answeredError(id, rpcHttpStatus(code) ?? 500, { element, path: ERROR });
  if (said !== "") return answeredError(id, 500, { element: saying(said), path: ["said"] });
  const completion = objectOf(objectOf(outcome?.["response"])?.["chat_get_completion"]);
  return completion === undefined ? nothingOf(id) : answered(id, 200, { element, line, path: COMPLETION });
}

/** Code 0 means that there is no error. */
function isError(code: unknown): boolean {
  return (
    (typeof code === "number" && code !== 0) || (typeof code === "string" && code !== "0" && code !== "")
  );
}

function saying(message: string): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ said: { message } }));
}
