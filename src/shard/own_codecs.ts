/**
 * Measuring for codecs that were passed in as code. Threads count their requests and pass them on as JSON; here, on the main
 * thread, the codec makes the bodies, and rejects what it does not take.
 *
 *   block -> thread: tokens, bounds, request as JSON -> codec: body -> columns as of any other block
 *
 * The items of other providers pass untouched. Costs this thread one reading of JSON and one `encode` for each item.
 */
import type { Block } from "../jsonl/block.ts";
import type { KeyColumns, KeyScanOptions } from "../jsonl/keys.ts";
import { requestWritten } from "../providers/own_codec.ts";
import type { Encoded, Provider } from "../providers/provider.ts";
import { parseModelId } from "../work/request.ts";
import { warningsJson } from "../work/warning.ts";
import type { MeasureOptions } from "./measure.ts";
import { keyJsonOf, type MeasuredBlock, type RejectedLine } from "./measured.ts";
import type { Measurer } from "./measurer.ts";
import { PackedBytes } from "./packed_bytes.ts";
import { pickRequests } from "./pick_items.ts";
import { WarningLists } from "./warning_lists.ts";

type Accepted = Extract<Encoded, { readonly ok: true }>;

/** `codecs` are by the names of their providers, whose settings below say `hasOwnCodec`. */
export class OwnCodecMeasurer implements Measurer {
  readonly concurrency: number;
  readonly #below: Measurer;
  readonly #codecs: ReadonlyMap<string, Provider>;

  constructor(below: Measurer, codecs: ReadonlyMap<string, Provider>) {
    this.concurrency = below.concurrency;
    this.#below = below;
    this.#codecs = codecs;
  }

  async measure(block: Block, options: MeasureOptions): Promise<MeasuredBlock> {
    const measured = await this.#below.measure(block, { ...options, wantBodies: true });
    const codecs = measured.groups.map(({ model }) => this.#codecs.get(parseModelId(model)?.provider ?? ""));
    const encoded = codecs.every((codec) => codec === undefined)
      ? measured
      : encodedBy(codecs, measured, !options.wantBodies);
    return options.wantBodies ? encoded : withoutBodies(encoded);
  }

  scanKeys(block: Block, options?: KeyScanOptions): Promise<KeyColumns> {
    return this.#below.scanKeys(block, options);
  }

  close(): Promise<void> {
    return this.#below.close();
  }
}

/** `codecs` are by group. */
function encodedBy(
  codecs: readonly (Provider | undefined)[],
  measured: MeasuredBlock,
  isCheckOnly: boolean,
): MeasuredBlock {
  const bodies = new PackedBytes(Math.max(1_024, measured.bodies.byteLength));
  const keys = new PackedBytes(Math.max(1_024, measured.keys.byteLength));
  const warnings = new Warnings(measured);
  const most = measured.most.slice();
  const kept: number[] = [];
  const rejected: RejectedLine[] = [...measured.rejected];
  for (let item = 0; item < measured.count; item += 1) {
    const codec = codecs[measured.groupOf[item] as number];
    if (codec === undefined) {
      bodies.addRun(measured.bodies, measured.bodyEnds, item, item + 1);
    } else {
      const { request, model } = requestWritten(bodyOf(measured, item));
      const encoded = codec.encode(request, model, isCheckOnly);
      if (!encoded.ok) {
        rejected.push(rejection(measured, item, encoded));
        continue;
      }
      bodies.addText(encoded.body);
      warnings.add(item, encoded);
      if (encoded.outputLimit !== undefined) most[2 * item + 1] = encoded.outputLimit;
    }
    keys.addRun(measured.keys, measured.keyEnds, item, item + 1);
    kept.push(item);
  }
  return {
    ...columnsOf({ ...measured, most, warnings: warnings.numbers }, kept),
    warningLists: warnings.lists,
    keys: keys.toBytes(),
    keyEnds: keys.toEnds(),
    bodies: bodies.toBytes(),
    bodyEnds: bodies.toEnds(),
    ...(measured.requests === undefined ? {} : { requests: pickRequests(measured.requests, kept) }),
    groups: measured.groups,
    rejected: rejected.sort((one, other) => one.line - other.line),
    blankLines: measured.blankLines,
  };
}

/** The warnings of a block, and those that its codecs add. */
class Warnings {
  readonly numbers: Uint16Array<ArrayBuffer>;
  readonly #lists = new WarningLists();

  constructor(measured: MeasuredBlock) {
    this.numbers = measured.warnings.slice();
    for (const list of measured.warningLists) this.#lists.numberOf(list);
  }

  get lists(): readonly string[] {
    return this.#lists.lists;
  }

  /** A thread drops nothing of such an item, so its only warning is that of replaced text. */
  add(item: number, { dropped }: Accepted): void {
    if (dropped.length > 0)
      this.numbers[item] = this.#lists.numberOf(warningsJson(dropped, this.numbers[item] !== 0));
  }
}

function columnsOf(
  measured: MeasuredBlock,
  kept: readonly number[],
): Pick<
  MeasuredBlock,
  | "count"
  | "lines"
  | "offsets"
  | "lengths"
  | "inputTokens"
  | "maxOutputTokens"
  | "most"
  | "groupOf"
  | "warnings"
> {
  const { lines, offsets, lengths, inputTokens, maxOutputTokens, most, groupOf, warnings } = measured;
  const of = (column: Uint32Array): Uint32Array<ArrayBuffer> =>
    Uint32Array.from(kept, (item) => column[item] as number);
  return {
    count: kept.length,
    lines: of(lines),
    offsets: Float64Array.from(kept, (item) => offsets[item] as number),
    lengths: of(lengths),
    inputTokens: of(inputTokens),
    maxOutputTokens: of(maxOutputTokens),
    most: Uint32Array.from(kept.flatMap((item) => [most[2 * item] as number, most[2 * item + 1] as number])),
    groupOf: Uint16Array.from(kept, (item) => groupOf[item] as number),
    warnings: Uint16Array.from(kept, (item) => warnings[item] as number),
  };
}

function rejection(
  measured: MeasuredBlock,
  item: number,
  { code, message }: Exclude<Encoded, Accepted>,
): RejectedLine {
  const key = JSON.parse(keyJsonOf(measured, item)) as string; // a JSON string literal
  return { line: measured.lines[item] as number, key, code, message };
}

function bodyOf({ bodies, bodyEnds }: MeasuredBlock, item: number): string {
  const start = item === 0 ? 0 : (bodyEnds[item - 1] as number);
  return Buffer.from(bodies.buffer, bodies.byteOffset + start, (bodyEnds[item] as number) - start).toString();
}

function withoutBodies(measured: MeasuredBlock): MeasuredBlock {
  return { ...measured, bodies: new Uint8Array(0), bodyEnds: new Uint32Array(measured.count) };
}
