/**
 * The wire of Mistral's batch jobs.
 *
 *   upload    POST /files                  multipart, purpose=batch, perigee-<tag>.jsonl; lines of custom_id and body
 *   create    POST /batch/jobs             the model, timeout_hours, the tag as metadata
 *   get       GET /batch/jobs/{id}         QUEUED -> RUNNING -> SUCCESS | FAILED | TIMEOUT_EXCEEDED
 *                                          CANCELLATION_REQUESTED -> CANCELLED
 *   list      GET /batch/jobs              filtered by metadata and time, pages by number
 *   results   GET /files/{id}/content      of `output_file` and `error_file`
 *
 * Read in @mistralai/mistralai 2.7.0. The SDK writes each member of the `metadata` filter as a parameter of its own; a server that does
 * not read it shows all jobs, and the tag is compared here all the same.
 *
 * Limits: 1,000,000 requests a job is documented; bytes of a file, the longest timeout and how long results are kept are not, so they
 * are defaults (512 MB is what the SDK says of files). The errors of a failed job name no lines.
 */
import { modelPath } from "../address.ts";
import { arrayOf, objectOf, stringOf, type Unchecked } from "../json.ts";
import type { ProviderSettings } from "../provider.ts";
import { ENDPOINT_PATHS } from "./batch_endpoints.ts";
import { failureOf, faultOf } from "./batch_failure.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchEnd,
  BatchLimits,
  BatchPage,
  BatchPayload,
  BatchRequest,
  BatchSearch,
  BatchTraits,
  BatchWire,
  RemoteBatch,
} from "./batch_wire.ts";
import { type BearerRequests, bearerRequests } from "./bearer_requests.ts";
import { lineOverhead, requestLine, resultOf } from "./jsonl_lines.ts";
import { countsOf, idOf, idsOf, stateOf, successOf, TAG_KEY, wallMsOf } from "./remote_batch.ts";
import { fileName, fileOf, removals, resultSource } from "./remote_files.ts";

const HOUR_MS = 3_600_000;
const PAGE_ITEMS = 100;

const LIMITS: BatchLimits = {
  itemsMax: 1_000_000,
  bytesMax: 512_000_000,
  windowMs: 24 * HOUR_MS,
  keptMs: 30 * 24 * HOUR_MS,
};

const TRAITS: BatchTraits = {
  endpoints: ["chat", "embeddings", "moderations"],
  tag: "metadata",
  canCancel: true,
  keepsOnCancel: true,
  showsFinished: false,
  showsProgress: true,
  mixesModels: false,
  takes: { tools: true, images: true, schemas: true },
};

const ENDS: ReadonlyMap<string, BatchEnd> = new Map<string, BatchEnd>([
  ["success", "completed"],
  ["failed", "failed"],
  ["timeout_exceeded", "expired"],
  ["cancelled", "cancelled"],
  ["canceled", "cancelled"],
]);

/** The wire for Mistral. Throws `invalid_config` for an invalid base URL. */
export function mistralBatches(settings: ProviderSettings, given: BatchSettings = {}): BatchWire {
  const limits = { ...LIMITS, ...limitsIn(given) };
  const requests = bearerRequests(settings);
  const jobPath = (id: string): string => `/batch/jobs/${modelPath(id)}`;
  return {
    settings,
    limits,
    traits: TRAITS,
    line: (id, body) => requestLine(id, "", body),
    lineOverheadBytes: (_, characters) => lineOverhead("", characters),
    upload: (payload) => ({
      request: requests.upload("/files", { purpose: "batch" }, fileName(payload)),
      read: (answer) => {
        const file = idOf(successOf(answer)?.["id"]);
        return file === undefined ? failureOf(answer, "other") : { ok: true, file };
      },
    }),
    findFile: (payload) => ({
      request: requests.get("/files", { purpose: "batch", search: fileName(payload) }),
      read: (answer) => {
        const files = arrayOf(successOf(answer)?.["data"]);
        if (files === undefined) return failureOf(answer, "other");
        const file = idOf(fileOf(payload, files)?.["id"]);
        return file === undefined ? { ok: true } : { ok: true, file };
      },
    }),
    create: (payload, file) => requests.post("/batch/jobs", creation(payload, file, limits)),
    read: (answer, what = "create") => {
      const batch = remoteBatch(successOf(answer), requests);
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get: (id) => requests.get(jobPath(id)),
    cancel: (id) => requests.post(`${jobPath(id)}/cancel`),
    list: (search) => listed(requests, search, 0),
    readPage: (answer, search, asked) => {
      const elements = arrayOf(successOf(answer)?.["data"]);
      if (elements === undefined) return failureOf(answer, "other");
      return pageOf(elements, requests, search, asked);
    },
    result: resultOf,
    remove: ({ id, files }) => [...removals(requests, files), requests.remove(jobPath(id))],
  };
}

function creation(
  { model, endpoint, tag }: BatchPayload,
  file: string | undefined,
  { windowMs }: BatchLimits,
): object {
  return {
    input_files: [file],
    endpoint: ENDPOINT_PATHS[endpoint],
    model,
    metadata: { [TAG_KEY]: tag },
    timeout_hours: Math.ceil(windowMs / HOUR_MS),
  };
}

function listed(
  requests: BearerRequests,
  { payload, sinceWallMs }: BatchSearch,
  pageNumber: number,
): BatchRequest {
  return requests.get("/batch/jobs", {
    page: String(pageNumber),
    page_size: String(PAGE_ITEMS),
    created_after: new Date(Math.min(Math.max(sinceWallMs, 0), WALL_MS_MAX)).toISOString(),
    [TAG_KEY]: payload.tag,
  });
}

/** The last time that a date holds: 275760-09-13. */
const WALL_MS_MAX = 8_640_000_000_000_000;

function pageOf(
  elements: readonly unknown[],
  requests: BearerRequests,
  search: BatchSearch,
  asked: BatchRequest | undefined,
): BatchPage {
  const pageNumber = Number(new URL(asked?.path ?? "/", "http://localhost").searchParams.get("page") ?? 0);
  const batches = elements
    .map((element) => remoteBatch(objectOf(element), requests))
    .filter((batch) => batch !== undefined);
  const isLast = elements.length < PAGE_ITEMS;
  return { ok: true, batches, next: isLast ? undefined : listed(requests, search, pageNumber + 1) };
}

function remoteBatch(job: Unchecked | undefined, requests: BearerRequests): RemoteBatch | undefined {
  const id = idOf(job?.["id"]);
  if (job === undefined || id === undefined) return undefined;
  const state = stateOf(job["status"]);
  const end = ENDS.get(state);
  const outputs = idsOf(job["output_file"], job["error_file"]);
  const [inputFile, ...more] = idsOf(...(arrayOf(job["input_files"]) ?? []));
  return {
    id,
    rawState: stringOf(job["status"]) ?? "",
    end,
    isCancelling: state === "cancellation_requested",
    counts: countsOf(job["total_requests"], job["succeeded_requests"], job["failed_requests"]),
    tag: stringOf(objectOf(job["metadata"])?.[TAG_KEY]),
    ...(inputFile === undefined || more.length > 0 ? {} : { inputFile }), // ours is made of one
    createdWallMs: wallMsOf(job["created_at"]),
    expiresWallMs: undefined,
    // A job that ran sums up the errors of its requests there; they are in its files.
    faults: end === "failed" ? (arrayOf(job["errors"]) ?? []).map((error) => faultOf(error)) : [],
    results: end === undefined ? [] : outputs.map((file) => resultSource(requests, file)),
    files: idsOf(inputFile, ...more, ...outputs),
  };
}
