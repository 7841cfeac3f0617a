/**
 * Documents to parse: files of the project, or a URL, fetched through the egress guard.
 *
 * Limits: 64 MiB a document; three redirects, each checked as the first address; 60 s.
 */
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { mimeTypeOf } from "../files/mime_type.ts";
import { fileView } from "../files/small_file.ts";

/** A document that may not be there yet; `name` and type are what is claimed of it. */
export interface DocumentSource {
  readonly name: string;
  readonly mimeType: string;
  /** Reads it, once or again. */
  load(): Promise<Uint8Array>;
}

type Call = Pick<SatelliteCall, "files" | "project" | "http" | "signal">;

const DOCUMENT_BYTES_MAX = 64 * 1024 * 1024;
const FETCH_MS = 60_000;
const REDIRECTS_MAX = 3;

/** Throws `permanent` for a file that is not the project's, or too large. */
export async function projectDocument(call: Call, id: string): Promise<DocumentSource> {
  const { name, mimeType, bytes } = await fileView(call, id);
  if (bytes > DOCUMENT_BYTES_MAX) throw tooLarge();
  return {
    name,
    mimeType,
    load: async () => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of call.files.read(call.project, id)) {
        call.signal.throwIfAborted();
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    },
  };
}

/** Throws `SatelliteError` for what cannot be fetched. */
export async function fetchedDocument(call: Call, url: string): Promise<DocumentSource> {
  const { body, mimeType, name } = await fetchDocument(call, url, REDIRECTS_MAX);
  return { name, mimeType: mimeType ?? mimeTypeOf(name), load: async () => body };
}

interface Fetched {
  readonly body: Uint8Array;
  readonly mimeType: string | undefined;
  readonly name: string;
}

async function fetchDocument(call: Call, url: string, redirectsLeft: number): Promise<Fetched> {
  const answer = await call.http.request({
    url,
    method: "GET",
    headers: { accept: "*/*", "user-agent": "perigee" },
    timeoutMs: FETCH_MS,
    responseBytesMax: DOCUMENT_BYTES_MAX,
    signal: call.signal,
  });
  const { status, headers, body, isWhole } = answer;
  const location = headers["location"];
  if (status >= 300 && status < 400 && location !== undefined) {
    if (redirectsLeft === 0) throw failed("permanent", "it leads from one address to another too often");
    if (!URL.canParse(location, url)) throw failed("permanent", "it leads to no address");
    return fetchDocument(call, new URL(location, url).href, redirectsLeft - 1);
  }
  if (status === 429 || status >= 500) throw failed("refused", `it was answered with ${status}`);
  if (status !== 200) throw failed("permanent", `it was answered with ${status}`);
  if (!isWhole && body.byteLength >= DOCUMENT_BYTES_MAX) throw tooLarge();
  if (!isWhole) throw failed("ambiguous", "it arrived incomplete");
  return { body, mimeType: headers["content-type"], name: nameOfUrl(url) };
}

/** The last name of its path. */
export function nameOfUrl(url: string): string {
  const name = new URL(url).pathname.split("/").at(-1) ?? "";
  if (name === "") return "document";
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // no escapes of UTF-8
  }
}

function failed(failure: "permanent" | "refused" | "ambiguous", reason: string): SatelliteError {
  return new SatelliteError(failure, "fetch_failed", `the document could not be fetched: ${reason}`);
}

function tooLarge(): SatelliteError {
  const message = `a document has at most ${DOCUMENT_BYTES_MAX / 1024 / 1024} MiB`;
  return new SatelliteError("permanent", "document_too_large", message);
}
