/**
 * What a simulation knows of a file: one row for each item, in columns, without texts.
 *
 *   lines of a block --measured (shard/measure.ts)--> rows
 *                    --not measured-----------------> rows of the block measured last, spread over its lines
 *
 * Counting tokens takes 10 us a line, reading takes 0.5 us: of a file of more than `LINES_MEASURED` lines every n-th block is
 * measured. `samplingError` is twice the standard error of the mean tokens of an item, from how much blocks differ.
 *
 * Limits: 26 bytes an item. Lines with the same key are two items here.
 */
import type { DiskFile } from "../disk.ts";
import type { EngineCore } from "../engine/core.ts";
import { LINE_BYTES_MAX, readBlocks } from "../jsonl/read.ts";
import { batchEndpointOf } from "../providers/batches/batch_endpoints.ts";
import type { BatchEndpoint } from "../providers/batches/batch_wire.ts";
import type { MeasuredBlock } from "../shard/measured.ts";
import type { ExpectedItems } from "./expected_items.ts";

const LINES_MEASURED = 50_000;
const ROWS_START = 16_384;
const MODELS_MAX = 65_536;

/** Rows of items; of each array the first `items` entries count. */
export interface FileShape {
  readonly items: number;
  /** `<provider>:<name>`, by `modelOf`. */
  readonly models: readonly string[];
  /** What the items of each model ask for. */
  readonly endpoints: readonly ReadonlySet<BatchEndpoint>[];
  readonly modelOf: Uint16Array;
  /** Bytes of the lines. */
  readonly bytes: Uint32Array;
  /** As the provider is expected to count them. */
  readonly inputTokens: Uint32Array;
  readonly outputTokens: Uint32Array;
  /** The item's own output limit, 0 without one. */
  readonly outputTokensMax: Uint32Array;
  /** At list price; 0 without a known price. */
  readonly listUsd: Float64Array;
  readonly rejectedLines: number;
  /** Share of the lines that were measured, in (0, 1]. */
  readonly sampledShare: number;
  /** Relative; 0 where all were measured. */
  readonly samplingError: number;
}

interface ReadTerms {
  readonly model?: string | undefined;
  readonly sizeBytes: number;
  /** What answers must fit where items say nothing themselves, as JSON. */
  readonly schema: string | undefined;
}

/** Reads a file to its end. Throws as `run` does for an input that cannot be read. */
export async function readShape(
  { measurer, config }: Pick<EngineCore, "measurer" | "config">,
  file: Pick<DiskFile, "read">,
  expected: ExpectedItems,
  { model, sizeBytes, schema }: ReadTerms,
): Promise<FileShape> {
  const rows = new Rows(expected);
  const override = model === undefined ? {} : { modelOverride: model };
  const waiting: (Promise<MeasuredBlock> | number)[] = [];
  const addNext = async (): Promise<void> => {
    const next = await waiting.shift();
    if (typeof next === "number") rows.addUnmeasured(next);
    else if (next !== undefined) rows.add(next);
  };
  let stride = 0;
  let blocks = 0;
  for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX })) {
    if (event.kind === "refused") {
      rows.rejectedLines += 1;
      continue;
    }
    const { block } = event;
    stride ||= strideOf(sizeBytes, block);
    if (blocks % stride === 0) {
      const measuring = measurer.measure(block, {
        wantBodies: false,
        skip: undefined,
        aliases: config.aliases.first,
        schema,
        ...override,
      });
      measuring.catch(() => undefined); // an earlier one may end the reading first
      waiting.push(measuring);
    } else waiting.push(block.lineCount);
    blocks += 1;
    if (waiting.length > stride * measurer.concurrency) await addNext();
  }
  while (waiting.length > 0) await addNext();
  return rows.shape();
}

/** Every how many blocks are measured. */
function strideOf(
  sizeBytes: number,
  first: { readonly bytes: Uint8Array; readonly lineCount: number },
): number {
  const lines = (sizeBytes / Math.max(1, first.bytes.length)) * first.lineCount;
  return Math.max(1, Math.ceil(lines / LINES_MEASURED));
}

/** Columns that grow. */
class Rows {
  rejectedLines = 0;
  readonly #expected: ExpectedItems;
  readonly #models: { readonly name: string; readonly endpoints: Set<BatchEndpoint> }[] = [];
  readonly #numberOf = new Map<string, number>();
  #columns = columnsOf(ROWS_START);
  #items = 0;
  #sampledLines = 0;
  #lines = 0;
  /** Of the block measured last: its first row, its rows, and its lines that were not accepted. */
  #last = { first: 0, rows: 0, lines: 1, rejected: 0 };
  /** Sums over the measured blocks: their number, means of tokens, and squares of these. */
  readonly #means = { blocks: 0, sum: 0, squares: 0 };

  constructor(expected: ExpectedItems) {
    this.#expected = expected;
  }

