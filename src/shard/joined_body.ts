/**
 * The body of one request for several items of a shard, which differ only in their inputs.
 *
 *   {"input":"a","model":"m"}  {"input":"b","model":"m"}  ->  {"input":["a","b"],"model":"m"}
 *
 * Hot path: one copy of each input's bytes.
 */
import type { Shard } from "./shard.ts";

const COMMA = 0x2c;

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
