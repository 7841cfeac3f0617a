/**
 * One attempt of `get-files`: files of a store listed, and fetched into the project's file store.
 *
 *   listed page by page -> chosen by glob and sizes -> fetched, eight at a time -> references in the order of the list
 *
 * What an attempt fetched is found by the next one under an id that follows from path and version, so that a crash costs the
 * only files under way. A list above 900 KiB is a separate file (JSONL); the output refers to it and has only ids and names,
 * or not even those if they have more, too: part of a list could be taken for all of it.
 *
 * What is left out is counted and named: files above the size that is wanted, symbolic links, and names that cannot be written.
 *
 * Limits: 10,000 files unless the input says more (100,000 at most), 2 GiB a file, sizes in all as the input says; of what is left
 * out 32 KiB of names. Memory: a page of the store, eight files' chunks, and 900 KiB of references. Too much is an error, never
 * a list cut short.
 */
import type { Clock } from "../../../clock.ts";
import type { FileView } from "../../../tasks/files/files.ts";
import type { JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { type ExternalFile, type ExternalStore, type LeftOut, shown } from "../files/external_store.ts";
import { findKept, keepFile, referenceOf } from "../files/file_reference.ts";
import { inOrder } from "../files/in_order.ts";
import { mimeTypeOf } from "../files/mime_type.ts";
import { withStore } from "../files/open_store.ts";
import type { StoreOptions } from "../files/store_config.ts";
import type { GetFilesConfig } from "./config.ts";
import { type Matches, parseGlob } from "./glob.ts";
import type { GetFilesInput } from "./input.ts";

/** Of the list within an output, which has 1 MiB in all. */
const INLINE_BYTES_MAX = 900 * 1024;

const CONCURRENCY = 8;

const LIST_KEY = "list";

/** How long paths are compared at a stretch. */
const BUSY_MS_MAX = 10;

/** As JSON: an execution keeps them in its notes. */
const LEFT_OUT_BYTES_MAX = 32 * 1024;

type Call = SatelliteCall<GetFilesInput, GetFilesConfig>;

/** What an output says of all files, with or without room for their list; named as there. */
interface Sums {
  count: number;
  bytes: number;
  skipped: number;
  left_out_count: number;
  readonly left_out: { readonly path: string; readonly reason: LeftOut["reason"] | "too_large" }[];
}

/** Opens the store of each call. */
export function runWith(options: StoreOptions): (call: Call) => Promise<JsonObject> {
  return (call) => withStore(call.config.store, options, call, (store) => new Getting(call, store).run());
}

class Getting {
  readonly #call: Call;
  readonly #store: ExternalStore;
  readonly #sums: Sums = { count: 0, bytes: 0, skipped: 0, left_out_count: 0, left_out: [] };
  #leftOutBytes = 0;

  constructor(call: Call, store: ExternalStore) {
    this.#call = call;
    this.#store = store;
  }

  async run(): Promise<JsonObject> {
    const { notes } = this.#call;
    const listed = await findKept(this.#call, LIST_KEY);
    const sums = notes.get("sums") as JsonObject | undefined; // written below
    if (listed !== undefined && sums !== undefined) return this.#listedOutput(listed, sums);
    const entries = inOrder(this.#chosen(), CONCURRENCY, (file) => this.#entry(file));
    const first = await takeSome(entries);
    if (first.isAll) return { files: first.taken, ...this.#sums, is_complete: true, list: null };
    const list = await keepFile(this.#call, LIST_KEY, {
      name: "files.jsonl",
      mimeType: "application/jsonl",
      // Noted before the list exists, so that a reader who finds the list finds its sums.
      chunks: linesOf(first.taken, entries, () => notes.set("sums", { ...this.#sums })),
    });
    return this.#listedOutput(list, { ...this.#sums });
  }

  async *#chosen(): AsyncGenerator<ExternalFile> {
    const { input, signal } = this.#call;
    const chooser = new Chooser(input, this.#call.clock);
    for await (const page of this.#store.list(input.prefix, signal)) {
      for (const one of page.leftOut) if (await chooser.mayHold(one)) this.#leaveOut(one.path, one.reason);
      for (const file of page.files) {
        signal.throwIfAborted();
        if (!(await chooser.has(file.path))) continue;
        if (file.bytes > input.max_file_bytes) this.#skip(file);
        else {
          this.#count(file);
          yield file;
        }
      }
    }
  }

  #skip(file: ExternalFile): void {
    const { max_file_bytes, on_too_large } = this.#call.input;
    if (on_too_large === "error")
      throw tooMuch(
        "file_too_large",
        `${shown(file.path)} has ${file.bytes} bytes, at most ${max_file_bytes} are wanted`,
      );
    this.#sums.skipped += 1;
    this.#leaveOut(file.path, "too_large");
  }

  #leaveOut(path: string, reason: LeftOut["reason"] | "too_large"): void {
    this.#sums.left_out_count += 1;
    const one = { path, reason };
    this.#leftOutBytes += Buffer.byteLength(JSON.stringify(one)) + 1;
    if (this.#leftOutBytes <= LEFT_OUT_BYTES_MAX) this.#sums.left_out.push(one);
  }

  #count({ bytes }: ExternalFile): void {
    const { max_files, max_total_bytes } = this.#call.input;
    this.#sums.count += 1;
    this.#sums.bytes += bytes;
    if (this.#sums.count > max_files)
      throw tooMuch("too_many_files", `there are more than ${max_files} files`);
    if (this.#sums.bytes > max_total_bytes)
      throw tooMuch("total_too_large", `the files have more than ${max_total_bytes} bytes in all`);
    if (this.#sums.count % 100 === 0) this.#call.progress(this.#sums.count);
  }

  /** A line of the list: a reference, or what the store says of the file. */
  async #entry(file: ExternalFile): Promise<JsonObject> {
    const source = sourceOf(this.#store, file);
    if (!this.#call.input.fetch) return { path: file.path, bytes: file.bytes, source };
    const kept = await keepFile(this.#call, `file ${file.path} ${file.version}`, {
      name: file.path,
      mimeType: mimeTypeOf(file.path),
      chunks: this.#bytesOf(file),
    });
    return { ...referenceOf(kept), source };
  }

  /** Nothing is kept of a file that arrived incomplete. */
  async *#bytesOf(file: ExternalFile): AsyncGenerator<Uint8Array> {
    let bytes = 0;
    for await (const chunk of this.#store.read(file, this.#call.signal)) {
      bytes += chunk.byteLength;
      yield chunk;
    }
    if (bytes !== file.bytes)
      throw new SatelliteError("ambiguous", "source_changed", `${shown(file.path)} arrived incomplete`);
  }

  /** The list as a file, and in the output what there is room for: all of it, shortly, or nothing that could be taken for all. */
  async #listedOutput(list: FileView, sums: JsonObject): Promise<JsonObject> {
    const { project, files } = this.#call;
    const short: JsonObject[] = [];
    let bytes = 0;
    for await (const line of linesIn(files.read(project, list.id))) {
      const entry = JSON.parse(line) as JsonObject; // written by `linesOf`
      short.push(shortOf(entry));
      bytes += Buffer.byteLength(JSON.stringify(short.at(-1))) + 1;
      if (bytes > INLINE_BYTES_MAX) break;
    }
    const isComplete = bytes <= INLINE_BYTES_MAX;
    const output = { files: isComplete ? short : null, ...sums };
    return { ...output, is_complete: isComplete, list: { ...referenceOf(list) } };
  }
}

/** What other satellites need of an entry. */
function shortOf({ file_id = null, name = null, path = null, bytes = null }: JsonObject): JsonObject {
  return file_id === null ? { path, bytes } : { file_id, name };
}

async function* linesIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

/** Which paths are wanted. Patterns and paths are both others', so it lets the process do other things every so often. */
class Chooser {
  readonly #wanted: readonly Matches[];
  readonly #unwanted: readonly Matches[];
  readonly #clock: Pick<Clock, "nowMs" | "soon">;
  #sinceMs: number;

  constructor({ glob, exclude }: GetFilesInput, clock: Pick<Clock, "nowMs" | "soon">) {
    this.#wanted = [glob ?? []].flat().map(parsed);
    this.#unwanted = [exclude ?? []].flat().map(parsed);
    this.#clock = clock;
    this.#sinceMs = clock.nowMs();
  }

  async has(path: string): Promise<boolean> {
    const isIn = this.#wanted.length === 0 || (await this.#hasAny(this.#wanted, path));
    return isIn && !(await this.#hasAny(this.#unwanted, path));
  }

  /** Whether what is left out would have been chosen, or may hold what would have been. */
  async mayHold({ path, isFolder }: LeftOut): Promise<boolean> {
    return isFolder ? !(await this.#hasAny(this.#unwanted, path)) : await this.has(path);
  }

  async #hasAny(patterns: readonly Matches[], path: string): Promise<boolean> {
    for (const matches of patterns) {
      if (matches(path)) return true;
      if (this.#clock.nowMs() - this.#sinceMs < BUSY_MS_MAX) continue;
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
      this.#sinceMs = this.#clock.nowMs();
    }
    return false;
  }
}

/** The schema has let only patterns pass. */
function parsed(pattern: string): Matches {
  return parseGlob(pattern) ?? (() => false);
}

function sourceOf(store: ExternalStore, { path, modifiedWallMs }: ExternalFile): JsonObject {
  const modified =
    modifiedWallMs === undefined ? {} : { modified_at: new Date(modifiedWallMs).toISOString() };
  return { store: store.name, path, ...modified };
}

/** As many as an output has room for; the rest is not listed yet. */
async function takeSome(
  entries: AsyncGenerator<JsonObject>,
): Promise<{ taken: JsonObject[]; isAll: boolean }> {
  const taken: JsonObject[] = [];
  for (let bytes = 0; bytes <= INLINE_BYTES_MAX; ) {
    const next = await entries.next();
    if (next.done === true) return { taken, isAll: true };
    taken.push(next.value);
    bytes += Buffer.byteLength(JSON.stringify(next.value)) + 1;
  }
  return { taken, isAll: false };
}

async function* linesOf(
  first: JsonObject[],
  rest: AsyncGenerator<JsonObject>,
  atEnd: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  yield Buffer.from(first.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
  first.length = 0;
  for await (const entry of rest) yield Buffer.from(`${JSON.stringify(entry)}\n`);
  await atEnd();
}

function tooMuch(code: string, message: string): SatelliteError {
  return new SatelliteError("permanent", code, message);
}
