/**
 * The lines of a run that are asked for, and what their answers will be kept under.
 *
 * Pages of 256 lines with a column for each fact: 37 bytes a line. A run over a million lines has nearly all of them here.
 */
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";

const PAGE_LINES = 256;

/** A line that is asked for. */
export interface AskedLine {
  /** Of its request, one byte a character. */
  readonly key: string;
  /** The model that it was measured for: another one may answer an alias. */
  readonly model: string;
  /** Whether other lines of the run may have its answer. */
  readonly isShared: boolean;
}

interface Page {
  readonly keys: Uint8Array;
  /** Numbers of their models; 0 for lines that are not asked for. */
  readonly models: Uint32Array;
  readonly areShared: Uint8Array;
  lines: number;
}

/** One for a run. */
export class AskedLines {
  readonly #pages = new Map<number, Page>();
  readonly #models: string[] = [""];
  readonly #numbers = new Map<string, number>();

  /** `key`: the bytes of its request's key. */
  add(line: number, key: Uint8Array, { model, isShared }: Omit<AskedLine, "key">): void {
    const page = this.#page(line);
    const at = line % PAGE_LINES;
    if (page.models[at] === 0) page.lines += 1;
    page.keys.set(key, ANSWER_KEY_BYTES * at);
    page.models[at] = this.#numberOf(model);
    page.areShared[at] = isShared ? 1 : 0;
  }

  has(line: number): boolean {
    const page = this.#pages.get(Math.floor(line / PAGE_LINES));
    return page !== undefined && page.models[line % PAGE_LINES] !== 0;
  }

  isShared(line: number): boolean {
    return this.#pages.get(Math.floor(line / PAGE_LINES))?.areShared[line % PAGE_LINES] === 1;
  }

  /** The line, which is not asked for any more; undefined if it was not. */
  take(line: number): AskedLine | undefined {
    const number = Math.floor(line / PAGE_LINES);
    const at = line % PAGE_LINES;
    const page = this.#pages.get(number);
    const model = page?.models[at] ?? 0;
    if (page === undefined || model === 0) return undefined;
    page.models[at] = 0;
    page.lines -= 1;
    if (page.lines === 0) this.#pages.delete(number);
    const { buffer, byteOffset } = page.keys;
    const key = Buffer.from(buffer, byteOffset + ANSWER_KEY_BYTES * at, ANSWER_KEY_BYTES).toString("latin1");
    return { key, model: this.#models[model] as string, isShared: page.areShared[at] === 1 };
  }

  #page(line: number): Page {
    const number = Math.floor(line / PAGE_LINES);
    const known = this.#pages.get(number);
    if (known !== undefined) return known;
    const page = {
      keys: new Uint8Array(ANSWER_KEY_BYTES * PAGE_LINES),
      models: new Uint32Array(PAGE_LINES),
      areShared: new Uint8Array(PAGE_LINES),
      lines: 0,
    };
    this.#pages.set(number, page);
    return page;
  }

  #numberOf(model: string): number {
    const known = this.#numbers.get(model);
    if (known !== undefined) return known;
    this.#numbers.set(model, this.#models.length);
    return this.#models.push(model) - 1;
  }
}
