/**
 * A shard: items of one model that move through memory together, as columns of numbers and their prepared bytes.
 *
 *   prepared -> dropped (waits too long) -> prepared (reload.ts makes the bytes again from the input) -> ...
 *
 * Items are in the order of their lines. All columns but those of warnings and of different prefixes, which few shards have, share one
 * buffer, so that a dropped shard costs a few hundred bytes and 32 bytes an item. A checksum taken when bytes are dropped shows, at the reload, whether lines changed.
 */
import { crc32 } from "node:zlib";
import { PerigeeError } from "../errors.ts";
import { asBuffer } from "../jsonl/lines.ts";
import { hasMetadata, type ItemGroup, keyIn, metadataIn, schemaIn } from "./measured.ts";

/** Keys and wire bodies of a shard's items, end to end; item `i` spans `ends[i-1]..ends[i]`. */
export interface PreparedBytes {
  /** Keys as JSON string literals in UTF-8, and metadata, as in `MeasuredBlock`. */
  readonly keys: Uint8Array;
  readonly keyEnds: Uint32Array;
  /** Wire bodies in UTF-8. */
  readonly bodies: Uint8Array;
  readonly bodyEnds: Uint32Array;
}

/** The columns from which a shard is made; all of one length. They are copied. */
export interface ShardColumns {
  readonly lines: ArrayLike<number>;
  readonly offsets: ArrayLike<number>;
  readonly lengths: ArrayLike<number>;
  readonly inputTokens: ArrayLike<number>;
  readonly maxOutputTokens: ArrayLike<number>;
  /** Two for each item. */
  readonly most: ArrayLike<number>;
  /** Numbers of lists from 1, 0 for none; see `MeasuredBlock`. */
  readonly warnings: ArrayLike<number>;
  readonly warningLists: readonly string[];
  /** Hash of each item's system instruction, where they have different ones. */
  readonly prefixes?: ArrayLike<number> | undefined;
}

/** The bytes that one item takes in a shard whose prepared bytes were dropped. */
const COLUMN_BYTES = 8 + 6 * 4;

export class Shard {
  readonly group: ItemGroup;
  /** Line numbers, from 1, rising. */
  readonly lines: Uint32Array;
  /** Byte offset of each line in the input. */
  readonly offsets: Float64Array;
  /** Bytes of each line without its line end. */
  readonly lengths: Uint32Array;
  /** Input tokens with the protocol's overhead. */
  readonly inputTokens: Uint32Array;
  /** The item's own output limit, 0 without one. */
  readonly maxOutputTokens: Uint32Array;
  /** The most that an attempt of item `i` can take: input tokens at `2i`, output tokens after them. */
  readonly most: Uint32Array;
  /** Sum of `inputTokens`. */
  readonly inputTokensTotal: number;
  /** Sum of `maxOutputTokens` over the items that have a limit. */
  readonly maxOutputTokensTotal: number;
  /** Items without an output limit. */
  readonly unlimitedCount: number;
  /** Undefined when no item has a warning. */
  readonly #warnings: { readonly numbers: Uint16Array; readonly lists: readonly string[] } | undefined;
  readonly #prefixes: Float64Array | undefined;
  #prepared: HeldBytes | undefined;
  /** CRC-32 of the prepared bytes, once they were dropped. */
  #checksum = 0;

  /** Copies the columns; takes over `prepared`. `columns.lines` must rise. */
  constructor(group: ItemGroup, columns: ShardColumns, prepared: PreparedBytes) {
    const count = columns.lines.length;
    const buffer = new ArrayBuffer(count * COLUMN_BYTES);
    this.group = group;
    this.offsets = new Float64Array(buffer, 0, count);
    this.lines = new Uint32Array(buffer, count * 8, count);
    this.lengths = new Uint32Array(buffer, count * 12, count);
    this.inputTokens = new Uint32Array(buffer, count * 16, count);
    this.maxOutputTokens = new Uint32Array(buffer, count * 20, count);
    this.most = new Uint32Array(buffer, count * 24, 2 * count);
    this.offsets.set(columns.offsets);
    this.lines.set(columns.lines);
    this.lengths.set(columns.lengths);
    this.inputTokens.set(columns.inputTokens);
    this.maxOutputTokens.set(columns.maxOutputTokens);
    this.most.set(columns.most);
    this.#prepared = held(prepared);
    const { warningLists: lists } = columns;
    this.#warnings = lists.length === 0 ? undefined : { numbers: Uint16Array.from(columns.warnings), lists };
    this.#prefixes = columns.prefixes === undefined ? undefined : Float64Array.from(columns.prefixes);
    let inputTokensTotal = 0;
    let maxOutputTokensTotal = 0;
    let unlimitedCount = 0;
    for (let item = 0; item < count; item += 1) {
      inputTokensTotal += this.inputTokens[item] as number;
      const limit = this.maxOutputTokens[item] as number;
      maxOutputTokensTotal += limit;
      if (limit === 0) unlimitedCount += 1;
    }
    this.inputTokensTotal = inputTokensTotal;
    this.maxOutputTokensTotal = maxOutputTokensTotal;
    this.unlimitedCount = unlimitedCount;
  }

