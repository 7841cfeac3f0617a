/**
 * The answers of shards, read from the partitions that have them and appended to the output in the order of the input.
 *
 *   read from the partition -> written -> synced -> marked      (a kill before the mark: written again from the same place)
 */
import type { Clock } from "../../clock.ts";
import type { DiskFile } from "../../disk.ts";
import type { Objects } from "../../store/objects/objects.ts";
import { openPartitionReader, type PartitionReader } from "../../store/objects/partition_reader.ts";
import type { SeenShard } from "./run_rows.ts";

const READ_BYTES = 1 << 20;
const LF = 0x0a;
/** Only the output lines of errors name their line in the input. */
const LINE_MEMBER = Buffer.from('"line":');

/** Where the files of partitions are. */
export interface AnswersPlace {
  /** The address of the database. */
  readonly url: string;
  readonly objects: Objects;
  readonly clock: Clock;
  /** The root of a partition's files. */
  readonly rootOf: (part: number) => string;
}

/** Reads what partitions have committed, with one session for each partition. Close it. */
export class TakenAnswers {
  readonly #place: AnswersPlace;
  readonly #readers = new Map<number, Promise<PartitionReader>>();

  constructor(place: AnswersPlace) {
    this.#place = place;
  }

  /** Writes the answers of a shard that is done at byte `end` of the output, and syncs them. Resolves with the new end. */
  async append(shard: SeenShard, output: DiskFile, end: number): Promise<number> {
    if (shard.part === null) throw new Error(`shard ${shard.index} is done, and no partition has it`);
    const disk = await this.#reader(shard.part);
    const file = await disk.open(shard.output, "read");
    let at = end;
    try {
      for await (const lines of wholeLines(file)) {
        const bytes = inInput(lines, shard.firstLine - 1);
        await output.write(bytes, at);
        at += bytes.byteLength;
      }
    } finally {
      await file.close();
    }
    await output.sync();
    return at;
  }

  async close(): Promise<void> {
    for (const opening of this.#readers.values())
      await opening.then(
        (reader) => reader.close(),
        () => undefined,
      );
  }

  #reader(part: number): Promise<PartitionReader> {
    const { url, objects, clock, rootOf } = this.#place;
    const opened =
      this.#readers.get(part) ?? openPartitionReader({ url, part, objects, clock, root: rootOf(part) });
    this.#readers.set(part, opened);
    return opened;
  }
}

/** Blocks of whole lines. */
async function* wholeLines(file: Pick<DiskFile, "read">): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for (let position = 0; ; ) {
    const chunk = Buffer.alloc(READ_BYTES);
    const length = await file.read(chunk, position);
    if (length === 0) break;
    position += length;
    const read = chunk.subarray(0, length);
    const cut = read.lastIndexOf(LF) + 1;
    if (cut > 0) yield Buffer.concat([rest, read.subarray(0, cut)]);
    rest = cut > 0 ? Buffer.from(read.subarray(cut)) : Buffer.concat([rest, read]);
  }
  if (rest.byteLength > 0) yield rest;
}

/** The same lines, with the line numbers of errors counted from the start of the input instead of the shard. */
function inInput(block: Buffer, linesBefore: number): Uint8Array {
  if (linesBefore === 0 || !block.includes(LINE_MEMBER)) return block;
  const lines = block.toString().split("\n");
  return Buffer.from(
    lines.map((line) => (line.includes('"line":') ? shifted(line, linesBefore) : line)).join("\n"),
  );
}

function shifted(text: string, linesBefore: number): string {
  const line = JSON.parse(text) as ErrorLine; // an output line
  const { error } = line;
  if (typeof line.line !== "number" && typeof error?.line !== "number") return text;
  return JSON.stringify({
    ...line,
    ...(typeof line.line === "number" ? { line: line.line + linesBefore } : {}),
    ...(typeof error?.line === "number" ? { error: { ...error, line: error.line + linesBefore } } : {}),
  });
}

interface ErrorLine {
  readonly line?: number;
  readonly error?: { readonly line?: number } | null;
}
