/**
 * Finds the line of an item in the files of its run: by its key, in the input with the model that it names, or in the output.
 */
import type { Disk } from "../disk.ts";
import { hashKey, keyFilter, scanKeys } from "../jsonl/keys.ts";
import { asBuffer, eachLine } from "../jsonl/lines.ts";
import { readBlocks } from "../jsonl/read.ts";
import { readRecord } from "../jsonl/record.ts";
import { isObject } from "../work/json.ts";
import { settledLines } from "./files/settled_lines.ts";
import type { TaskBody } from "./files/task_body.ts";
import { answersPath, spoolPath } from "./files/task_files.ts";
import type { RunFiles } from "./journal/storage.ts";

/** Far above what an answer of 32 MiB takes in JSON. */
const OUTPUT_LINE_BYTES_MAX = 256 * 1024 * 1024;

/** A line of a file, and its number from 1. */
interface FoundLine {
  readonly line: number;
  readonly bytes: Uint8Array;
}

/** An item in the input. */
interface InputItem {
  readonly line: number;
  /** `<provider>:<name>` as the run or the line says; undefined where only the configuration says which provider it is. */
  readonly model: string | undefined;
}

/** Of a stream, as far as its copy is kept; undefined where no line has the key, or the input cannot be read. */
export async function inputItem(
  files: RunFiles,
  taskId: string,
  { input, model }: TaskBody,
  key: string,
): Promise<InputItem | undefined> {
  for (const path of [spoolPath(files, taskId), input?.name ?? ""]) {
    const found = path === "" ? undefined : await lineOfKey(files.disk, path, key).catch(() => undefined);
    if (found !== undefined) return { line: found.line, model: model ?? modelIn(found.bytes) };
  }
  return undefined;
}

/** Of an input that is gone: its answers stand in the output in the order of their commits. */
export async function lineInOutput(
  files: RunFiles,
  taskId: string,
  body: TaskBody,
  key: string,
): Promise<number | undefined> {
  const found = await lineOfKey(files.disk, answersPath(files, taskId, body), key);
  if (found === undefined) return undefined;
  let number = 0;
  for await (const { outcome } of settledLines(files.store, taskId, body)) {
    number += 1;
    if (number === found.line) return outcome.line;
  }
  return undefined;
}

/** Of a line in OpenAI's layout the model may be a name without a provider that has a colon in it. */
function modelIn(bytes: Uint8Array): string | undefined {
  const record = readRecord(bytes);
  if (record.kind !== "record" || record.layout === "openai") return undefined;
  const { request } = record.object;
  const { model } = isObject(request) ? request : record.object;
  return typeof model === "string" ? model : undefined;
}

/** The first line with a key in a file of lines; undefined if no line has it. */
async function lineOfKey(disk: Disk, path: string, key: string): Promise<FoundLine | undefined> {
  if ((await disk.stat(path)) === undefined) return undefined;
  const file = await disk.open(path, "read");
  const wanted = hashKey(Buffer.from(key));
  const options = { wantKeys: true, filter: keyFilter([wanted.high]) };
  try {
    for await (const event of readBlocks(file, { lineBytesMax: OUTPUT_LINE_BYTES_MAX })) {
      if (event.kind === "refused") continue;
      const { block } = event;
      const { count, lines, hashes } = scanKeys(block, options);
      for (let index = 0; index < count; index += 1)
        if (hashes[index * 2] === wanted.high && hashes[index * 2 + 1] === wanted.low) {
          const line = lines[index] as number;
          return { line, bytes: nthLine(block.bytes, line - block.firstLine) };
        }
    }
    return undefined;
  } finally {
    await file.close();
  }
}

/** A copy, from 0: the block is used again. */
function nthLine(bytes: Uint8Array, index: number): Uint8Array {
  let number = 0;
  let found: Uint8Array = new Uint8Array();
  eachLine(bytes, (start, end) => {
    if (number === index) found = Buffer.from(asBuffer(bytes).subarray(start, end));
    number += 1;
  });
  return found;
}
