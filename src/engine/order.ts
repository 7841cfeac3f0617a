/**
 * Order: answers that came in any order, written in the order of the input, once all are there.
 *
 * The journal tells where each line's answer stands. It is read once for every window of lines, so that memory is
 * bounded whatever the size: 16 bytes a line of the window. The file is written beside its place and renamed.
 */
import type { DiskFile } from "../disk.ts";
import { readStep } from "./journal.ts";
import type { OutputFile } from "./output.ts";
import type { EngineParts } from "./parts.ts";

const WINDOW_LINES = 1_000_000;
const WRITE_BYTES = 1024 * 1024;

/**
 * Writes `answers` to `out`, line after line; safe to begin again after a crash. Waits for a disk that is full, until
 * the signal aborts.
 */
export async function putInOrder(
  parts: Pick<EngineParts, "disk" | "store" | "room">,
  taskId: string,
  answers: OutputFile,
  out: string,
  signal: AbortSignal,
): Promise<void> {
  const { disk, room } = parts;
  const part = `${out}.part`;
  await disk.remove(part);
  const file = await room.waitFor(() => disk.open(part, "write"), { signal });
  const write: Write = (bytes, position) => room.waitFor(() => file.write(bytes, position), { signal });
  try {
    let position = 0;
    for (let first = 1; ; first += WINDOW_LINES) {
      const window = await readWindow(parts, taskId, first);
      position = await writeWindow(window, answers, write, position);
      if (window.isLast) break;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(part, out);
}

type Write = DiskFile["write"];

interface Window {
  readonly starts: Float64Array;
  /** 0 where a line has no answer (it is blank). */
  readonly lengths: Uint32Array;
  readonly isLast: boolean;
}

async function readWindow(parts: Pick<EngineParts, "store">, taskId: string, first: number): Promise<Window> {
  const starts = new Float64Array(WINDOW_LINES);
  const lengths = new Uint32Array(WINDOW_LINES);
  let highest = 0;
  let held: { line: number; lineBytes: number }[] = [];
  let released: typeof held = []; // by the last step that wrote anything
  for await (const entry of parts.store.journal(taskId)) {
    const step = readStep(entry.records);
    let start = step.outStart;
    const isReleased = step.voids < 0;
    if (step.voids > 0) held = [...released, ...held];
    if (step.voids > 0 || step.outEnd > step.outStart) released = isReleased ? held : [];
    const written = isReleased ? held : step.held.byteLength > 0 ? [] : step.outcomes;
    if (step.held.byteLength > 0) held = [...(isReleased ? [] : held), ...step.outcomes];
    else if (isReleased) held = [];
    for (const { line, lineBytes } of written) {
      highest = Math.max(highest, line);
      if (line >= first && line < first + WINDOW_LINES) {
        starts[line - first] = start;
        lengths[line - first] = lineBytes;
      }
      start += lineBytes;
    }
  }
  return { starts, lengths, isLast: highest < first + WINDOW_LINES };
}

async function writeWindow(window: Window, answers: OutputFile, write: Write, from: number): Promise<number> {
  let position = from;
  let staged: Uint8Array[] = [];
  let stagedBytes = 0;
  const flush = async (): Promise<void> => {
    await write(Buffer.concat(staged), position);
    position += stagedBytes;
    staged = [];
    stagedBytes = 0;
  };
  for (let index = 0; index < window.lengths.length; index += 1) {
    const length = window.lengths[index] as number;
    if (length === 0) continue;
    const start = window.starts[index] as number;
    staged.push(await answers.read(start, start + length));
    stagedBytes += length;
    if (stagedBytes >= WRITE_BYTES) await flush();
  }
  await flush();
  return position;
}
