/**
 * Reads the items of an incoming request one by one, and keeps them in memory only while they are few.
 *
 *   small (inline, one sla, at most 1,000 items and 1 MiB) -> passed to the acceptance; what goes with batches is written then
 *   large: inline items are written to one file for each sla as they arrive; a file item is a separate part
 *
 * Limits: 1,000,000 items, 64 different slas, 64 files; without sla 1,000 items in all.
 */
import { randomUUID } from "node:crypto";
import type { Disk, DiskFile } from "../../disk.ts";
import { POSTED_CHARS_MAX, POSTED_ITEMS_MAX, questionChars } from "../../engine/posted/acceptance.ts";
import { PerigeeError } from "../../errors.ts";
import { itemLine } from "../../jsonl/items.ts";
import { modelFault } from "../../jsonl/layout.ts";
import { volumeTokensOf } from "../../price/factor.ts";
import type { Item } from "../../work/item.ts";
import type { JsonObject } from "../../work/json.ts";
import { newId } from "../../work/new_id.ts";
import { objectId } from "../../work/object_id.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import type { FileIndex, Files, NamedIndex } from "../files/files.ts";
import { onDisk } from "../files/upload.ts";
import { baseOf } from "../shapes/ids.ts";
import { checkSchema } from "../shapes/request_schema.ts";
import type { FileRequest, RequestItem, TaskRequest } from "../shapes/requests.ts";

const ITEMS_MAX = 1_000_000;
const SLAS_MAX = 64;
const FILES_MAX = 64;
/** Items without sla that a call waits for. */
const IMMEDIATE_MAX = 1_000;
const CHUNK_CHARS = 1024 * 1024;
/** Items from one recorded place to the next. */
export const INDEX_STEP = 1_000;

/** Part of a large request: a file of lines, and their window. */
export interface SpooledPart {
  readonly slaMinutes: number | null;
  /** The uploaded file; undefined for inline items. */
  readonly fileId: string | undefined;
  /** What answers to lines of the file must fit that say nothing themselves. */
  readonly schema?: JsonObject | boolean;
  readonly items: number;
  readonly lines: number;
  readonly bytes: number;
  readonly itemLines: readonly number[];
  readonly itemOffsets: readonly number[];
}

/** Small requests stay in memory; the lines of large ones are on the disk. */
export type SpooledRequest =
  | { readonly kind: "small"; readonly items: readonly Item[]; readonly slaMinutes: number | null }
  | {
      readonly kind: "large";
      readonly taskId: string;
      readonly parts: readonly SpooledPart[];
      readonly spans: readonly number[];
      /** Determines the price factor of all parts. */
      readonly volumeTokens: number;
    };

/** Where a request spool writes lines and finds files. */
export interface RequestSpoolHome {
  readonly disk: Disk;
  /** Providers that models may name. */
  readonly providers: ReadonlySet<string>;
  /** The path of the lines of a part. */
  readonly pathOf: (taskId: string, part: number) => string;
  /** Throws `not_found`. */
  readonly indexOf: (fileId: string) => Promise<FileIndex>;
  /** Throws `duplicate_key`. */
  readonly assertKeysDiffer: Files["assertKeysDiffer"];
}

/** Throws `usage` (`details.param`), `too_many`, `not_found`, `duplicate_key`, `disk_full`; then nothing remains on the disk. */
export async function spoolRequest(home: RequestSpoolHome, request: TaskRequest): Promise<SpooledRequest> {
  request.signal?.throwIfAborted();
  const small = smallOf(request);
  if (small !== undefined) return small;
  const spool = new RequestSpool(home, request);
  try {
    for await (const item of request.items) {
      request.signal?.throwIfAborted();
      await spool.add(item);
    }
    return await spool.end(request.signal);
  } catch (error) {
    await spool.remove();
    throw error;
  }
}

/** Writes the lines of a small request, which has no volume, to a file. Throws `disk_full`; then nothing remains on the disk. */
export async function spoolSmall(
  { disk, pathOf }: Pick<RequestSpoolHome, "disk" | "pathOf">,
  taskId: string,
  lines: readonly string[],
  slaMinutes: number | null,
): Promise<Extract<SpooledRequest, { kind: "large" }>> {
  const path = pathOf(taskId, 0);
  const writer = new LineWriter(slaMinutes, 0, await onDisk(disk.open(path, "write")));
  try {
    for (const line of lines) await writer.add(line);
    const parts = [await writer.end()];
    return { kind: "large", taskId, parts, spans: [0, lines.length], volumeTokens: 0 };
  } catch (error) {
    await writer.close().catch(() => undefined); // it may be closed already
    await disk.remove(path).catch(() => undefined);
    throw error;
  }
}

