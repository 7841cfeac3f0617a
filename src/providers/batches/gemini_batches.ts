/**
 * Gemini's batches of the Developer API (`:batchGenerateContent`, `/batches`). Source: @google/genai 2.32 and ai.google.dev/api.
 *
 *   PENDING -> RUNNING -> SUCCEEDED | PARTIALLY_SUCCEEDED | FAILED | CANCELLED | EXPIRED
 *
 * The states are called `BATCH_STATE_*` by the server and `JOB_STATE_*` by Google's SDK: both are read. 64-bit counts are strings. What
 * a batch made is in `response` of its operation or in `metadata.output`. Small batches are sent in the body of the create and their
 * results are in the answer to a get; larger ones are uploaded as a file first, and their results are a file.
 *
 *   file      {"key":"...","request":{...}}                   {"key","response"} or {"key","error":{google.rpc.Status}}
 *   inline    {"metadata":{"key":"..."},"request":{...}}      {"metadata":{"key"},"response"} or {"metadata","error"}
 *
 * Creating twice makes two batches (documented); the name that is shown is the tag. SUCCEEDED may hold failed lines.
 *
 * Limits: 2 GB a file, 20 MB inline (documented); 100 open batches, 50,000 requests, results of 48 h: not documented for all accounts,
 * so they are to be configured where an account's differ.
 */
import { versionedPath, wireAddress } from "../address.ts";
import { GEMINI_VERSION, geminiProvider } from "../codecs/gemini.ts";
import { arrayOf, nameOf, objectOf, parseJson } from "../json.ts";
import type { ProviderSettings, WireAnswer } from "../provider.ts";
import { failureOf } from "./batch_failure.ts";
import { batchHost, jsonBody, remoteId } from "./batch_host.ts";
import { answered, answeredError, lineOf, nothingOf, tokenOf, unreadable } from "./batch_json.ts";
import { type BatchSettings, limitsIn } from "./batch_settings.ts";
import type {
  BatchBody,
  BatchLimits,
  BatchPayload,
  BatchResult,
  BatchTraits,
  BatchWire,
} from "./batch_wire.ts";
import { geminiFiles } from "./gemini_files.ts";
import { geminiBatch } from "./gemini_operation.ts";
import { successOf } from "./remote_batch.ts";
import { RPC_CANCELLED, rpcCodeOf, rpcHttpStatus } from "./rpc_status.ts";

const LIMITS: BatchLimits = {
  itemsMax: 50_000,
  bytesMax: 2_000_000_000,
  openMax: 100,
  windowMs: 48 * 3_600_000,
  keptMs: 48 * 3_600_000,
};
const TRAITS: BatchTraits = {
  endpoints: ["chat"],
  tag: "name",
  canCancel: true,
  keepsOnCancel: false,
  showsFinished: false,
  showsProgress: true,
  mixesModels: false,
  takes: { tools: true, images: true, schemas: true },
};
/** Of the 20 MB that a body may have: the rest is for what the server counts in another way. */
const INLINE_BYTES_MAX = 15_000_000;
const PAGE_BATCHES = "100";

