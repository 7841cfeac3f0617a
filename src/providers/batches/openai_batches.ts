/**
 * The wire of OpenAI's batches, which others speak, too: openai_servers.ts has what differs between them.
 *
 *   upload    POST /files             multipart, purpose=batch, perigee-<tag>.jsonl -> while the file is not ready: GET /files/{id}
 *   create    POST /batches           the tag as metadata
 *   get       GET /batches/{id}       validating -> in_progress -> finalizing -> completed
 *                                     validating -> failed; any -> expired; any -> cancelling -> cancelled
 *   list      GET /batches            pages by `after`
 *   results   GET /files/{id}/content of the output file and of the error file, which every end may have or not have
 *
 * Read in openai 6.49.0 and groq-sdk 1.6.0. A state that is not known is not an end. `completed` may have no output file; an overflow
 * of what may be enqueued is shown by a batch that has `failed`, not by an answer to `create`.
 */
import { modelPath } from "../address.ts";
import { errorFacts } from "../error_body.ts";
import { arrayOf, objectOf, stringOf, type Unchecked } from "../json.ts";
import type { ProviderSettings, WireAnswer } from "../provider.ts";
import { ENDPOINT_PATHS } from "./batch_endpoints.ts";
import { failureOf, faultOf } from "./batch_failure.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchEnd,
  BatchEndpoint,
  BatchFailure,
  BatchFault,
  BatchPage,
  BatchPayload,
  BatchRequest,
  BatchTraits,
  BatchWire,
  RemoteBatch,
  UploadedFile,
  UploadStep,
} from "./batch_wire.ts";
import { type BearerRequests, bearerRequests } from "./bearer_requests.ts";
import { lineOverhead, requestLine, resultOf } from "./jsonl_lines.ts";
import type { OpenaiServer } from "./openai_servers.ts";
import { countsOf, idOf, idsOf, stateOf, successOf, TAG_KEY, wallMsOf } from "./remote_batch.ts";
import { fileName, fileOf, removals, resultSource } from "./remote_files.ts";

const ENDS: ReadonlyMap<string, BatchEnd> = new Map<string, BatchEnd>([
  ["completed", "completed"],
  ["failed", "failed"],
  ["expired", "expired"],
  ["cancelled", "cancelled"],
  ["canceled", "cancelled"],
]);

/** States of a file that a batch cannot be made from yet (Azure), and ones in which it never can. */
const PENDING: ReadonlySet<string> = new Set(["pending", "running", "queued", "processing", "notrunning"]);
const BROKEN: ReadonlySet<string> = new Set(["error", "failed", "deleted", "cancelled", "canceled"]);
const FILE_WAIT_MS = 2_000;
/** The longest expiry that OpenAI takes. */
const EXPIRY_MS_MAX = 2_592_000_000;

const TRAITS: Omit<BatchTraits, "endpoints" | "takes"> = {
  tag: "metadata",
  canCancel: true,
  keepsOnCancel: true,
  showsFinished: false,
  showsProgress: true,
  mixesModels: false,
};

