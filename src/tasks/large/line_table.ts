/**
 * The items of a lot's own file, a thousand at a time: the line of each, its tokens and its model.
 *
 * The threads count them on demand; the last 64 thousands that were read are kept. For a file that was removed since its lot ended, or
 * is missing or damaged, the lot's own index knows which lines were items, and their tokens as the provider counted; the model is known
 * only if the lot has just one.
 */

import type { Disk } from "../../disk.ts";
import { errorCodeOf } from "../../disk.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { requestShareOf } from "../../shard/joined_body.ts";
import { kindOf, modelOf } from "../../shard/measured.ts";
import type { Measurer } from "../../shard/pool.ts";
import type { EndpointKind } from "../../work/request.ts";
import { itemLinesIn, itemsUpTo } from "../lots/item_lines.ts";
import type { Lot } from "../lots/lot.ts";
import { INDEX_STEP } from "../lots/request_spool.ts";

const KEPT_MAX = 64;
const NO_REQUEST = { tokens: 0, most: 0, model: "", kind: undefined, requests: 1 };

/** Items in the order of their lines, as columns. */
export interface LotItemRows {
  readonly lines: readonly number[];
  /** 0 for a line that is not a request. */
  readonly inputTokens: readonly number[];
  /** The items' own limits; 0 without one. */
  readonly maxOutputTokens: readonly number[];
  readonly models: readonly string[];
  /** Undefined for chats, and where the file is gone. */
  readonly kinds: readonly (EndpointKind | undefined)[];
  /** The part of a request that each needs. */
  readonly requests: readonly number[];
}

/** Keeps the thousands that were read last. */
export class LineTable {
  readonly #disk: Disk;
  readonly #measurer: Measurer;
  /** The most recently read one is last. */
  readonly #kept = new Map<string, Promise<LotItemRows>>();

  constructor(disk: Disk, measurer: Measurer) {
    this.#disk = disk;
    this.#measurer = measurer;
  }

  /** The first thousand items of a lot, which need not be open yet. */
  firstRows(lot: Pick<Lot, "record" | "path">): Promise<LotItemRows> {
    return this.#read(lot, 0);
  }

  /** The thousand items from item `step` x 1,000 on. */
  rows(lot: Lot, step: number): Promise<LotItemRows> {
    const key = `${lot.record.id}\n${step}`;
    const known = this.#kept.get(key);
    this.#kept.delete(key);
    const rows = known ?? this.#readOrRecall(lot, step);
    this.#kept.set(key, rows);
    rows.catch(() => this.#kept.delete(key));
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX) break;
      this.#kept.delete(oldest);
    }
    return rows;
  }

  /** The thousand that contains a line. */
  stepOf(lot: Lot, line: number): number {
    const starts = lot.record.itemLines;
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((starts[middle] as number) <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  async #readOrRecall(lot: Lot, step: number): Promise<LotItemRows> {
    try {
      const rows = await this.#read(lot, step);
      return rows.lines.length < expected(lot, step) ? recalled(lot, step) : rows;
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return recalled(lot, step);
      throw error;
    }
  }

  async #read(lot: Pick<Lot, "record" | "path">, step: number): Promise<LotItemRows> {
    const { itemLines, itemOffsets } = lot.record;
    const found: {
      readonly line: number;
      readonly tokens: number;
      readonly most: number;
      readonly model: string;
      readonly kind: EndpointKind | undefined;
      readonly requests: number;
    }[] = [];
    const file = await this.#disk.open(lot.path, "read");
    try {
      const options = {
        lineBytesMax: LINE_BYTES_MAX,
        fromOffset: itemOffsets[step] ?? 0,
        fromLine: itemLines[step] ?? 1,
        toOffset: itemOffsets[step + 1],
      };
      for await (const event of readBlocks(file, options)) {
        if (event.kind === "refused") {
          found.push({ line: event.refused.line, ...NO_REQUEST });
          continue;
        }
        const measured = await this.#measurer.measure(event.block, { wantBodies: false });
        for (let item = 0; item < measured.count; item += 1)
          found.push({
            line: measured.lines[item] as number,
            tokens: measured.inputTokens[item] as number,
            most: measured.maxOutputTokens[item] as number,
            model: modelOf(measured, item),
            kind: kindOf(measured, item),
            requests: requestShareOf(measured, item),
          });
        for (const { line } of measured.rejected) found.push({ line, ...NO_REQUEST });
      }
    } finally {
      await file.close();
    }
    found.sort((a, b) => a.line - b.line);
    const items = found.slice(0, INDEX_STEP);
    return {
      lines: items.map(({ line }) => line),
      inputTokens: items.map(({ tokens }) => tokens),
      maxOutputTokens: items.map(({ most }) => most),
      models: items.map(({ model }) => model),
      kinds: items.map(({ kind }) => kind),
      requests: items.map(({ requests }) => requests),
    };
  }
}

/** Number of items in a thousand. */
function expected({ record }: Lot, step: number): number {
  return itemsUpTo(record, step) - step * INDEX_STEP;
}

function recalled(lot: Lot, step: number): LotItemRows {
  const { record, index } = lot;
  const [{ model } = { model: "" }, ...others] = record.works ?? [];
  const lines = itemLinesIn(lot, step, expected(lot, step));
  return {
    lines,
    inputTokens: lines.map((line) => index.get(line).inputTokens),
    maxOutputTokens: lines.map(() => 0),
    models: lines.map(() => (others.length === 0 ? model : "")),
    kinds: lines.map(() => undefined),
    requests: lines.map(() => 1),
  };
}
