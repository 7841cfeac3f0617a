/**
 * Duplicate keys in an input that cannot be read twice: the later line gets the error.
 */
import { hashKey } from "../../jsonl/keys.ts";
import { keyIn, type MeasuredBlock, type RejectedLine } from "../../shard/measured.ts";
import { pickItems } from "../../shard/pick_items.ts";
import { SeenKeys } from "../../shard/streaming_keys.ts";
import type { RunState } from "../items/run_state.ts";

/** Fed with every block of the stream in order, also with those that are done: their keys count. */
export class StreamedKeys {
  readonly #seen = new SeenKeys();
  readonly #state: RunState;

  constructor(state: RunState) {
    this.#state = state;
  }

  /** The block without items that are done already and without repeated keys, which become rejected lines. */
  filter(measured: MeasuredBlock): MeasuredBlock {
    const kept: number[] = [];
    const rejected: RejectedLine[] = [...measured.rejected];
    for (const { key } of measured.rejected) {
      if (key !== null) this.#isNew(Buffer.from(JSON.stringify(key)));
    }
    for (let item = 0; item < measured.count; item += 1) {
      const line = measured.lines[item] as number;
      const bytes = measured.keys.subarray(startOf(measured.keyEnds, item), measured.keyEnds[item]);
      const keyJson = keyIn(bytes);
      if (!this.#isNew(keyJson)) rejected.push(repeated(line, keyJson));
      else if (!this.#state.items.done.has(line)) kept.push(item);
    }
    return kept.length === measured.count
      ? { ...measured, rejected }
      : { ...pickItems(measured, kept), rejected };
  }

  #isNew(keyJson: Uint8Array): boolean {
    const { high, low } = hashKey(keyJson);
    return this.#seen.add(high, low);
  }
}

function repeated(line: number, keyJson: Uint8Array): RejectedLine {
  const key = JSON.parse(Buffer.from(keyJson).toString()) as string; // a JSON string literal that perigee's codec wrote
  return { line, key, code: "duplicate_key", message: "an earlier line has the same key" };
}

function startOf(ends: Uint32Array, item: number): number {
  return item === 0 ? 0 : (ends[item - 1] as number);
}
