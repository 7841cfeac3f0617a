/**
 * The wire of Together's batches.
 *
 *   upload    POST /files?file_name&file_type=jsonl&purpose=batch-api   302: `location`, a signed URL, and `x-together-file-id`
 *             PUT {location}                                            the lines, without the key
 *   create    POST /batches              -> {job, warning}
 *   get       GET /batches/{id}          VALIDATING -> IN_PROGRESS -> COMPLETED | FAILED | EXPIRED | CANCELLED
 *   list      GET /batches               an array of all, without pages
 *   results   GET /files/{id}/content    of the output file and of the error file
 *
 * Read in together-ai 0.52.0. There is no metadata and no count of requests: a batch is told by the file that it was made from, and its
 * progress is a percentage.
 *
 * Limits: 50,000 requests, 100 MB and 30 billion enqueued tokens a model are documented; how long results are kept is not. Lines are
 * custom_id and body, as the documentation has them.
 */
import { modelPath } from "../address.ts";
import { arrayOf, objectOf, parseJson, stringOf, type Unchecked } from "../json.ts";
import type { ProviderSettings, WireAnswer } from "../provider.ts";
import { ENDPOINT_PATHS } from "./batch_endpoints.ts";
import { failureOf, faultOf } from "./batch_failure.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchEnd,
  BatchFailure,
  BatchLimits,
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
import { idOf, idsOf, stateOf, successOf, wallMsOf } from "./remote_batch.ts";
import { fileName, fileOf, removals, resultSource } from "./remote_files.ts";

const DAY_MS = 86_400_000;

const LIMITS: BatchLimits = {
  itemsMax: 50_000,
  bytesMax: 100_000_000,
  enqueuedTokensMax: 30_000_000_000,
  windowMs: DAY_MS,
  keptMs: 30 * DAY_MS,
};

const TRAITS: BatchTraits = {
  endpoints: ["chat"],
  tag: "ids",
  canCancel: true,
  keepsOnCancel: true,
  showsFinished: false,
  showsProgress: true,
  mixesModels: false,
  takes: { tools: true, images: true, schemas: true },
};

const ENDS: ReadonlyMap<string, BatchEnd> = new Map<string, BatchEnd>([
  ["completed", "completed"],
  ["failed", "failed"],
  ["expired", "expired"],
  ["cancelled", "cancelled"],
  ["canceled", "cancelled"],
]);