/** Hot: awaits nothing if all items are present. Undefined for requests that the spool must read. */
function smallOf({
  items,
  maxCostUsd,
}: TaskRequest): (SpooledRequest & { readonly kind: "small" }) | undefined {
  if (!Array.isArray(items) || maxCostUsd !== undefined) return undefined;
  const requests = items as readonly RequestItem[]; // the other kind is a stream
  const [first] = requests;
  if (first === undefined || requests.length > POSTED_ITEMS_MAX) return undefined;
  const small: Item[] = [];
  const slaMinutes = slaOf(first, 0);
  let chars = 0;
  for (const [index, item] of requests.entries()) {
    if ("file_id" in item || slaOf(item, index) !== slaMinutes) return undefined;
    chars += questionChars(item);
    small.push(item);
  }
  return chars > POSTED_CHARS_MAX ? undefined : { kind: "small", items: small, slaMinutes };
}

/** A file of lines that is being written. */
class LineWriter {
  readonly slaMinutes: number | null;
  readonly part: number;
  readonly #file: DiskFile;
  #text = "";
  #bytes = 0;
  items = 0;
  readonly itemLines: number[] = [];
  readonly itemOffsets: number[] = [];

  constructor(slaMinutes: number | null, part: number, file: DiskFile) {
    this.slaMinutes = slaMinutes;
    this.part = part;
    this.#file = file;
  }

