/** Loads the segments of a file from the manifest. */
import { type FileRows, SEGMENT_PAGE } from "../file_rows.ts";
import { FileExtents, type FileLayer } from "./file_extents.ts";

export async function loadExtents(files: Pick<FileRows, "segments">, id: number): Promise<FileExtents> {
  const extents = new FileExtents();
  for (let after = 0; ; ) {
    const page = await files.segments(id, after);
    for (const { sequence, start, shownBytes, storedBytes, sums, object } of page) {
      const layer: FileLayer = {
        sequence,
        start,
        storedBytes,
        sums,
        object,
        bytes: undefined,
        shownBytes: 0,
      };
      if (shownBytes > 0) extents.put(start, start + shownBytes, layer);
    }
    if (page.length < SEGMENT_PAGE) return extents;
    after = page.at(-1)?.sequence ?? 0;
  }
}
