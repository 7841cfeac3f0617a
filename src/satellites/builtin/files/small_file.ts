/**
 * A file of the project that is wanted whole, up to a bound.
 */
import { hasCode } from "../../../errors.ts";
import type { FileView } from "../../../tasks/files/files.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";

/** Throws `SatelliteError`, permanent: `file_not_found`, `file_too_large`. */
export async function readSmallFile(
  call: Pick<SatelliteCall, "files" | "project">,
  id: string,
  bytesMax: number,
): Promise<{ readonly bytes: Uint8Array; readonly mimeType: string }> {
  const { bytes, mimeType } = await fileView(call, id);
  if (bytes > bytesMax)
    throw new SatelliteError(
      "permanent",
      "file_too_large",
      `the file has ${bytes} bytes, and ${bytesMax} are taken`,
    );
  const chunks: Uint8Array[] = [];
  for await (const chunk of call.files.read(call.project, id)) chunks.push(chunk);
  return { bytes: Buffer.concat(chunks), mimeType };
}

/** Throws `SatelliteError`, permanent: `file_not_found`. */
export async function fileView(
  { files, project }: Pick<SatelliteCall, "files" | "project">,
  id: string,
): Promise<FileView> {
  try {
    return await files.file(project, id);
  } catch (error) {
    throw fileFault(error);
  }
}

/** What the file store throws: `file_not_found`, permanent, where there is no such file; all else stays what it is. */
export function fileFault(error: unknown): unknown {
  return hasCode(error, "not_found")
    ? new SatelliteError("permanent", "file_not_found", "there is no file with that id", { cause: error })
    : error;
}