  async add(line: string): Promise<void> {
    if (this.items % INDEX_STEP === 0) {
      await this.#flush(); // so that the place is known in bytes
      this.itemLines.push(this.items + 1);
      this.itemOffsets.push(this.#bytes);
    }
    this.#text += `${line}\n`;
    this.items += 1;
    if (this.#text.length >= CHUNK_CHARS) await this.#flush();
  }

  async end(): Promise<SpooledPart> {
    await this.#flush();
    await onDisk(this.#file.sync());
    await onDisk(this.#file.close());
    const { slaMinutes, items, itemLines, itemOffsets } = this;
    return { slaMinutes, fileId: undefined, items, lines: items, bytes: this.#bytes, itemLines, itemOffsets };
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.from(this.#text);
    this.#text = "";
    await onDisk(this.#file.write(bytes, this.#bytes));
    this.#bytes += bytes.byteLength;
  }
}

/** The items of a request while they are few: kept in memory -> passed on -> written to files from then on. */
class SmallItems {
  #items: Item[] | undefined = [];
  #slaMinutes: number | null | undefined;
  #chars = 0;

  /** The items in memory and their sla; undefined once they were written to files. */
  get all(): { readonly items: readonly Item[]; readonly slaMinutes: number | null } | undefined {
    return this.#items === undefined
      ? undefined
      : { items: this.#items, slaMinutes: this.#slaMinutes ?? null };
  }

  /** Keeps the item if all are still few and have its sla. */
  take(item: Item, slaMinutes: number | null): boolean {
    this.#chars += questionChars(item);
    if (this.#items === undefined) return false;
    const isSmall =
      this.#items.length < POSTED_ITEMS_MAX &&
      this.#chars <= POSTED_CHARS_MAX &&
      (this.#slaMinutes === undefined || this.#slaMinutes === slaMinutes);
    if (!isSmall) return false;
    this.#slaMinutes = slaMinutes;
    this.#items.push(item);
    return true;
  }

  /** From now on items are written to files. */
  end(): void {
    this.#items = undefined;
  }
}

class RequestSpool {
  readonly #home: RequestSpoolHome;
  readonly #taskId: string;
  readonly #small = new SmallItems();
  #count = 0;
  #immediate = 0;
  readonly #writers = new Map<number | null, LineWriter>();
  readonly #files = new Map<number, { readonly part: SpooledPart; readonly named: NamedIndex }>();
  #partCount = 0;
  readonly #spans: number[] = [];
  #servedModel: string | undefined;

  constructor(home: RequestSpoolHome, request: TaskRequest) {
    this.#home = home;
    this.#taskId = request.id ?? newId();
    if (request.maxCostUsd !== undefined) this.#small.end(); // a cap needs a separate run
  }

  async add(item: RequestItem): Promise<void> {
    const index = this.#count;
    this.#count += 1;
    if (this.#count > ITEMS_MAX) throw new PerigeeError("too_many", `a task has at most ${ITEMS_MAX} items`);
    const slaMinutes = slaOf(item, index);
    if ("file_id" in item) return this.#addFile(item, slaMinutes, index);
    if (slaMinutes === null) this.#countImmediate(1);
    if (this.#small.take(item, slaMinutes)) return;
    if (this.#small.all !== undefined) await this.#spill();
    return this.#write(item, slaMinutes, index);
  }

  async end(signal: AbortSignal | undefined): Promise<SpooledRequest> {
    if (this.#count === 0)
      throw new PerigeeError("usage", "a task needs at least one item", { details: { param: "" } });
    const small = this.#small.all;
    if (small !== undefined) return { kind: "small", ...small };
    const files = [...this.#files];
    const indexes = files.map(([, { named }]) => named);
    if (indexes.length > 1) await this.#home.assertKeysDiffer(indexes, signal);
    const parts = new Map(files.map(([number, { part }]) => [number, part]));
    for (const writer of this.#writers.values()) parts.set(writer.part, await writer.end());
    const ordered = Array.from({ length: this.#partCount }, (_, part) => parts.get(part) as SpooledPart);
    const volumeTokens = volumeOf(ordered);
    return { kind: "large", taskId: this.#taskId, parts: ordered, spans: this.#spans, volumeTokens };
  }

  /** Call it after a failure. */
  async remove(): Promise<void> {
    for (const writer of this.#writers.values()) {
      await writer.close().catch(() => undefined); // already closed if the writer has ended
      await this.#home.disk.remove(this.#home.pathOf(this.#taskId, writer.part)).catch(() => undefined);
    }
  }

  async #addFile(
    { file_id: fileId, schema }: FileRequest,
    slaMinutes: number | null,
    item: number,
  ): Promise<void> {
    await this.#spill();
    if (schema !== undefined) await checkSchema(schema, `${item}.schema`);
    const index = await this.#home.indexOf(fileId);
    if (slaMinutes === null) this.#countImmediate(index.items);
    if (this.#files.size >= FILES_MAX)
      throw new PerigeeError("too_many", `a task has at most ${FILES_MAX} files`);
    const { items, lineCount, bytes, lines, offsets } = index;
    const part = {
      slaMinutes,
      fileId,
      ...(schema === undefined ? {} : { schema }),
      items,
      lines: lineCount,
      bytes,
      itemLines: lines,
      itemOffsets: offsets,
    };
    this.#files.set(this.#partCount, { part, named: { fileId, index } });
    this.#span(this.#partCount, items);
    this.#partCount += 1;
  }

  /** Writes the items in memory to files from here on. */
  async #spill(): Promise<void> {
    const { items, slaMinutes } = this.#small.all ?? { items: [], slaMinutes: null };
    this.#small.end();
    for (const [index, item] of items.entries()) await this.#write(item, slaMinutes, index);
  }

  async #write(item: Item, slaMinutes: number | null, index: number): Promise<void> {
    this.#assertServed(item.model, index);
    let writer = this.#writers.get(slaMinutes);
    if (writer === undefined) {
      if (this.#writers.size === SLAS_MAX)
        throw new PerigeeError("too_many", `a task has at most ${SLAS_MAX} different slas`);
      const part = this.#partCount;
      const file = await onDisk(this.#home.disk.open(this.#home.pathOf(this.#taskId, part), "write"));
      writer = new LineWriter(slaMinutes, part, file);
      this.#writers.set(slaMinutes, writer);
      this.#partCount += 1;
    }
    const key = objectId(this.#taskId, baseOf(writer.part) + writer.items + 1);
    await writer.add(itemLine({ ...item, key }));
    this.#span(writer.part, 1);
  }

  /** Refuses items as the acceptance does for a small request; most name the same model as the item before. */
  #assertServed(model: string, index: number): void {
    if (model === this.#servedModel) return;
    const fault = modelFault(model, this.#home.providers);
    if (fault !== undefined)
      throw new PerigeeError("usage", `item ${index}: ${fault}`, { details: { param: `${index}.model` } });
    this.#servedModel = model;
  }

  #span(part: number, items: number): void {
    const last = this.#spans.length - 2;
    if (last >= 0 && this.#spans[last] === part) this.#spans[last + 1] = (this.#spans[last + 1] ?? 0) + items;
    else this.#spans.push(part, items);
  }

  #countImmediate(items: number): void {
    this.#immediate += items;
    if (this.#immediate > IMMEDIATE_MAX)
      throw new PerigeeError(
        "too_many",
        `a call waits for at most ${IMMEDIATE_MAX} items without sla: give them an sla in minutes, such as 60, and ask for the task until it is completed`,
        { details: { param: "sla" } },
      );
  }
}

function slaOf(item: RequestItem, index: number): number | null {
  try {
    return parseSlaMinutes(item.sla, `item ${index}`) ?? null;
  } catch (error) {
    if (!(error instanceof PerigeeError)) throw error;
    throw new PerigeeError(error.code, error.message, { details: { param: `${index}.sla` } });
  }
}

/** Bytes that would count as the volume of a request if it were submitted; 0 for a small one. */
export function volumeBytes(items: readonly RequestItem[], bytesOf: (fileId: string) => number): number {
  if (isPostedList(items)) return 0;
  const key = randomUUID();
  return items.reduce((sum, item) => {
    if ("file_id" in item) return sum + bytesOf(item.file_id);
    return sum + Buffer.byteLength(itemLine({ ...item, key })) + 1;
  }, 0);
}

/** Whether items are few, of one sla, and no file: the work log keeps them, unless they go with batches. */
export function isPostedList(items: readonly RequestItem[]): boolean {
  return smallOf({ items, hasOutputFile: false }) !== undefined;
}

/** The volume that determines the price factor of all parts. */
function volumeOf(parts: readonly SpooledPart[]): number {
  return volumeTokensOf(parts.reduce((sum, part) => sum + part.bytes, 0));
}
