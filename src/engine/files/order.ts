/**
 * Order: answers that arrived in any order, written in the order of the input, once all have arrived.
 *
 * The journal has the place of each line's answer. It is read once for every window of lines, so that memory is
 * bounded for any size: 16 bytes a line of the window. The file is written beside its place and renamed.
 *
 * Answers arrive nearly in order, so lines are taken from blocks of 256 KiB, of which the last 32 are kept: a read for each line
 * took 20 us of CPU.
 */
import type { DiskFile } from "../../disk.ts";
import { Checksum } from "../journal/checksum.ts";
import type { OutputFile } from "../journal/output.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { settledLines } from "./settled_lines.ts";
import type { TaskBody } from "./task_body.ts";

const WINDOW_LINES = 1_000_000;
/** A window begins with so many and grows: most inputs are small, and 12 MB for each of them keep the garbage collector busy. */
const LINES_MIN = 1_024;
const WRITE_BYTES = 1024 * 1024;
const BLOCK_BYTES = 256 * 1024;
const BLOCKS_KEPT = 32;

/**
 * Writes `answers` to `out`, line after line, and returns the checksum of what it wrote; safe to begin again after a crash. Waits for a disk that is full, until
 * the signal aborts.
 */
export async function putInOrder(
  storage: Pick<EngineStorage, "disk" | "store" | "room">,
  taskId: string,
  body: Pick<TaskBody, "out" | "restated">,
  answers: OutputFile,
  signal: AbortSignal,
): Promise<string> {
  const { disk, room } = storage;
  const { out } = body;
  const part = `${out}.part`;
  await disk.remove(part);
  const file = await room.waitFor(() => disk.open(part, "write"), { signal, path: part });
  const sum = new Checksum();
  const write: Write = async (bytes, position) => {
    await room.waitFor(() => file.write(bytes, position), { signal, path: part });
    sum.add(bytes);
  };
  try {
    let position = 0;
    const blocks = new RecentBlocks(answers);
    for (let first = 1; ; first += WINDOW_LINES) {
      const window = await readWindow(storage, taskId, body, first);
      position = await writeWindow(window, blocks, write, position);
      if (window.isLast) break;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(part, out);
  return String(sum);
}

type Write = DiskFile["write"];

interface Window {
  readonly starts: Float64Array;
  /** 0 where a line has no answer (it is blank). */
  readonly lengths: Uint32Array;
  /** How many of its lines the input has, at least: the last ones may be blank. */
  readonly lines: number;
  readonly isLast: boolean;
}

async function readWindow(
  storage: Pick<EngineStorage, "store">,
  taskId: string,
  body: Pick<TaskBody, "restated">,
  first: number,
): Promise<Window> {
  let starts = new Float64Array(LINES_MIN);
  let lengths = new Uint32Array(LINES_MIN);
  let highest = 0;
  for await (const settled of settledLines(storage.store, taskId, body)) {
    const { line, lineBytes } = settled.outcome;
    highest = Math.max(highest, line);
    if ("held" in settled || line < first || line >= first + WINDOW_LINES) continue;
    if (line - first >= starts.length) {
      const lines = Math.min(WINDOW_LINES, Math.max(line - first + 1, starts.length * 2));
      starts = grown(starts, new Float64Array(lines));
      lengths = grown(lengths, new Uint32Array(lines));
    }
    starts[line - first] = settled.start;
    lengths[line - first] = lineBytes;
  }
  const lines = Math.min(lengths.length, Math.max(0, highest - first + 1)); // those after it have no answer
  return { starts, lengths, lines, isLast: highest < first + WINDOW_LINES };
}

function grown<T extends Float64Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

async function writeWindow(
  window: Window,
  answers: RecentBlocks,
  write: Write,
  from: number,
): Promise<number> {
  let position = from;
  let staged: Uint8Array[] = [];
  let stagedBytes = 0;
  const flush = async (): Promise<void> => {
    await write(Buffer.concat(staged), position);
    position += stagedBytes;
    staged = [];
    stagedBytes = 0;
  };
  for (let index = 0; index < window.lines; index += 1) {
    const length = window.lengths[index] as number;
    if (length === 0) continue;
    const start = window.starts[index] as number;
    staged.push(answers.kept(start, start + length) ?? (await answers.read(start, start + length)));
    stagedBytes += length;
    if (stagedBytes >= WRITE_BYTES) await flush();
  }
  await flush();
  return position;
}

/** The blocks of the answers that were read last. */
class RecentBlocks {
  readonly #answers: OutputFile;
  /** By number, the one that was read last at the end. */
  readonly #blocks = new Map<number, Uint8Array>();

  constructor(answers: OutputFile) {
    this.#answers = answers;
  }

  /** Bytes within a block that is kept; undefined for others. */
  kept(start: number, end: number): Uint8Array | undefined {
    const number = Math.floor(start / BLOCK_BYTES);
    const block = this.#blocks.get(number);
    const from = start - number * BLOCK_BYTES;
    const to = from + end - start;
    return block === undefined || to > block.byteLength ? undefined : block.subarray(from, to);
  }

  /** Reads the block that they begin in; or only them, where they end in another one. */
  async read(start: number, end: number): Promise<Uint8Array> {
    const number = Math.floor(start / BLOCK_BYTES);
    const blockEnd = (number + 1) * BLOCK_BYTES;
    if (end > blockEnd) return this.#answers.read(start, end);
    const block = await this.#answers.read(number * BLOCK_BYTES, blockEnd);
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size >= BLOCKS_KEPT && oldest !== undefined) this.#blocks.delete(oldest);
    this.#blocks.set(number, block);
    return this.kept(start, end) ?? this.#answers.read(start, end);
  }
}
