/**
 * The check of keys before a run begins: those of a file all differ, and the checksum by which the file is known again;
 * or those of several files.
 *
 * Limits: at ten million lines of 100 bytes it takes 10 s and the process stays within 256 MiB (bench/jobs/duplicates.ts).
 */
import type { DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { DUPLICATE_BOUNDS, findDuplicate } from "../../shard/duplicates.ts";
import { inlineScanner, type KeyScanner } from "../../shard/measurer.ts";
import { ChecksummedFile } from "../journal/checksum.ts";
import type { OpenInput } from "./input.ts";
import { LineDigests } from "./line_digests.ts";

/**
 * Up to here the keys are scanned in this thread: 60 MB take 60 ms in slices of 0.2 ms, while the first thread takes
 * 100 ms to start. Larger inputs are scanned in the threads.
 */
const INLINE_SCAN_BYTES_MAX = 64 * 1024 * 1024;

/** Of short lines, 256 make a block of a few KiB, and passing that to a thread costs more than reading its keys. */
const SCANNED_LINES_MAX = 4_096;

/** What the pass over a whole file finds. */
export interface CheckedKeys {
  readonly inputChecksum: string;
  readonly lines: number;
  /** Of the lines, those with nothing on them. */
  readonly blankLines: number;
  readonly digests: LineDigests;
}

/** Refuses a file with two lines of one key, before anything is sent. */
export async function checkKeys(
  measurer: KeyScanner,
  input: Pick<OpenInput, "file"> & { readonly identity: { readonly sizeBytes: number } | undefined },
): Promise<CheckedKeys> {
  let checksum = "";
  let lines = 0;
  let blankLines = 0;
  let digests = new LineDigests();
  const inputBytes = input.identity?.sizeBytes ?? 0;
  const { scanner, blockLinesMax } = scanOf(inputBytes, measurer);
  const blocks = async function* (): ReturnType<typeof readBlocks> {
    const file = new ChecksummedFile(input.file);
    lines = 0;
    blankLines = 0;
    digests = new LineDigests();
    for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX, blockLinesMax })) {
      lines += event.kind === "block" ? event.block.lineCount : 1;
      if (event.kind === "block") blankLines += digests.add(event.block.bytes);
      else digests.addUnread();
      yield event;
    }
    checksum = file.checksum;
  };
  const found = await findDuplicate(blocks, scanner, { ...DUPLICATE_BOUNDS, inputBytes });
  if (found.kind === "duplicate") {
    throw new PerigeeError(
      "duplicate_key",
      `lines ${found.firstLine} and ${found.secondLine} have the same key; every key must occur once`,
      { details: { lines: [found.firstLine, found.secondLine] } },
    );
  }
  return { inputChecksum: checksum, lines, blankLines, digests };
}

/** One of several files that are one input. */
export interface KeyedFile {
  readonly file: Pick<DiskFile, "read">;
  readonly bytes: number;
  /** Lines, blank ones included. */
  readonly lineCount: number;
}

/** A line of one of them; both count from their start, files from 0 and lines from 1. */
export interface KeyPlace {
  readonly fileIndex: number;
  readonly line: number;
}

/** Two places of one key in files read one after the other; undefined when all keys differ. */
export async function findSharedKey(
  measurer: KeyScanner,
  files: readonly KeyedFile[],
  signal: AbortSignal | undefined,
): Promise<readonly [KeyPlace, KeyPlace] | undefined> {
  const inputBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const { scanner, blockLinesMax } = scanOf(inputBytes, measurer);
  const blocks = async function* (): ReturnType<typeof readBlocks> {
    let fromLine = 1;
    for (const { file, lineCount } of files) {
      yield* readBlocks(file, { lineBytesMax: LINE_BYTES_MAX, blockLinesMax, fromLine, signal });
      fromLine += lineCount;
    }
  };
  const found = await findDuplicate(blocks, scanner, { ...DUPLICATE_BOUNDS, inputBytes });
  if (found.kind === "unique") return undefined;
  return [placeOf(files, found.firstLine), placeOf(files, found.secondLine)];
}

function placeOf(files: readonly KeyedFile[], line: number): KeyPlace {
  let before = 0;
  let fileIndex = 0;
  for (; fileIndex < files.length - 1; fileIndex += 1) {
    const { lineCount } = files[fileIndex] as KeyedFile;
    if (line <= before + lineCount) break;
    before += lineCount;
  }
  return { fileIndex, line: line - before };
}

function scanOf(
  inputBytes: number,
  measurer: KeyScanner,
): { readonly scanner: KeyScanner; readonly blockLinesMax: number | undefined } {
  const isInline = inputBytes <= INLINE_SCAN_BYTES_MAX;
  return {
    scanner: isInline ? inlineScanner : measurer,
    blockLinesMax: isInline ? undefined : SCANNED_LINES_MAX,
  };
}