/** The wire for settings of Gemini's protocol. */
export function geminiBatches(settings: ProviderSettings, given: BatchSettings = {}): BatchWire {
  const { inlineBytesMax = INLINE_BYTES_MAX, webhook } = given;
  const address = wireAddress(settings, settings.key === undefined ? {} : { "x-goog-api-key": settings.key });
  const host = batchHost(address);
  const base = versionedPath(address.path, settings.apiVersion ?? GEMINI_VERSION);
  const files = geminiFiles(host, base);
  const codec = geminiProvider(settings);
  const isInline = ({ bytes, items }: BatchPayload): boolean =>
    bytes + items * INLINE_LINE_BYTES <= inlineBytesMax;
  return {
    settings,
    limits: { ...LIMITS, ...limitsIn(given) },
    traits: TRAITS,
    line: (id, body) => lineOf(`${FILE_START}${id}${FILE_MIDDLE}`, body, "}"),
    lineOverheadBytes: (_, idCharacters) => INLINE_START.length + INLINE_MIDDLE.length + 2 + idCharacters,
    upload: (payload) => (isInline(payload) ? undefined : files.upload(payload)),
    findFile: files.find,
    create: (payload, file) => {
      const [path = ""] = codec.head(payload.model).path.split("?", 1);
      const body =
        file === undefined ? inlineBody(payload.tag, webhook) : fileBody(payload.tag, file, webhook);
      return host.request("POST", path.replace(/:generateContent$/, ":batchGenerateContent"), { body });
    },
    read: (answer, what = "create") => {
      const batch = geminiBatch(successOf(answer), files.download, (id) =>
        host.request("GET", `${base}/${id}`),
      );
      return batch === undefined ? failureOf(answer, what) : { ok: true, batch };
    },
    get: (id) => host.request("GET", `${base}/${id}`),
    cancel: (id) => host.request("POST", `${base}/${id}:cancel`, { body: jsonBody({}) }),
    list: () => host.request("GET", `${base}/batches`, { query: { pageSize: PAGE_BATCHES } }),
    readPage: (answer: WireAnswer) => {
      const body = successOf(answer);
      // A page without batches is an empty object.
      if (body === undefined || (body["error"] ?? undefined) !== undefined) return failureOf(answer, "other");
      const batches = (arrayOf(body["operations"]) ?? [])
        .map((value) =>
          geminiBatch(objectOf(value), files.download, (id) => host.request("GET", `${base}/${id}`)),
        )
        .filter((batch) => batch !== undefined);
      const token = tokenOf(body["nextPageToken"]);
      const query = { pageSize: PAGE_BATCHES, pageToken: token };
      const next = token === undefined ? undefined : host.request("GET", `${base}/batches`, { query });
      return { ok: true, batches, next };
    },
    result,
    remove: ({ id, files: names }) =>
      [id, ...names]
        .filter((name) => remoteId(name) !== undefined)
        .map((name) => host.request("DELETE", `${base}/${name}`)),
  };
}

const FILE_START = '{"key":"';
const FILE_MIDDLE = '","request":';
const INLINE_START = '{"metadata":{"key":"';
const INLINE_MIDDLE = '"},"request":';
/** What a line has more in a body than in a file. */
const INLINE_LINE_BYTES = INLINE_START.length + INLINE_MIDDLE.length - FILE_START.length - FILE_MIDDLE.length;

/** A line of a file as an element of a body; ids hold no quotes. */
function inlineLine(line: Uint8Array): Uint8Array {
  const end = line.indexOf(0x22, FILE_START.length);
  const id = new TextDecoder().decode(line.subarray(FILE_START.length, end));
  return lineOf(`${INLINE_START}${id}${INLINE_MIDDLE}`, line.subarray(end + FILE_MIDDLE.length), "");
}

function inlineBody(tag: string, webhook: BatchSettings["webhook"]): BatchBody {
  const config = webhook === undefined ? "" : `"webhookConfig":${JSON.stringify(webhook)},`;
  const before = `{"batch":{"displayName":${JSON.stringify(tag)},${config}"inputConfig":{"requests":{"requests":[`;
  return { kind: "lines", before, separator: ",", after: "]}}}}", rewritten: inlineLine };
}

function fileBody(tag: string, file: string, webhook: BatchSettings["webhook"]): BatchBody {
  const config = webhook === undefined ? {} : { webhookConfig: webhook };
  return jsonBody({ batch: { displayName: tag, inputConfig: { fileName: file }, ...config } });
}

function result(element: Uint8Array): BatchResult {
  const line = objectOf(parseJson(element));
  const id = nameOf(line?.["key"]) ?? nameOf(objectOf(line?.["metadata"])?.["key"]);
  if (line === undefined || id === undefined) return unreadable("expected an object with key");
  if (objectOf(line["response"]) !== undefined)
    return answered(id, 200, { element, line, path: ["response"] });
  if ((line["error"] ?? undefined) === undefined) return nothingOf(id);
  const error = objectOf(line["error"]);
  const code = error?.["code"] ?? error?.["status"];
  if (rpcCodeOf(code) === RPC_CANCELLED)
    return { is: "unfinished", id, code: "cancelled", message: "the batch ended before the request" };
  return answeredError(id, rpcHttpStatus(code) ?? rpcHttpStatus(error?.["status"]) ?? 500, {
    element,
    path: ["error"],
  });
}
