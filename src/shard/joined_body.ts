/**
 * The body of one request for several items of a shard, which differ only in their inputs.
 *
 *   {"input":"a","model":"m"}  {"input":"b","model":"m"}  ->  {"input":["a","b"],"model":"m"}
 *
 * Hot path: one copy of each input's bytes.
 */
import type { JoinedBodies } from "../providers/provider.ts";
import type { MeasuredBlock } from "./measured.ts";
import type { Shard } from "./shard.ts";

const COMMA = 0x2c;

/** In how many requests so many items of a group are sent, as far as nothing but its own bounds divides them. */
export function requestsOf(
  joins: Pick<JoinedBodies, "inputsMax" | "tokensMax"> | undefined,
  items: number,
  inputTokens: number,
): number {
  if (joins === undefined || items <= 0) return items;
  const fitting = joins.tokensMax / Math.max(1, inputTokens / items);
  const together = Math.floor(Math.min(joins.inputsMax, fitting));
  return items / Math.max(1, together);
}

/** The part of a request that an item needs, since others may share it. */
export function requestShareOf(
  { groups, groupOf, inputTokens }: Pick<MeasuredBlock, "groups" | "groupOf" | "inputTokens">,
  item: number,
): number {
  return requestsOf(groups[groupOf[item] as number]?.joins, 1, inputTokens[item] as number);
}

/** Of the items `from` to the one before `to`, at least one; the shard is prepared, and its group has `joins`. */
export function joinedBody(shard: Shard, from: number, to: number): Uint8Array {
  const { joins } = shard.group;
  if (joins === undefined) throw new TypeError("the bodies of this shard cannot be joined");
  const [openBytes, closeBytes] = [Buffer.byteLength(joins.open), Buffer.byteLength(joins.close)];
  const [listOpen, listClose] = [Buffer.from(joins.listOpen), Buffer.from(joins.listClose)];
  let bytes = listOpen.byteLength + listClose.byteLength + to - from - 1;
  for (let item = from; item < to; item += 1) bytes += shard.bodyBytes(item) - openBytes - closeBytes;
  const whole = Buffer.allocUnsafe(bytes);
  let at = listOpen.copy(whole, 0);
  for (let item = from; item < to; item += 1) {
    if (item > from) whole[at++] = COMMA;
    const body = shard.body(item);
    whole.set(body.subarray(openBytes, body.byteLength - closeBytes), at);
    at += body.byteLength - openBytes - closeBytes;
  }
  listClose.copy(whole, at);
  return whole;
}
