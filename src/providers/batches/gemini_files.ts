/**
 * Gemini's files as batches need them: uploaded in two steps, found again by the name that is shown, downloaded. Source: @google/genai
 * 2.32 and ai.google.dev/api/files.
 *
 *   POST {base}/upload/{version}/files    start: what is coming; the answer names the address for the bytes in `x-goog-upload-url`
 *   POST that address                     upload, finalize: the bytes; the answer names the file
 *   GET  {base}/download/{version}/{file}:download?alt=media
 *
 * Limits: the bytes are sent in one piece; an upload that breaks is begun again, which costs nothing. Files are deleted after 48 h, so
 * the newest page of them is the only one that is searched.
 */
import { arrayOf, objectOf, stringOf } from "../json.ts";
import type { WireAnswer } from "../provider.ts";
import { failureOf } from "./batch_failure.ts";
import { type BatchHost, jsonBody, remoteId } from "./batch_host.ts";
import type { BatchFailure, BatchPayload, BatchRequest, UploadedFile, UploadStep } from "./batch_wire.ts";
import { successOf } from "./remote_batch.ts";

const MIME_TYPE = "application/jsonl";
const PAGE_FILES = "100";

/** Requests for files. */
interface GeminiFiles {
  upload(payload: BatchPayload): UploadStep;
  find(payload: BatchPayload): {
    readonly request: BatchRequest;
    read(answer: WireAnswer): (Partial<UploadedFile> & { readonly ok: true }) | BatchFailure;
  };
  /** `file`: as `files/abc`. */
  download(file: string): BatchRequest;
}

/** `base`: the path with the version at its end. */
export function geminiFiles(host: BatchHost, base: string): GeminiFiles {
  const slash = base.lastIndexOf("/");
  const ofKind = (kind: string): string => `${base.slice(0, slash)}/${kind}${base.slice(slash)}`;
  return {
    upload: (payload) => ({
      request: host.request("POST", `${ofKind("upload")}/files`, {
        headers: {
          "x-goog-upload-protocol": "resumable",
          "x-goog-upload-command": "start",
          "x-goog-upload-header-content-length": String(payload.bytes),
          "x-goog-upload-header-content-type": MIME_TYPE,
        },
        body: jsonBody({
          file: { displayName: payload.tag, mimeType: MIME_TYPE, sizeBytes: String(payload.bytes) },
        }),
      }),
      read: (answer) => bytesStep(answer, host),
    }),
    find: ({ tag }) => ({
      request: host.request("GET", `${base}/files`, { query: { pageSize: PAGE_FILES } }),
      read: (answer) => {
        const body = successOf(answer);
        if (body === undefined || (body["error"] ?? undefined) !== undefined)
          return failureOf(answer, "other");
        const found = (arrayOf(body["files"]) ?? [])
          .map(objectOf)
          .find((file) => file?.["displayName"] === tag && file["state"] !== "FAILED");
        const file = remoteId(found?.["name"]);
        return file === undefined ? { ok: true } : { ok: true, file };
      },
    }),
    download: (file) =>
      host.request("GET", `${ofKind("download")}/${file}:download`, { query: { alt: "media" } }),
  };
}

function bytesStep(answer: WireAnswer, host: BatchHost): ReturnType<UploadStep["read"]> {
  const isSuccess = answer.status >= 200 && answer.status <= 299;
  const address = isSuccess ? stringOf(answer.headers["x-goog-upload-url"]) : undefined;
  if (address === undefined) return failureOf(answer, "other");
  const request = host.named("POST", address, {
    headers: {
      "content-type": MIME_TYPE,
      "x-goog-upload-command": "upload, finalize",
      "x-goog-upload-offset": "0",
    },
    body: { kind: "lines", before: "", separator: "\n", after: "" },
  });
  if (request === undefined) {
    const message = "the provider named an address for the upload that is not https; expected https://...";
    return { ok: false, is: "permanent", message, status: answer.status };
  }
  return { ok: true, next: { request, read: uploaded } };
}

function uploaded(answer: WireAnswer): UploadedFile | BatchFailure {
  const file = remoteId(objectOf(successOf(answer)?.["file"])?.["name"]);
  return file === undefined ? failureOf(answer, "other") : { ok: true, file };
}