/** The wire for Together. Throws `invalid_config` for an invalid base URL. */
export function togetherBatches(settings: ProviderSettings, given: BatchSettings = {}): BatchWire {
  const requests = bearerRequests(settings);
  const window = given.completionWindow ?? "24h";
  const batchPath = (id: string): string => `/batches/${modelPath(id)}`;
  return {
    settings,
    limits: { ...LIMITS, ...limitsIn(given) },
    traits: TRAITS,
    line: (id, body) => requestLine(id, "", body),
    lineOverheadBytes: (_, characters) => lineOverhead("", characters),
    upload: (payload) => uploadStep(requests, payload),
    findFile: (payload) => ({
      request: requests.get("/files"),
      read: (answer) => foundFile(answer, payload),
    }),
    create: ({ endpoint }, file) =>
      requests.post("/batches", {
        input_file_id: file,
        endpoint: ENDPOINT_PATHS[endpoint],
        completion_window: window,
      }),
    read: (answer, what = "create") => {
      const shown = successOf(answer);
      const batch = remoteBatch(objectOf(shown?.["job"]) ?? shown, requests);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get: (id) => requests.get(batchPath(id)),
    cancel: (id) => requests.post(`${batchPath(id)}/cancel`),
    list: () => requests.get("/batches"),
    readPage: (answer) => {
      const elements = listIn(answer);
      if (elements === undefined) return failureOf(answer, "other");
      const batches = elements
        .map((element) => remoteBatch(objectOf(element), requests))
        .filter((batch) => batch !== undefined);
      return { ok: true, batches, next: undefined };
    },
    result: resultOf,
    remove: ({ files }) => removals(requests, files),
  };
}

/** The array of a success, plain or as `data`. */
function listIn(answer: WireAnswer): readonly unknown[] | undefined {
  if (answer.status < 200 || answer.status > 299) return undefined;
  const list = parseJson(answer.body);
  return arrayOf(list) ?? arrayOf(objectOf(list)?.["data"]);
}

function uploadStep(requests: BearerRequests, payload: BatchPayload): UploadStep {
  const query = { file_name: fileName(payload), file_type: "jsonl", purpose: "batch-api" };
  const made = requests.post("/files", undefined, query);
  const headers = { ...made.headers, "content-type": "application/x-www-form-urlencoded" };
  const bytes = Buffer.from(String(new URLSearchParams(query))); // both, as the SDK sends it
  const request: BatchRequest = { ...made, headers, body: { kind: "bytes", bytes } };
  return {
    request,
    read: (answer) => {
      const file = idOf(answer.headers["x-together-file-id"]);
      const place = placeOf(answer, request);
      if (file === undefined || place === undefined) {
        if (answer.status >= 400) return failureOf(answer, "other");
        const message = `the provider answered ${answer.status} without a place for the file`;
        return { ok: false, is: "permanent", message, status: answer.status };
      }
      return { ok: true, next: { request: place, read: (stored) => readStored(stored, file) } };
    },
  };
}

/** The request that stores the lines; none for a place that is less safe than the provider's own. */
function placeOf({ status, headers }: WireAnswer, { origin, path }: BatchRequest): BatchRequest | undefined {
  const location = headers["location"];
  const base = `${origin}${path}`;
  if (status < 300 || status > 399 || location === undefined || !URL.canParse(location, base))
    return undefined;
  const url = new URL(location, base);
  if (url.protocol !== "https:" && url.protocol !== new URL(origin).protocol) return undefined;
  return {
    method: "PUT",
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    headers: { "content-type": "application/octet-stream" },
    body: { kind: "lines", before: "", separator: "\n", after: "" },
  };
}

/** The store is another's, so what it refuses says nothing of the account: its URL is not valid any more. */
function readStored(answer: WireAnswer, file: string): UploadedFile | BatchFailure {
  const { status } = answer;
  if (status >= 200 && status <= 299) return { ok: true, file };
  const { is, ...failure } = failureOf(answer, "other");
  return { ...failure, is: is === "account" || is === "permanent" ? "gone" : is };
}

/** A place that was made for a file is listed before the file is in it. */
function foundFile(
  answer: WireAnswer,
  payload: BatchPayload,
): (Partial<UploadedFile> & { readonly ok: true }) | BatchFailure {
  const files = listIn(answer);
  if (files === undefined) return failureOf(answer, "other");
  const whole = files.filter((file) => objectOf(file)?.["Processed"] !== false);
  const file = idOf(fileOf(payload, whole)?.["id"]);
  return file === undefined ? { ok: true } : { ok: true, file };
}

function remoteBatch(job: Unchecked | undefined, requests: BearerRequests): RemoteBatch | undefined {
  const id = idOf(job?.["id"]);
  if (job === undefined || id === undefined) return undefined;
  const state = stateOf(job["status"]);
  const end = ENDS.get(state);
  const progress = job["progress"];
  const outputs = idsOf(job["output_file_id"], job["error_file_id"]);
  const inputFile = idOf(job["input_file_id"]);
  const error = job["error"] ?? "";
  return {
    id,
    rawState: stringOf(job["status"]) ?? "",
    end,
    isCancelling: state === "cancelling" || state === "canceling",
    counts: typeof progress === "number" && progress >= 0 && progress <= 100 ? { share: progress / 100 } : {},
    tag: undefined,
    ...(inputFile === undefined ? {} : { inputFile }),
    createdWallMs: wallMsOf(job["created_at"]),
    expiresWallMs: wallMsOf(job["job_deadline"]),
    faults: end === "failed" && error !== "" ? [faultOf(error)] : [],
    results: end === undefined ? [] : outputs.map((file) => resultSource(requests, file)),
    files: idsOf(inputFile, ...outputs),
  };
}