  add(measured: MeasuredBlock): void {
    const { count, groups, groupOf } = measured;
    this.#grow(count);
    const groupCounts = countsOf(groupOf, count, groups.length);
    const numbers = groups.map(({ model }) => this.#number(model));
    const first = this.#items;
    const isChecked = this.#expected.checkedIn(measured);
    const { modelOf, bytes, outputTokensMax } = this.#columns;
    let tokens = 0;
    for (let item = 0; item < count; item += 1) {
      const index = groupOf[item] as number;
      const row = first + item;
      modelOf[row] = numbers[index] as number;
      bytes[row] = measured.lengths[item] as number;
      outputTokensMax[row] = measured.maxOutputTokens[item] as number;
      const group = groups[index];
      if (group === undefined) continue;
      this.#models[numbers[index] as number]?.endpoints.add(batchEndpointOf(group.endpoint));
      const beyond = (group.beyond?.tokens ?? 0) / Math.max(1, groupCounts[index] as number);
      const counted = (measured.inputTokens[item] as number) + beyond;
      tokens += this.#expect(row, group, counted, isChecked(item));
    }
    this.#items += count;
    const lines = count + measured.rejected.length + measured.blankLines;
    this.#note(lines, tokens / Math.max(1, count));
    this.rejectedLines += measured.rejected.length;
    this.#last = { first, rows: count, lines: Math.max(1, lines), rejected: measured.rejected.length };
  }

  /** Returns the tokens of the row. */
  #expect(row: number, group: MeasuredBlock["groups"][number], counted: number, isChecked: boolean): number {
    const { inputTokens, outputTokens, outputTokensMax, listUsd } = this.#columns;
    const item = this.#expected.of(group, counted, outputTokensMax[row] as number, isChecked);
    inputTokens[row] = item.inputTokens;
    outputTokens[row] = item.outputTokens;
    listUsd[row] = item.listUsd;
    return item.inputTokens + item.outputTokens;
  }

  /** A block of so many lines that was not measured. */
  addUnmeasured(lineCount: number): void {
    const { first, rows, lines, rejected } = this.#last;
    const count = Math.round((lineCount * rows) / lines);
    this.#grow(count);
    for (const column of Object.values(this.#columns)) {
      for (let item = 0; item < count; item += 1)
        column[this.#items + item] = column[first + Math.floor((item * rows) / count)] as number;
    }
    this.#items += count;
    this.#lines += lineCount;
    this.rejectedLines += Math.round((lineCount * rejected) / lines);
  }

  #note(lines: number, mean: number): void {
    this.#lines += lines;
    this.#sampledLines += lines;
    this.#means.blocks += 1;
    this.#means.sum += mean;
    this.#means.squares += mean * mean;
  }

  shape(): FileShape {
    const sampledShare = this.#lines === 0 ? 1 : this.#sampledLines / this.#lines;
    return {
      items: this.#items,
      models: this.#models.map(({ name }) => name),
      endpoints: this.#models.map(({ endpoints }) => endpoints),
      ...this.#columns,
      rejectedLines: this.rejectedLines,
      sampledShare,
      samplingError: this.#errorAt(sampledShare),
    };
  }

  /** Twice the standard error of the mean of sampled blocks, relative (Cochran 1977, section 2.6). */
  #errorAt(sampledShare: number): number {
    const { blocks, sum, squares } = this.#means;
    if (sampledShare >= 1 || blocks < 2 || sum <= 0) return 0;
    const mean = sum / blocks;
    const variance = Math.max(0, squares - blocks * mean * mean) / (blocks - 1);
    return (2 * Math.sqrt((variance / blocks) * (1 - sampledShare))) / mean;
  }

  #number(model: string): number {
    const known = this.#numberOf.get(model);
    if (known !== undefined) return known;
    if (this.#models.length === MODELS_MAX) throw new RangeError(`more than ${MODELS_MAX} models`);
    this.#numberOf.set(model, this.#models.length);
    return this.#models.push({ name: model, endpoints: new Set() }) - 1;
  }

  #grow(more: number): void {
    const needed = this.#items + more;
    if (needed <= this.#columns.modelOf.length) return;
    const larger = columnsOf(Math.max(needed, 2 * this.#columns.modelOf.length));
    for (const name of Object.keys(larger) as (keyof Columns)[]) larger[name].set(this.#columns[name]);
    this.#columns = larger;
  }
}

/** How often each of so many numbers occurs among the first entries of a column. */
export function countsOf(column: Uint16Array, entries: number, numbers: number): Uint32Array {
  const counts = new Uint32Array(numbers);
  for (let entry = 0; entry < entries; entry += 1) {
    const number = column[entry] as number;
    counts[number] = (counts[number] as number) + 1;
  }
  return counts;
}

type Columns = ReturnType<typeof columnsOf>;

function columnsOf(rows: number) {
  return {
    modelOf: new Uint16Array(rows),
    bytes: new Uint32Array(rows),
    inputTokens: new Uint32Array(rows),
    outputTokens: new Uint32Array(rows),
    outputTokensMax: new Uint32Array(rows),
    listUsd: new Float64Array(rows),
  };
}
