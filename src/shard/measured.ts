/**
 * What a worker thread makes of a block of lines: columns of numbers and packed bytes, no objects per item, so that
 * the whole answer moves to the main thread by transfer.
 *
 * Column `i` of every array belongs to the same item. Items are in the order of their lines.
 */
import type { FailureCode } from "../errors.ts";
import { asBuffer } from "../jsonl/lines.ts";
import type { JoinedBodies } from "../providers/provider.ts";
import type { EndpointKind } from "../work/request.ts";
import type { SharedPrefix } from "./prefix_ends.ts";

/** What items have in common that are sent from one shard. */
export interface ItemGroup {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** What the lines call it, where that is an alias: another model may answer them. */
  readonly alias?: string | undefined;
  /** Of other endpoints than a chat's. */
  readonly endpoint?: EndpointKind | undefined;
  /** How the items are sent in one request; absent if each is sent by itself. */
  readonly joins?: JoinedBodies | undefined;
  /** The bodies name files, which are put into them when they are sent (providers/inserts.ts). */
  readonly hasInserts?: true | undefined;
  /** Hash of the system instruction's texts; 0 without one, or when the items have different ones. */
  readonly prefixHash: number;
  /** Tokens of that system instruction; 0 without one. */
  readonly prefixTokens: number;
  /** The longest prefix that they share with each other or with other items, where it is long enough for a prompt cache. */
  readonly shared?: SharedPrefix | undefined;
  /** True when the model's tokenizer is not public and counts carry a factor. */
  readonly isEstimated: boolean;
}

/** Items that can be packed together: one model and one shared prefix (system instruction). */
export interface MeasuredGroup extends ItemGroup {
  /** What the group's items hold besides their texts (request_most.ts); absent if nothing. */
  readonly beyond?: BeyondTexts;
}

/** Sums over the items of a group. */
export interface BeyondTexts {
  /** Tokens that tools, schemas and images are expected to take. */
  readonly tokens: number;
  /** The most that they take. */
  readonly tokensMost: number;
  /** Price of each requested tier over the list price, minus 1; negative for cheaper tiers. */
  readonly tierExcess: number;
  /** Items with parts that no formula counts (audio, files, images of other models). */
  readonly itemsUncounted: number;
}

/** A line that cannot become an item. */
export interface RejectedLine {
  readonly line: number;
  /** The key as in the line, or null when it could not be read. */
  readonly key: string | null;
  readonly code: FailureCode;
  readonly message: string;
  /** For `provider_missing`: the name of the provider. */
  readonly provider?: string;
  /** The member of the item that is at fault, as the item calls it; absent where the code says it. */
  readonly field?: string;
}

/** Keys of requests as columns (answers/request_key.ts). */
export interface RequestKeys {
  /** Item `i` has the 32 bytes from `32 i` on; zeros for one whose answer is not kept. */
  readonly keys: Uint8Array<ArrayBuffer>;
  /** 1 for an item whose answer is not left to chance, else 0. */
  readonly areCertain: Uint8Array<ArrayBuffer>;
}

export interface MeasuredBlock {
  readonly count: number;
  /** Line numbers, from 1. */
  readonly lines: Uint32Array<ArrayBuffer>;
  /** Byte offset of each line in the input. */
  readonly offsets: Float64Array<ArrayBuffer>;
  /** Bytes of each line without its line end. */
  readonly lengths: Uint32Array<ArrayBuffer>;
  /** Input tokens with the protocol's overhead. */
  readonly inputTokens: Uint32Array<ArrayBuffer>;
  /** The item's own output limit, 0 without one. */
  readonly maxOutputTokens: Uint32Array<ArrayBuffer>;
  /** The most that an attempt can take (request_most.ts): item `i` has its input tokens at `2i`, its output tokens after them. */
  readonly most: Uint32Array<ArrayBuffer>;
  /** Index into `groups`. */
  readonly groupOf: Uint16Array<ArrayBuffer>;
  /** Number of the item's list in `warningLists`, from 1; 0 for an item without warnings. */
  readonly warnings: Uint16Array<ArrayBuffer>;
  /** The different lists of warnings, each as JSON (`work/warning.ts`); few, because lines of a file are alike. */
  readonly warningLists: readonly string[];
  /**
   * Keys as JSON string literals in UTF-8, end to end; item `i` spans `keyEnds[i-1]..keyEnds[i]`. After a key, each after a line
   * end, its item's metadata and its own schema in JSON, as far as it has them.
   */
  readonly keys: Uint8Array<ArrayBuffer>;
  readonly keyEnds: Uint32Array<ArrayBuffer>;
  /** Wire bodies in UTF-8, end to end; item `i` spans `bodyEnds[i-1]..bodyEnds[i]`. */
  readonly bodies: Uint8Array<ArrayBuffer>;
  readonly bodyEnds: Uint32Array<ArrayBuffer>;
  /** Which requests are the same; absent unless it is wanted. */
  readonly requests?: RequestKeys | undefined;
  readonly groups: readonly MeasuredGroup[];
  readonly rejected: readonly RejectedLine[];
  /** Lines with nothing on them. */
  readonly blankLines: number;
}

/** What an item asks for; undefined: a chat. */
export function kindOf(
  { groups, groupOf }: Pick<MeasuredBlock, "groups" | "groupOf">,
  item: number,
): EndpointKind | undefined {
  return groups[groupOf[item] as number]?.endpoint;
}

/** The model of an item. */
export function modelOf(
  { groups, groupOf }: Pick<MeasuredBlock, "groups" | "groupOf">,
  item: number,
): string {
  return groups[groupOf[item] as number]?.model ?? "";
}

/** The key of an item, as a JSON string literal. */
export function keyJsonOf({ keys, keyEnds }: MeasuredBlock, item: number): string {
  const start = item === 0 ? 0 : (keyEnds[item - 1] as number);
  return asBuffer(keyIn(keys.subarray(start, keyEnds[item]))).toString();
}

/** What an item says of its answer's schema, in JSON; empty text where it says nothing. */
export function schemaJsonOf({ keys, keyEnds }: MeasuredBlock, item: number): string {
  return schemaIn(keys.subarray(item === 0 ? 0 : keyEnds[item - 1], keyEnds[item]));
}

/** The metadata of an item in JSON; empty text without any. */
export function metadataJsonOf({ keys, keyEnds }: MeasuredBlock, item: number): string {
  return metadataIn(keys.subarray(item === 0 ? 0 : keyEnds[item - 1], keyEnds[item]));
}

/** The key in the bytes of a key and its metadata. */
export function keyIn(bytes: Uint8Array): Uint8Array {
  const end = bytes.indexOf(LINE_END);
  return end < 0 ? bytes : bytes.subarray(0, end);
}

/** Whether any item has metadata or a schema in the bytes of several keys. */
export function hasMetadata(keys: Uint8Array): boolean {
  return keys.includes(LINE_END);
}

/** The metadata there, in JSON; empty text without any. */
export function metadataIn(bytes: Uint8Array): string {
  const start = bytes.indexOf(LINE_END) + 1;
  if (start === 0) return "";
  const end = bytes.indexOf(LINE_END, start);
  return asBuffer(bytes.subarray(start, end < 0 ? undefined : end)).toString();
}

/** The schema there, in JSON; empty text without any. */
export function schemaIn(bytes: Uint8Array): string {
  const metadata = bytes.indexOf(LINE_END);
  const start = metadata < 0 ? 0 : bytes.indexOf(LINE_END, metadata + 1) + 1;
  return start === 0 ? "" : asBuffer(bytes.subarray(start)).toString();
}

const LINE_END = 0x0a;