/** The wire for a server. Throws `invalid_config` for an invalid base URL. */
export function openaiBatches(
  settings: ProviderSettings,
  known: OpenaiServer,
  given: BatchSettings = {},
): BatchWire {
  const server: OpenaiServer = {
    ...known,
    limits: { ...known.limits, ...limitsIn(given) },
    firstLine: given.firstLine ?? known.firstLine,
    fileExpiryMs: given.fileExpiryMs ?? known.fileExpiryMs,
  };
  const window =
    given.completionWindow ?? known.window ?? `${Math.ceil(server.limits.windowMs / 3_600_000)}h`;
  const requests = bearerRequests(settings);
  const batchPath = (id: string): string => `/batches/${modelPath(id)}`;
  return {
    settings,
    limits: server.limits,
    traits: { ...TRAITS, endpoints: known.endpoints, takes: known.takes },
    line: (id, body, { endpoint }) => requestLine(id, lineMembers(endpoint), body),
    lineOverheadBytes: ({ endpoint }, characters) => lineOverhead(lineMembers(endpoint), characters),
    upload: (payload) => uploadStep(requests, server, payload),
    findFile: (payload) => ({
      request: requests.get("/files", { purpose: "batch", ...server.filesQuery }),
      read: (answer) => foundFile(answer, payload),
    }),
    create: (payload, file) => requests.post("/batches", creation(payload, file, window, server)),
    read: (answer, what = "create") => {
      const batch = remoteBatch(successOf(answer), requests, server);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get: (id) => requests.get(batchPath(id)),
    cancel: (id) => requests.post(`${batchPath(id)}/cancel`),
    list: () => listed(requests, server),
    readPage: (answer, { sinceWallMs }, asked) => {
      const page = readPage(answer, sinceWallMs, requests, server);
      // A server without pages that says that there are more would be asked for ever.
      return page.ok && page.next !== undefined && page.next.path === asked?.path
        ? { ...page, next: undefined }
        : page;
    },
    result: resultOf,
    remove: ({ files }) => removals(requests, files),
  };
}

function lineMembers(endpoint: BatchEndpoint): string {
  return `"method":"POST","url":"${ENDPOINT_PATHS[endpoint]}",`;
}

function creation(
  { tag, endpoint }: BatchPayload,
  file: string | undefined,
  window: string,
  { expiresOutputs, limits }: OpenaiServer,
): object {
  return {
    input_file_id: file,
    endpoint: ENDPOINT_PATHS[endpoint],
    completion_window: window,
    metadata: { [TAG_KEY]: tag },
    ...(expiresOutputs
      ? { output_expires_after: { anchor: "created_at", seconds: secondsOf(limits.keptMs) } }
      : {}),
  };
}

function secondsOf(expiryMs: number): number {
  return Math.ceil(Math.min(expiryMs, EXPIRY_MS_MAX) / 1_000);
}

function uploadStep(requests: BearerRequests, server: OpenaiServer, payload: BatchPayload): UploadStep {
  const { fileExpiryMs, limits } = server;
  // A file must outlive its batch, which may begin late.
  const expiryMs = Math.max(fileExpiryMs, limits.windowMs + 86_400_000);
  const expiry = {
    "expires_after[anchor]": "created_at",
    "expires_after[seconds]": String(secondsOf(expiryMs)),
  };
  const fields = { purpose: "batch", ...(fileExpiryMs > 0 ? expiry : {}) };
  return {
    request: requests.upload("/files", fields, fileName(payload)),
    read: (answer) => readFile(answer, requests),
  };
}

/** A file from the answer to its upload, or the step that asks for it again. */
function readFile(
  answer: WireAnswer,
  requests: BearerRequests,
): UploadedFile | BatchFailure | { readonly ok: true; readonly next: UploadStep } {
  const file = successOf(answer);
  const id = idOf(file?.["id"]);
  if (file === undefined || id === undefined) return failureOf(answer, "other");
  const unready = unreadyFile(file, answer.status);
  if (unready === undefined) return { ok: true, file: id };
  if (unready.is === "permanent") return unready;
  const request = requests.get(`/files/${modelPath(id)}`);
  const read = (again: WireAnswer): UploadedFile | BatchFailure => {
    const shown = successOf(again);
    if (shown === undefined || idOf(shown["id"]) !== id) return failureOf(again, "other");
    return unreadyFile(shown, again.status) ?? { ok: true, file: id };
  };
  return { ok: true, next: { request, read } };
}

/** Why a batch cannot be made from a file: not yet, or never. */
function unreadyFile(file: Unchecked, status: number): BatchFailure | undefined {
  const state = stateOf(file["status"]);
  if (PENDING.has(state)) {
    const message = "the provider has not processed the uploaded file yet";
    return { ok: false, is: "refused", message, status, retryAfterMs: FILE_WAIT_MS };
  }
  if (!BROKEN.has(state)) return undefined;
  return { ok: false, is: "permanent", message: "the provider could not process the uploaded file", status };
}

function foundFile(
  answer: WireAnswer,
  payload: BatchPayload,
): (Partial<UploadedFile> & { readonly ok: true }) | BatchFailure {
  const files = arrayOf(successOf(answer)?.["data"]);
  if (files === undefined) return failureOf(answer, "other");
  const found = fileOf(payload, files);
  const id = idOf(found?.["id"]);
  if (found === undefined || id === undefined) return { ok: true };
  const unready = unreadyFile(found, answer.status);
  if (unready === undefined) return { ok: true, file: id };
  return unready.is === "permanent" ? { ok: true } : unready;
}

function listed(requests: BearerRequests, { pageItems }: OpenaiServer, after?: string): BatchRequest {
  if (pageItems === undefined) return requests.get("/batches");
  return requests.get("/batches", {
    limit: String(pageItems),
    ...(after === undefined ? {} : { after }),
  });
}

function readPage(
  answer: WireAnswer,
  sinceWallMs: number,
  requests: BearerRequests,
  server: OpenaiServer,
): BatchPage | BatchFailure {
  const page = successOf(answer);
  const elements = arrayOf(page?.["data"]);
  if (page === undefined || elements === undefined) return failureOf(answer, "other");
  const batches = elements
    .map((element) => remoteBatch(objectOf(element), requests, server))
    .filter((batch) => batch !== undefined);
  const last = idOf(page["last_id"]) ?? batches.at(-1)?.id;
  const hasMore = page["has_more"] === true && server.pageItems !== undefined && last !== undefined;
  const next = hasMore && !isBefore(batches, sinceWallMs) ? listed(requests, server, last) : undefined;
  return { ok: true, batches, next };
}

/** Whether a page shows that all after it are older than a time: it is sorted, newest first, and ends before it. */
function isBefore(batches: readonly RemoteBatch[], wallMs: number): boolean {
  const times = batches.map(({ createdWallMs }) => createdWallMs ?? Number.NaN);
  const isSorted = times.every((time, index) => index === 0 || time <= (times[index - 1] ?? Number.NaN));
  const [newest] = times;
  const oldest = times.at(-1);
  if (!isSorted || newest === undefined || oldest === undefined) return false;
  return oldest < wallMs && oldest < newest;
}

function remoteBatch(
  batch: Unchecked | undefined,
  requests: BearerRequests,
  { firstLine }: OpenaiServer,
): RemoteBatch | undefined {
  const id = idOf(batch?.["id"]);
  if (batch === undefined || id === undefined) return undefined;
  const state = stateOf(batch["status"]);
  const end = ENDS.get(state);
  const counts = objectOf(batch["request_counts"]);
  const outputs = idsOf(batch["output_file_id"], batch["error_file_id"]);
  const inputFile = idOf(batch["input_file_id"]);
  return {
    id,
    rawState: stringOf(batch["status"]) ?? "",
    end,
    isCancelling: state === "cancelling" || state === "canceling",
    counts: countsOf(counts?.["total"], counts?.["completed"], counts?.["failed"]),
    tag: stringOf(objectOf(batch["metadata"])?.[TAG_KEY]),
    ...(inputFile === undefined ? {} : { inputFile }),
    createdWallMs: wallMsOf(batch["created_at"]),
    expiresWallMs: wallMsOf(batch["expires_at"]),
    faults: (arrayOf(objectOf(batch["errors"])?.["data"]) ?? []).map((error) => faultIn(error, firstLine)),
    // Files of a batch that has not ended would be cut off.
    results: end === undefined ? [] : outputs.map((file) => resultSource(requests, file)),
    files: idsOf(inputFile, ...outputs),
  };
}

/** A model that takes no batches is reported with the first line, though it is that of all lines. */
const MODEL_CODES: ReadonlySet<string> = new Set(["model_not_found", "invalid_model"]);

function faultIn(error: unknown, firstLine: 0 | 1): BatchFault {
  const stated = objectOf(error)?.["line"];
  const line = Number.isSafeInteger(stated) ? (stated as number) - firstLine : -1; // a number by its test
  const isOfAll = errorFacts(error).codes.some((code) => MODEL_CODES.has(code));
  return line < 0 || isOfAll ? faultOf(error) : faultOf(error, line);
}
