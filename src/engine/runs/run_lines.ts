/**
 * Following an output: yields its lines as they become durable, from the first on. The file is the buffer, so a slow
 * reader costs no memory.
 */
import type { Disk } from "../../disk.ts";
import { parseOutputLine } from "../../jsonl/write.ts";
import { type ResultLine, resultOf } from "../../work/item.ts";

const CHUNK_BYTES = 256 * 1024;

/** The place of the answers so far; `change` resolves when there are more. */
export interface Answers {
  readonly path: string;
  readonly end: number;
  readonly change?: Promise<void>;
}

/** Ends when `finished` has settled and all lines were yielded; a rejection of `finished` is the caller's to throw. */
export async function* followLines(
  disk: Disk,
  finished: Promise<unknown>,
  answers: () => Answers | undefined,
): AsyncGenerator<ResultLine> {
  let isOver = false;
  const over = finished.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  let position = 0;
  let rest = Buffer.alloc(0);
  for (;;) {
    const wasOver = isOver;
    const now = answers();
    const chunk = now === undefined ? undefined : await readChunk(disk, now.path, position, now.end);
    if (chunk !== undefined && chunk.byteLength > 0) {
      position += chunk.byteLength;
      const text = Buffer.concat([rest, chunk]);
      const whole = text.lastIndexOf(0x0a) + 1;
      rest = text.subarray(whole);
      for (const line of text.subarray(0, whole).toString().split("\n")) {
        if (line !== "") yield resultOf(parseOutputLine(line));
      }
    } else if (wasOver) {
      return;
    } else {
      await Promise.race([over, now?.change ?? over]);
    }
  }
}

async function readChunk(disk: Disk, path: string, position: number, end: number): Promise<Buffer> {
  if (position >= end || (await disk.stat(path)) === undefined) return Buffer.alloc(0);
  const file = await disk.open(path, "read");
  try {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, end - position));
    return chunk.subarray(0, await file.read(chunk, position));
  } finally {
    await file.close();
  }
}
