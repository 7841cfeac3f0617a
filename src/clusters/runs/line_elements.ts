/**
 * A file of JSON lines as the elements of an `each`: read as they are wanted, whole at no time.
 *
 *   counting (one pass) -> reading (in the order of the lines; for an earlier line from the beginning again) -> closed
 *
 * Limits: 1 MiB a line; 512 skipped lines are kept, for elements that are requested a little later.
 */
import { StringDecoder } from "node:string_decoder";
import { hasCode } from "../../errors.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { Json } from "../../work/json.ts";
import { ReferenceFault } from "../declaration/fill.ts";

const LINE_CHARS_MAX = 1024 * 1024;
const PASSED_MAX = 512;

/** The elements of an `each`, read one by one. */
export interface Elements {
  readonly length: number;
  /** From 0. Throws `ReferenceFault`. */
  item(index: number): Promise<Json>;
  /** Once no element is wanted any more. */
  close?(): Promise<void>;
}

/** Empty lines are not elements. The file stays until it is closed. Throws `ReferenceFault`. */
export async function openLineElements(
  files: Pick<Files, "read" | "hold">,
  { project, fileId, name }: { readonly project: string; readonly fileId: string; readonly name: string },
): Promise<Elements> {
  const release = files.hold(fileId);
  const open = (): AsyncGenerator<string, void, undefined> => linesOf(files.read(project, fileId), name);
  try {
    let length = 0;
    for await (const _line of open()) length += 1;
    return new LineElements(length, name, open, release);
  } catch (error) {
    release();
    if (hasCode(error, "not_found")) throw new ReferenceFault(`${name}: its file is not there`);
    throw error;
  }
}

class LineElements implements Elements {
  readonly length: number;
  readonly #name: string;
  readonly #open: () => AsyncGenerator<string, void, undefined>;
  readonly #release: () => void;
  #lines: AsyncGenerator<string, void, undefined>;
  /** Number of the next line. */
  #next = 0;
  readonly #passed = new Map<number, string>();
  /** Elements are read one after another. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    length: number,
    name: string,
    open: () => AsyncGenerator<string, void, undefined>,
    release: () => void,
  ) {
    this.length = length;
    this.#name = name;
    this.#open = open;
    this.#release = release;
    this.#lines = open();
  }

  item(index: number): Promise<Json> {
    const line = this.#turn.then(() => this.#line(index));
    this.#turn = line.catch(() => undefined);
    return line.then((text) => this.#parsed(text, index));
  }

  async close(): Promise<void> {
    await this.#turn;
    await this.#lines.return();
    this.#passed.clear();
    this.#release();
  }

  async #line(index: number): Promise<string> {
    const passed = this.#passed.get(index);
    if (passed !== undefined) {
      this.#passed.delete(index);
      return passed;
    }
    if (index < this.#next) {
      await this.#lines.return();
      this.#lines = this.#open();
      this.#next = 0;
    }
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done === true) throw new ReferenceFault(`${this.#name}: there is no line for element ${index}`);
      const at = this.#next;
      this.#next += 1;
      if (at === index) return value;
      this.#passed.set(at, value);
      if (this.#passed.size > PASSED_MAX) this.#passed.delete(this.#passed.keys().next().value as number); // not empty
    }
  }

  #parsed(line: string, index: number): Json {
    try {
      return JSON.parse(line) as Json;
    } catch {
      throw new ReferenceFault(`${this.#name}: the line for element ${index} is not JSON`);
    }
  }
}

async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<string, void, undefined> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  for await (const chunk of chunks) {
    const parts = (rest + decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))).split(
      "\n",
    );
    rest = parts.pop() ?? "";
    if (rest.length > LINE_CHARS_MAX)
      throw new ReferenceFault(`${name}: a line has more than ${LINE_CHARS_MAX} characters`);
    for (const part of parts) if (part.trim() !== "") yield part;
  }
  rest += decoder.end();
  if (rest.trim() !== "") yield rest;
}