  /** The warnings of an item as JSON; empty text without any. */
  warnings(item: number): string {
    if (this.#warnings === undefined) return "";
    const { numbers, lists } = this.#warnings;
    return lists[(numbers[item] ?? 0) - 1] ?? "";
  }

  /** Hash of an item's system instruction; 0 without one. */
  prefixHash(item: number): number {
    return this.#prefixes?.[item] ?? this.group.prefixHash;
  }

  /** `<provider>:<name>`. */
  get model(): string {
    return this.group.model;
  }

  /** Items, at least 1. */
  get count(): number {
    return this.lines.length;
  }

  /** Bytes of keys and bodies held in memory; 0 once dropped. */
  get preparedBytes(): number {
    if (this.#prepared === undefined) return 0;
    return this.#prepared.keys.byteLength + this.#prepared.bodies.byteLength;
  }

  /** Whether `body` and `keyJson` may be called. */
  get isPrepared(): boolean {
    return this.#prepared !== undefined;
  }

  /** The wire body of an item: a view, not a copy. Only while prepared. */
  body(item: number): Uint8Array {
    const { bodies, bodyEnds } = this.#bytes();
    return bodies.subarray(item === 0 ? 0 : bodyEnds[item - 1], bodyEnds[item]);
  }

  /** Of an item's wire body. Only while prepared. */
  bodyBytes(item: number): number {
    const { bodyEnds } = this.#bytes();
    return (bodyEnds[item] as number) - (item === 0 ? 0 : (bodyEnds[item - 1] as number));
  }

  /** The key of an item as a JSON string literal. Only while prepared. */
  keyJson(item: number): string {
    const bytes = this.#keyBytes(item);
    return asBuffer(this.#bytes().hasMetadata ? keyIn(bytes) : bytes).toString();
  }

  /** Its metadata in JSON; empty text without any. Only while prepared. */
  metadata(item: number): string {
    return this.#bytes().hasMetadata ? metadataIn(this.#keyBytes(item)) : "";
  }

  /** What it says of its answer's schema, in JSON; empty text where it says nothing. Only while prepared. */
  schema(item: number): string {
    return this.#bytes().hasMetadata ? schemaIn(this.#keyBytes(item)) : "";
  }

  #keyBytes(item: number): Uint8Array {
    const { keys, keyEnds } = this.#bytes();
    return keys.subarray(item === 0 ? 0 : keyEnds[item - 1], keyEnds[item]);
  }

  /** Frees keys and bodies; `reloadShard` brings them back. No effect when already dropped. */
  dropPrepared(): void {
    if (this.#prepared === undefined) return;
    this.#checksum = checksumOf(this.#prepared);
    this.#prepared = undefined;
  }

  /**
   * Takes the bytes made again from the input. Throws `input_changed` when they are not those that were dropped.
   * No effect while prepared.
   */
  restore(prepared: PreparedBytes): void {
    if (this.#prepared !== undefined) return;
    if (prepared.bodyEnds.length !== this.count || checksumOf(prepared) !== this.#checksum) {
      throw inputChanged(this);
    }
    this.#prepared = held(prepared);
  }

  #bytes(): HeldBytes {
    if (this.#prepared === undefined) throw new TypeError("a dropped shard has no bytes: reload it first");
    return this.#prepared;
  }
}

/** The error for a shard whose lines are not what they were when it was measured. */
export function inputChanged({ lines }: Pick<Shard, "lines">): PerigeeError {
  const first = lines[0];
  const last = lines.at(-1);
  return new PerigeeError(
    "input_changed",
    `lines ${first} to ${last} of the input are not what they were when they were first read`,
    { details: { firstLine: first, lastLine: last } },
  );
}

/** With the keys as a Buffer, so that reading one makes one view of them, and is searched for metadata only where any item has some. */
interface HeldBytes extends PreparedBytes {
  readonly hasMetadata: boolean;
}

function held(prepared: PreparedBytes): HeldBytes {
  const { bodies, bodyEnds, keyEnds } = prepared;
  const keys = asBuffer(prepared.keys);
  return { keys, keyEnds, bodies, bodyEnds, hasMetadata: hasMetadata(keys) };
}

function checksumOf(prepared: PreparedBytes): number {
  let sum = crc32(prepared.keys);
  sum = crc32(bytesOf(prepared.keyEnds), sum);
  sum = crc32(prepared.bodies, sum);
  return crc32(bytesOf(prepared.bodyEnds), sum);
}

function bytesOf(ends: Uint32Array): Uint8Array {
  return new Uint8Array(ends.buffer, ends.byteOffset, ends.byteLength);
}

/** The most that one attempt can take, of `count` items from `index` together. `most`: the column of a shard or a block. */
export function mostOf(
  most: Shard["most"],
  index: number,
  count = 1,
): { readonly inputTokens: number; readonly maxOutputTokens: number } {
  let [inputTokens, maxOutputTokens] = [0, 0];
  for (let item = index; item < index + count; item += 1) {
    inputTokens += most[2 * item] as number;
    maxOutputTokens += most[2 * item + 1] as number;
  }
  return { inputTokens, maxOutputTokens };
}
