/**
 * Files between satellites: a reference to one of the project's file store, and how a satellite keeps what it makes.
 *
 * Ids of kept files follow from the execution and a key of the satellite's own, so that an attempt that is repeated, also
 * after a crash, finds what the one before it kept and makes no second file.
 */
import { ifFound, PerigeeError } from "../../../errors.ts";
import { z } from "../../../schema.ts";
import type { FileView } from "../../../tasks/files/files.ts";
import { digestId } from "../../../work/derived_id.ts";
import type { JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";

/** What satellites pass each other of a file. */
export interface FileReference extends JsonObject {
  readonly file_id: string;
  readonly name: string;
  readonly bytes: number;
  readonly mime_type: string;
  /** Hexadecimal. */
  readonly sha256: string;
}

/** A reference as an input: its id says everything, other members are allowed. */
export const fileReference: z.ZodType<{ readonly file_id: string }> = z
  .looseObject({
    file_id: z.string().min(1).max(64).describe("Id of a file of the project."),
  })
  .describe("A file of the project: `{file_id}`, or a whole reference as satellites return it.");

/** A file as an input that may be only its id. Returns the id. */
export const fileIdOrReference: z.ZodType<string> = z.union([
  z.uuid(),
  z.looseObject({ file_id: z.uuid() }).transform((file) => file.file_id),
]);

/** A reference as an output. */
export const storedFile: z.ZodType<FileReference> = z.strictObject({
  file_id: z.string(),
  name: z.string(),
  bytes: z.number().int(),
  mime_type: z.string(),
  sha256: z.string(),
});

/** A file that a satellite makes. */
export interface KeptFile {
  readonly name: string;
  readonly mimeType: string;
  /** Read only when the file is not there yet. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

type Keeper = Pick<SatelliteCall, "executionId" | "project" | "files">;

/** What an output says of a file of the project. */
export function referenceOf({ id, name, bytes, mimeType, sha256 }: FileView): FileReference {
  return { file_id: id, name, bytes, mime_type: mimeType, sha256 };
}

/** Resolves with the file of this key, kept now or by an earlier attempt. */
export async function keepFile(call: Keeper, key: string, file: KeptFile): Promise<FileView> {
  const id = keptId(call, key);
  const existing = await findFile(call, id);
  if (existing !== undefined) return existing;
  return inFiles(
    call.files.put(call.project, { id, purpose: "user_data", ...file, name: nameOf(file.name) }),
  );
}

/** The file that `keepFile` kept under this key. */
export async function findKept(call: Keeper, key: string): Promise<FileView | undefined> {
  return findFile(call, keptId(call, key));
}

/** What the file store throws, as a failure of the attempt. */
export async function inFiles<T>(action: Promise<T>): Promise<T> {
  try {
    return await action;
  } catch (error) {
    if (!(error instanceof PerigeeError)) throw error;
    const { code, message } = error;
    if (code === "disk_full") throw new SatelliteError("refused", code, message, { cause: error });
    const isPermanent = code === "not_found" || code === "too_large" || code === "invalid_request";
    if (isPermanent) throw new SatelliteError("permanent", code, message, { cause: error });
    throw error;
  }
}

/** Undefined for an id that is not the project's. */
export function findFile({ project, files }: Keeper, id: string): Promise<FileView | undefined> {
  return ifFound(files.file(project, id));
}

function keptId({ project, executionId }: Keeper, key: string): string {
  return digestId(JSON.stringify([project, executionId, key]));
}

/** The last name of a path, without what names of files may not have, within 255 bytes with its ending. */
function nameOf(path: string): string {
  const last = (path.split("/").at(-1) ?? "").normalize("NFC");
  const plain = last.replace(
    /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}/\\\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu,
    "_",
  );
  if (plain === "" || plain === "." || plain === "..") return "file";
  const ending = /\.[^.]{1,16}$/u.exec(plain)?.[0] ?? "";
  let stem = plain.slice(0, plain.length - ending.length);
  while (Buffer.byteLength(`${stem}${ending}`) > 255) stem = [...stem].slice(0, -1).join("");
  return `${stem}${ending}`;
}
