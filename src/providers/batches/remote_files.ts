/**
 * The files of batches at a provider: what ours are called, which of those that are listed is ours, and how they are read and deleted.
 */
import { modelPath } from "../address.ts";
import { countOf, objectOf, type Unchecked } from "../json.ts";
import type { BatchPayload, BatchRequest, ResultSource } from "./batch_wire.ts";
import type { BearerRequests } from "./bearer_requests.ts";

/** The name of the file of a payload. */
export function fileName(payload: Pick<BatchPayload, "tag">): string {
  return `perigee-${payload.tag}.jsonl`;
}

/** Of listed files the one of the payload, whole. */
export function fileOf(payload: BatchPayload, files: readonly unknown[]): Unchecked | undefined {
  const name = fileName(payload);
  return files
    .map(objectOf)
    .find(
      (file) => file?.["filename"] === name && (countOf(file["bytes"]) ?? payload.bytes) === payload.bytes,
    );
}

/** A file of results, one a line. */
export function resultSource(requests: BearerRequests, file: string): ResultSource {
  return { request: requests.content(`/files/${modelPath(file)}/content`), format: "lines" };
}

/** One request a file. */
export function removals(requests: BearerRequests, files: readonly string[]): readonly BatchRequest[] {
  return files.map((file) => requests.remove(`/files/${modelPath(file)}`));
}
