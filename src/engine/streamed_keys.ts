/**
 * Duplicate keys in an input that cannot be read twice: the later line gets the error.
 */
import { hashKey } from "../jsonl/keys.ts";
import type { MeasuredBlock, RejectedLine } from "../shard/measured.ts";
import { SeenKeys } from "../shard/streaming_keys.ts";
import type { RunState } from "./run_state.ts";

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
      const keyJson = measured.keys.subarray(startOf(measured.keyEnds, item), measured.keyEnds[item]);
      if (!this.#isNew(keyJson)) rejected.push(repeated(line, keyJson));
      else if (!this.#state.settings.done.has(line)) kept.push(item);
    }
    return kept.length === measured.count ? { ...measured, rejected } : { ...pick(measured, kept), rejected };
  }

  #isNew(keyJson: Uint8Array): boolean {
    const { high, low } = hashKey(keyJson);
    return this.#seen.add(high, low);
  }
}

function repeated(line: number, keyJson: Uint8Array): RejectedLine {
  const key = JSON.parse(Buffer.from(keyJson).toString()) as string; // a JSON string literal that a codec of ours wrote
  return { line, key, code: "duplicate_key", message: "an earlier line has the same key" };
}

function startOf(ends: Uint32Array, item: number): number {
  return item === 0 ? 0 : (ends[item - 1] as number);
}

function pick(measured: MeasuredBlock, kept: readonly number[]): MeasuredBlock {
  const keys = pickBytes(measured.keys, measured.keyEnds, kept);
  const bodies = pickBytes(measured.bodies, measured.bodyEnds, kept);
  return {
    ...measured,
    count: kept.length,
    lines: Uint32Array.from(kept, (item) => measured.lines[item] as number),
    offsets: Float64Array.from(kept, (item) => measured.offsets[item] as number),
    lengths: Uint32Array.from(kept, (item) => measured.lengths[item] as number),
    inputTokens: Uint32Array.from(kept, (item) => measured.inputTokens[item] as number),
    maxOutputTokens: Uint32Array.from(kept, (item) => measured.maxOutputTokens[item] as number),
    most: Uint32Array.from(kept.flatMap((item) => [...measured.most.subarray(2 * item, 2 * item + 2)])),
    groupOf: Uint16Array.from(kept, (item) => measured.groupOf[item] as number),
    warnings: Uint16Array.from(kept, (item) => measured.warnings[item] as number),
    keys: keys.bytes,
    keyEnds: keys.ends,
    bodies: bodies.bytes,
    bodyEnds: bodies.ends,
  };
}

function pickBytes(
  bytes: Uint8Array,
  ends: Uint32Array,
  kept: readonly number[],
): { readonly bytes: Uint8Array<ArrayBuffer>; readonly ends: Uint32Array<ArrayBuffer> } {
  const pieces = kept.map((item) => bytes.subarray(startOf(ends, item), ends[item]));
  let end = 0;
  const pickedEnds = Uint32Array.from(pieces, (piece) => {
    end += piece.byteLength;
    return end;
  });
  const picked = new Uint8Array(end);
  pieces.forEach((piece, index) => {
    picked.set(piece, startOf(pickedEnds, index));
  });
  return { bytes: picked, ends: pickedEnds };
}
