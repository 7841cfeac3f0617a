/**
 * A digest of each line of an input, kept with its run, so that a later call knows which lines of a changed input are
 * what they were.
 *
 * 8 bytes a line, in records of the store (128 KiB each). Limits: about 1 GB/s of input in the main thread.
 */

import type { DiskFile } from "../../disk.ts";
import { hashOf, viewOf } from "../../jsonl/keys.ts";
import { asBuffer, eachLine, isBlank } from "../../jsonl/lines.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { checksumOf, lengthOf } from "../journal/checksum.ts";

const COLLECTION = "line_digests";
const RECORD_LINES = 16_384;
const LF = 0x0a;

/** Lines count from 1. */
export class LineDigests {
  #words = new Uint32Array(2_048);
  #lines = 0;

  get lines(): number {
    return this.#lines;
  }

  /** The lines of the next block; returns how many of them are blank. */
  add(block: Uint8Array): number {
    const view = viewOf(block);
    let blankLines = 0;
    eachLine(block, (start, end) => {
      const { high, low } = hashOf(view, start, end);
      this.#push(high, low);
      if (isBlank(block, start, end)) blankLines += 1;
    });
    return blankLines;
  }

  /** Of a line that is too long to be read. */
  addUnread(): void {
    this.#push(0, 0);
  }

  /** Those of the first lines. */
  first(lines: number): LineDigests {
    const digests = new LineDigests();
    digests.#lines = Math.min(lines, this.#lines);
    digests.#words = this.#words.slice(0, Math.max(2, digests.#lines * 2));
    return digests;
  }

  /** That of another input's line, as the next one; of one that it does not have, as of a line that was not read. */
  addOf(other: LineDigests, line: number): void {
    const isKnown = line <= other.#lines;
    this.#push(
      isKnown ? (other.#words[line * 2 - 2] as number) : 0,
      isKnown ? (other.#words[line * 2 - 1] as number) : 0,
    );
  }

  /** Whether both lines were read and are alike. */
  isSame(line: number, other: LineDigests, otherLine: number): boolean {
    if (line > this.#lines || otherLine > other.#lines) return false;
    const [high, low] = [this.#words[line * 2 - 2], this.#words[line * 2 - 1]];
    if (high === 0 && low === 0) return false;
    return high === other.#words[otherLine * 2 - 2] && low === other.#words[otherLine * 2 - 1];
  }

  /** Stores them for an input of a task, known by its checksum. */
  async save(
    store: Pick<Store, "change">,
    taskId: string,
    inputChecksum: string,
    wallMs: number,
  ): Promise<void> {
    const parent = parentOf(taskId, inputChecksum);
    for (let first = 0; first < this.#lines; first += RECORD_LINES) {
      const words = this.#words.slice(first * 2, Math.min(this.#lines, first + RECORD_LINES) * 2);
      const id = `${parent}/${String(first).padStart(12, "0")}`;
      const payload = new Uint8Array(words.buffer);
      const record = {
        collection: COLLECTION,
        id,
        project: "",
        parent,
        createdWallMs: wallMs,
        body: "{}",
        payload,
      };
      await store.change([{ kind: "put", record }]);
    }
  }

  /** The stored digests; none for a run that an earlier version began. */
  static async load(
    store: Pick<Store, "records">,
    taskId: string,
    inputChecksum: string,
  ): Promise<LineDigests> {
    const digests = new LineDigests();
    const query = { collection: COLLECTION, parent: parentOf(taskId, inputChecksum), limit: 8 };
    for (let after: string | undefined; ; ) {
      const page = await store.records(EVERY_PROJECT, {
        ...query,
        ...(after === undefined ? {} : { after }),
      });
      for (const { payload } of page) digests.#append(asBuffer(payload ?? new Uint8Array(0)));
      after = page.at(-1)?.id;
      if (page.length < query.limit) return digests;
    }
  }

  /** Of an input that the task does not have any more. */
  static async remove(store: Pick<Store, "change">, taskId: string, inputChecksum: string): Promise<void> {
    await store.change([
      { kind: "deleteOf", collection: COLLECTION, parent: parentOf(taskId, inputChecksum) },
    ]);
  }

  #append(bytes: Buffer): void {
    for (let at = 0; at + 8 <= bytes.byteLength; at += 8)
      this.#push(bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4));
  }

  #push(high: number, low: number): void {
    if (this.#lines * 2 === this.#words.length) {
      const larger = new Uint32Array(this.#words.length * 2);
      larger.set(this.#words);
      this.#words = larger;
    }
    this.#words[this.#lines * 2] = high;
    this.#words[this.#lines * 2 + 1] = low;
    this.#lines += 1;
  }
}

/**
 * How many lines of a file are those of an input that is its start, by the checksum of that input; undefined where it is not.
 * `lines`: of that input. Its last line is not among them where the file continues it.
 */
export async function linesOfStart(
  file: Pick<DiskFile, "read">,
  inputChecksum: string,
  lines: number,
): Promise<number | undefined> {
  const sizeBytes = lengthOf(inputChecksum);
  if (String(await checksumOf(file, sizeBytes)) !== inputChecksum) return undefined;
  const around = Buffer.alloc(2);
  const from = Math.max(0, sizeBytes - 1);
  const found = around.subarray(0, await file.read(around, from));
  const isContinued = found.length === 2 && !found.includes(LF);
  return isContinued ? lines - 1 : lines;
}

function parentOf(taskId: string, inputChecksum: string): string {
  return `${taskId}/${inputChecksum}`;
}
