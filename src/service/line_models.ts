/**
 * The models that the lines of a file name, for answers that come nearly in the order of the lines.
 *
 * Limits: remembers a window of 16,384 lines; an answer that is further behind its neighbours has no model told.
 */
import type { DiskFile } from "../disk.ts";
import type { ReaderEvent } from "../jsonl/block.ts";
import { eachLine } from "../jsonl/lines.ts";
import { readBlocks } from "../jsonl/read.ts";

const WINDOW_LINES = 16_384;

export class LineModels {
  readonly #blocks: AsyncGenerator<ReaderEvent>;
  readonly #models = new Map<number, string>();
  /** The last line that was read, and the first that is remembered. */
  #lastLine = 0;
  #firstLine = 1;

  constructor(file: Pick<DiskFile, "read">) {
    this.#blocks = readBlocks(file);
  }

  /** Null when the line names none. Lines count from 1. */
  async modelOf(line: number): Promise<string | null> {
    while (this.#lastLine < line) {
      const next = await this.#blocks.next();
      if (next.done === true) break;
      this.#take(next.value);
    }
    return this.#models.get(line) ?? null;
  }

  #take(event: ReaderEvent): void {
    if (event.kind === "refused") {
      this.#lastLine = event.refused.line;
      return;
    }
    const { bytes, firstLine } = event.block;
    let line = firstLine;
    eachLine(bytes, (start, end) => {
      const model = modelIn(bytes.subarray(start, end));
      if (model !== undefined) this.#models.set(line, model);
      line += 1;
    });
    this.#lastLine = line - 1;
    for (; this.#firstLine <= this.#lastLine - WINDOW_LINES; this.#firstLine += 1)
      this.#models.delete(this.#firstLine);
  }
}

function modelIn(line: Uint8Array): string | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(line.buffer, line.byteOffset, line.length).toString());
    const request = memberOf(value, "body") ?? memberOf(value, "request");
    const model = memberOf(request, "model");
    return typeof model === "string" ? model : undefined;
  } catch {
    return undefined; // the line failed for itself
  }
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
